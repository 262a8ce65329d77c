"""Documents as trees: anchors for the document, its sections and sentences, and tokens below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from foveate.documents import Document

AnchorKind = Literal["document", "section", "sentence"]

NODE_TYPES = {"token": 0, "sentence": 1, "section": 2, "document": 3}
"""Values of `node_types`; padding is -1."""


class Anchor(NamedTuple):
    """An inner node of a document's tree.

    Attributes:
        kind: What the anchor stands for.
        parent: Index of the parent among the anchors, -1 at the document.
        text: The words under a sentence's anchor; empty for sections and the document.
        sentence_idx: Which of `Document.sentences` it is; None for titles and other anchors.
    """

    kind: AnchorKind
    parent: int
    text: str = ""
    sentence_idx: int | None = None


def outline(document: Document, *, levels: int | None = None) -> list[Anchor]:
    """List the anchors of a document in reading order, parents before their children.

    A title is the first sentence of its section or document, as in HDT's training (HDT, 4.2).

    Args:
        document: The document.
        levels: Depth of the deepest token. More deeply nested sections become siblings of the
            section that contains them; 3 is the published form (document, sections, sentences, with
            the title in the first section). None keeps every level of nesting.

    Raises:
        ValueError: `levels` is below 3.
    """
    if levels is not None and levels < 3:
        raise ValueError(
            f"levels must be at least 3 (sections, sentences, tokens) or None, got {levels}"
        )
    deepest_section = levels - 2 if levels is not None else None
    anchors = [Anchor("document", -1)]

    def add_sentence(parent: int, text: str, sentence_idx: int | None = None) -> None:
        if text:
            anchors.append(Anchor("sentence", parent, text, sentence_idx))

    title = document.title
    if levels is None:
        add_sentence(0, title)
    num_sentences = 0
    open_anchors = [0]  # the document, then the open sections from outermost to innermost
    for path, section in document.walk():
        depth = min(len(path), deepest_section or len(path))
        del open_anchors[depth:]
        section_anchor = len(anchors)
        anchors.append(Anchor("section", open_anchors[-1]))
        open_anchors.append(section_anchor)
        if levels is not None and section_anchor == 1:
            add_sentence(section_anchor, title)
        add_sentence(section_anchor, section.title)
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                add_sentence(section_anchor, sentence.text, num_sentences)
                num_sentences += 1
    return anchors


@dataclass(frozen=True)
class TreeNodes:
    """The nodes of a tree in reading order: every anchor, followed by the tokens under it.

    Attributes:
        input_ids: `(nodes,)` int64.
        parent_ids: `(nodes,)` int64, index of each node's parent, -1 at a root.
        node_types: `(nodes,)` int64, see `NODE_TYPES`.
        anchor_idx: `(nodes,)` int64, the anchor that a node is or belongs to.
        positions: `(nodes,)` int64, 0 at an anchor, and its tokens counted from 1.
    """

    input_ids: Tensor
    parent_ids: Tensor
    node_types: Tensor
    anchor_idx: Tensor
    positions: Tensor

    @classmethod
    def from_anchors(
        cls,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        tokens: Sequence[Sequence[int]],
        anchor_ids: Mapping[AnchorKind, int],
    ) -> Self:
        """Build the nodes of anchors.

        Args:
            kinds: The kind of each anchor.
            parents: Index of each anchor's parent among the anchors, -1 at a root.
            tokens: Token ids under each anchor.
            anchor_ids: Token id of each kind of anchor.
        """
        num_tokens = [len(ids) for ids in tokens]
        parent_ids, anchor_idx, positions = place_nodes(parents, num_tokens)
        is_token = positions > 0
        input_ids = torch.tensor([anchor_ids[kind] for kind in kinds], dtype=torch.long)[anchor_idx]
        types = torch.tensor([NODE_TYPES[kind] for kind in kinds], dtype=torch.long)[anchor_idx]
        # From lists, NumPy makes an array in a fifth of the time that PyTorch takes for a tensor.
        token_ids = np.fromiter(chain.from_iterable(tokens), np.int64, sum(num_tokens))
        input_ids[is_token] = torch.from_numpy(token_ids)
        types[is_token] = NODE_TYPES["token"]
        return cls(input_ids, parent_ids, types, anchor_idx, positions)


def place_nodes(
    anchor_parents: Sequence[int], num_tokens: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `parent_ids`, `anchor_idx` and `positions` of `TreeNodes`.

    Args:
        anchor_parents: Index of each anchor's parent, -1 at a root.
        num_tokens: Number of tokens under each anchor.
    """
    sizes = torch.tensor(num_tokens, dtype=torch.long) + 1
    starts = sizes.cumsum(0) - sizes
    anchor_idx = torch.arange(len(sizes)).repeat_interleave(sizes)
    positions = torch.arange(len(anchor_idx)) - starts[anchor_idx]
    parents = torch.tensor(anchor_parents, dtype=torch.long)
    parents = torch.where(parents >= 0, starts[parents], -1)
    parent_ids = torch.where(positions == 0, parents[anchor_idx], starts[anchor_idx])
    return parent_ids, anchor_idx, positions


def split_long(
    tokens: Sequence[list[int]], max_tokens: int | None
) -> tuple[list[int], list[list[int]]]:
    """Split lists of tokens into pieces of at most `max_tokens`; an empty list stays one piece.

    Returns:
        The index of the list that each piece is from, and the pieces.
    """
    owners: list[int] = []
    pieces: list[list[int]] = []
    for owner, ids in enumerate(tokens):
        if max_tokens is None or len(ids) <= max_tokens:
            owners.append(owner)
            pieces.append(ids)
        else:
            for start in range(0, len(ids), max_tokens):
                owners.append(owner)
                pieces.append(ids[start : start + max_tokens])
    return owners, pieces


def parents_of_pieces(owners: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Compute the parent of each piece: the first piece of its owner's parent.

    Args:
        owners: The anchor that each piece is from, as `split_long` gives it.
        parents: Each anchor's parent, -1 at a root.
    """
    first_piece: dict[int, int] = {-1: -1}
    for piece, owner in enumerate(owners):
        first_piece.setdefault(owner, piece)
    return [first_piece[parents[owner]] for owner in owners]


def closing_ids(bare: list[int], enclosed: list[int]) -> list[int]:
    """Find the ids that a tokenizer adds after a sentence, such as that of [SEP].

    Args:
        bare: The ids of a sentence without special tokens.
        enclosed: Its ids with them.

    Raises:
        ValueError: The tokenizer does not put exactly one token before a sentence.
    """
    if len(enclosed) < len(bare) + 1 or enclosed[1 : 1 + len(bare)] != bare:
        raise ValueError(
            "the tokenizer does not put exactly one token (CLS) before a sentence, "
            "as an encoder with anchors needs"
        )
    return enclosed[1 + len(bare) :]
