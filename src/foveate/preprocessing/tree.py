"""Documents as trees: their anchors in reading order, and the nodes of anchors and tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from foveate.documents import Document, Sentence


class Anchor(NamedTuple):
    """An inner node of a document's tree.

    Attributes:
        kind: what the anchor stands for.
        parent: index of the parent in the outline, -1 at the document.
        text: the words under a sentence's anchor; empty for sections and the document.
        sentence: the sentence of the document; None where the words are a title.
    """

    kind: Literal["document", "section", "sentence"]
    parent: int
    text: str = ""
    sentence: Sentence | None = None


def outline(document: Document, *, levels: int | None = None) -> list[Anchor]:
    """List the anchors of a document in reading order, parents before their children.

    A title is the first sentence of what it names, as the published HDT was trained (HDT, 4.2).

    Args:
        document: the document.
        levels: depth of the deepest token. Sections that nest deeper than it allows stand beside
            the section that holds them; 3 is the published form (document, sections, sentences,
            with the title in the first section). None keeps every level of nesting.

    Raises:
        ValueError: `levels` below 3.
    """
    if levels is not None and levels < 3:
        raise ValueError(
            f"levels must be at least 3 (sections, sentences, tokens) or None, got {levels}"
        )
    deepest_section = levels - 2 if levels is not None else None
    anchors = [Anchor("document", -1)]

    def add_sentence(parent: int, text: str, sentence: Sentence | None = None) -> None:
        if text:
            anchors.append(Anchor("sentence", parent, text, sentence))

    title = document.title
    if levels is None:
        add_sentence(0, title)
    enclosing = [0]  # the document, then the open sections from outermost to innermost
    for path, section in document.walk():
        depth = min(len(path), deepest_section or len(path))
        del enclosing[depth:]
        here = len(anchors)
        anchors.append(Anchor("section", enclosing[-1]))
        enclosing.append(here)
        if levels is not None and here == 1:
            add_sentence(here, title)
        add_sentence(here, section.title)
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                add_sentence(here, sentence.text, sentence)
    return anchors


@dataclass(frozen=True)
class Nodes:
    """Every anchor, followed by the tokens that hang under it.

    Attributes:
        input_ids: `(nodes,)` int64.
        parents: `(nodes,)`, -1 at a root.
        anchor: `(nodes,)`, index of the anchor that a node is or hangs under.
        position: `(nodes,)`, 0 at an anchor, and its tokens counted from 1.
    """

    input_ids: Tensor
    parents: Tensor
    anchor: Tensor
    position: Tensor

    @classmethod
    def of(
        cls,
        anchor_ids: Iterable[int],
        anchor_parents: Sequence[int],
        tokens: Sequence[Sequence[int]],
    ) -> Self:
        """Lay out anchors, each with its token id, its parent among the anchors, and its tokens."""
        parents, anchor, position = place_nodes(anchor_parents, [len(own) for own in tokens])
        ids = [i for own_id, own in zip(anchor_ids, tokens, strict=True) for i in (own_id, *own)]
        return cls(torch.tensor(ids), parents, anchor, position)


def place_nodes(
    anchor_parents: Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Give `parents`, `anchor` and `position` of `Nodes`.

    Args:
        anchor_parents: index of each anchor's parent, -1 at a root.
        sizes: number of tokens under each anchor.
    """
    families = torch.tensor(sizes) + 1
    place = families.cumsum(0) - families
    anchor = torch.arange(len(families)).repeat_interleave(families)
    position = torch.arange(len(anchor)) - place[anchor]
    above = torch.tensor(anchor_parents)
    above = torch.where(above >= 0, place[above], -1)
    return torch.where(position == 0, above[anchor], place[anchor]), anchor, position


def split_long(
    tokens: Sequence[list[int]], longest: int | None
) -> tuple[list[int], list[list[int]]]:
    """Cut token lists into pieces of at most `longest`; an empty list is one empty piece.

    Returns:
        Which list each piece is of, and the pieces.
    """
    owners: list[int] = []
    pieces: list[list[int]] = []
    for owner, own in enumerate(tokens):
        step = longest or max(1, len(own))
        for start in range(0, max(1, len(own)), step):
            owners.append(owner)
            pieces.append(own[start : start + step])
    return owners, pieces


def parents_of_pieces(owners: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Hang every piece under the first piece of its owner's parent.

    Args:
        owners: which anchor each piece is of, from `split_long`.
        parents: each anchor's parent, -1 at a root.
    """
    first: dict[int, int] = {-1: -1}
    for place, owner in enumerate(owners):
        first.setdefault(owner, place)
    return [first[parents[owner]] for owner in owners]
