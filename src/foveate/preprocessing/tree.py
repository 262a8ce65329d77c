"""Documents as trees: anchors for the document, its sections and sentences, and tokens below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from foveate.documents import Document

Token = TypeVar("Token")
AnchorKind = Literal["document", "section", "sentence"]

NODE_TYPES = {"token": 0, "sentence": 1, "section": 2, "document": 3, "passage": 4}
"""Values of `node_types`; padding is -1."""


class Anchor(NamedTuple):
    """A document, a section or a sentence, as a node of the outline.

    Attributes:
        kind: What it stands for.
        parent: Index of its parent in the outline, -1 at the document.
        text: The words of a sentence; empty for sections and the document.
        sentence_idx: Which of `Document.sentences` it is; None for titles, sections and documents.
        starts_paragraph: Whether a paragraph begins with this sentence; true at titles.
        speaker: Who says the sentence, if the sentence before it is not the same speaker's.
    """

    kind: AnchorKind
    parent: int
    text: str = ""
    sentence_idx: int | None = None
    starts_paragraph: bool = False
    speaker: str = ""


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

    def add_title(parent: int, text: str) -> None:
        if text:
            anchors.append(Anchor("sentence", parent, text, starts_paragraph=True))

    title = document.title
    if levels is None:
        add_title(0, title)
    num_sentences = 0
    speaker = None
    open_anchors = [0]  # the document, then the open sections from outermost to innermost
    for path, section in document.walk():
        depth = min(len(path), deepest_section or len(path))
        del open_anchors[depth:]
        section_anchor = len(anchors)
        anchors.append(Anchor("section", open_anchors[-1]))
        open_anchors.append(section_anchor)
        if levels is not None and section_anchor == 1:
            add_title(section_anchor, title)
        add_title(section_anchor, section.title)
        for paragraph in section.paragraphs:
            turn = paragraph.speaker if paragraph.speaker != speaker else None
            speaker = paragraph.speaker
            for i, sentence in enumerate(paragraph.sentences):
                says = turn if turn and i == 0 else ""
                anchors.append(
                    Anchor("sentence", section_anchor, sentence.text, num_sentences, i == 0, says)
                )
                num_sentences += 1
    return anchors


@dataclass(frozen=True)
class TreeNodes:
    """The nodes of a tree in reading order: every anchor, followed by the tokens under it.

    Attributes:
        input_ids: `(nodes,)` int64.
        parent_ids: `(nodes,)` int64, index of each node's parent, -1 at a root.
        node_types: `(nodes,)` int64, see `NODE_TYPES`.
        piece_idx: `(nodes,)` int64, the section, document or piece of a sentence that a node stands
            for or belongs to; of a passage's anchor, the first in it.
        positions: `(nodes,)` int64, 0 at an anchor, and its tokens counted from 1.
    """

    input_ids: Tensor
    parent_ids: Tensor
    node_types: Tensor
    piece_idx: Tensor
    positions: Tensor

    @classmethod
    def from_pieces(
        cls,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        tokens: Sequence[Sequence[int]],
        passages: Sequence[int],
        anchor_ids: Mapping[AnchorKind, int],
        *,
        passage_type: int,
    ) -> Self:
        """Build the nodes of the pieces of an outline.

        Args:
            kinds: The kind of each piece.
            parents: Index of each piece's parent among the pieces, -1 at a root.
            tokens: Token ids of each piece of a sentence.
            passages: The first piece of each one's passage; itself for sections and documents.
            anchor_ids: Token id of each kind of anchor.
            passage_type: The type of the anchors above tokens.
        """
        num_tokens = [len(ids) for ids in tokens]
        parent_ids, piece_idx, positions = place_nodes(parents, num_tokens, passages)
        is_token = positions > 0
        types = {**NODE_TYPES, "sentence": passage_type}
        input_ids = torch.tensor([anchor_ids[kind] for kind in kinds], dtype=torch.long)[piece_idx]
        node_types = torch.tensor([types[kind] for kind in kinds], dtype=torch.long)[piece_idx]
        # From lists, NumPy makes an array in a fifth of the time that PyTorch takes for a tensor.
        token_ids = np.fromiter(chain.from_iterable(tokens), np.int64, sum(num_tokens))
        input_ids[is_token] = torch.from_numpy(token_ids)
        node_types[is_token] = NODE_TYPES["token"]
        return cls(input_ids, parent_ids, node_types, piece_idx, positions)


def place_nodes(
    parents: Sequence[int], num_tokens: Sequence[int], passages: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `parent_ids`, `piece_idx` and `positions` of `TreeNodes`.

    Args:
        parents: Index of each piece's parent, -1 at a root.
        num_tokens: Number of tokens of each piece.
        passages: The first piece of each one's passage; itself where it has an anchor of its own.
    """
    first = torch.tensor(passages, dtype=torch.long)
    sizes = torch.tensor(num_tokens, dtype=torch.long) + (first == torch.arange(len(first)))
    starts = sizes.cumsum(0) - sizes
    piece_idx = torch.arange(len(sizes)).repeat_interleave(sizes)
    anchors = starts[first][piece_idx]
    positions = torch.arange(len(piece_idx)) - anchors
    above = torch.tensor(parents, dtype=torch.long)
    above = torch.where(above >= 0, starts[above], -1)
    return torch.where(positions == 0, above[piece_idx], anchors), piece_idx, positions


