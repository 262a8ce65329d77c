"""Anchors and the tokens under them as the nodes of a tree, in reading order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


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