def passage_columns(
    kinds: Sequence[AnchorKind],
    parents: Sequence[int],
    tokens: Sequence[list[int]],
    passages: Sequence[int],
    cls_id: int,
) -> dict[str, Tensor]:
    """Build the inputs of a TreeBert: passages one after another, and the outline around them.

    Args:
        kinds: The kind of each piece of an outline.
        parents: Index of each piece's parent among the pieces, -1 at a root.
        tokens: Token ids of each piece of a sentence; none for sections and documents.
        passages: The first piece of each one's passage.
        cls_id: The token that begins a passage.

    Returns:
        int64 columns: `input_ids`, `position_ids`, counted from 0 in each passage, and
        `anchor_ids`, the piece that each token belongs to, -1 at the first of a passage,
        `(tokens,)`; and `anchor_parents` and `anchor_kinds`, see `NODE_TYPES`, `(pieces,)`.
    """
    ids = [
        [cls_id, *own] if own and first == piece else own
        for piece, (own, first) in enumerate(zip(tokens, passages, strict=True))
    ]
    sizes = torch.tensor([len(own) for own in ids], dtype=torch.long)
    starts = sizes.cumsum(0) - sizes
    anchor_ids = torch.arange(len(ids)).repeat_interleave(sizes)
    first = torch.tensor(passages, dtype=torch.long)
    position_ids = torch.arange(len(anchor_ids)) - starts[first][anchor_ids]
    # From lists, NumPy makes an array in a fifth of the time that PyTorch takes for a tensor.
    input_ids = np.fromiter(chain.from_iterable(ids), np.int64, len(anchor_ids))
    return {
        "input_ids": torch.from_numpy(input_ids),
        "position_ids": position_ids,
        "anchor_ids": anchor_ids.where(position_ids > 0, -1),
        "anchor_parents": torch.tensor(parents, dtype=torch.long),
        "anchor_kinds": torch.tensor([NODE_TYPES[kind] for kind in kinds], dtype=torch.long),
    }


def join_into_passages(
    owners: Sequence[int],
    num_tokens: Sequence[int],
    anchors: Sequence[Anchor],
    passage_tokens: int | None,
) -> list[int]:
    """Join consecutive pieces of sentences of a section into passages.

    A passage holds as many whole pieces as fit, but ends with a paragraph that ends in its last
    quarter.

    Args:
        owners: The anchor that each piece is from.
        num_tokens: Number of tokens of each piece.
        anchors: The outline.
        passage_tokens: Most tokens of a passage; None for passages of one piece.

    Returns:
        The first piece of each one's passage; itself for sections and documents.

    Example:
        >>> sentences = [Anchor("sentence", 0, "x", i, starts_paragraph=i == 3) for i in range(5)]
        >>> join_into_passages([0, 1, 2, 3, 4, 5], [0, 3, 3, 3, 3, 3],
        ...                    [Anchor("document", -1), *sentences], 12)
        [0, 1, 1, 1, 4, 4]
    """
    if passage_tokens is None:
        return list(range(len(owners)))
    passages: list[int] = []
    first = total = 0
    section = -1  # of the passage that is still open; -1 if none is
    for piece, (owner, size) in enumerate(zip(owners, num_tokens, strict=True)):
        anchor = anchors[owner]
        is_full = total + size > passage_tokens or (
            anchor.starts_paragraph and 4 * total >= 3 * passage_tokens
        )
        if anchor.kind != "sentence" or anchor.parent != section or is_full:
            first, total = piece, 0
        section = anchor.parent if anchor.kind == "sentence" else -1
        total += size
        passages.append(first)
    return passages


def split_long(
    tokens: Sequence[list[Token]], max_tokens: int | None
) -> tuple[list[int], list[list[Token]]]:
    """Split lists of tokens into pieces of at most `max_tokens`; an empty list stays one piece.

    Returns:
        The index of the list that each piece is from, and the pieces.
    """
    owners: list[int] = []
    pieces: list[list[Token]] = []
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
