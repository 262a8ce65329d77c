"""The nodes that a block of queries attends to (Fovea, 2.2).

A sequence is N blocks. The level-q node that starts at block s covers blocks s … s + 2^q - 1. Seen
from a query block, nodes of level 0, 1, 2, … are laid end to end on both sides, k of each level.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, count
from typing import NamedTuple

COVERAGES = ("full", "paper")
"""Whether nodes tile the whole sequence, or those that do not fit are dropped (Fovea, eq. 7)."""


class PyramidNode(NamedTuple):
    """The node of level `level` over blocks `start` to `start + 2^level - 1`."""

    level: int
    start: int

    @property
    def num_blocks(self) -> int:
        """The number of blocks that the node covers."""
        return 1 << self.level


@lru_cache(maxsize=64)
def select_nodes(
    num_blocks: int, k_neighbours: int, coverage: str, stop_level: int | None = None
) -> tuple[tuple[PyramidNode, ...], ...]:
    """Select the nodes of each query block, left to right, including the block itself.

    Args:
        num_blocks: N.
        k_neighbours: k, the number of nodes of each level on each side.
        coverage: "paper" drops the nodes that do not fit inside the sequence (eq. 7); "full" covers
            the blocks that remain with the largest nodes that fit.
        stop_level: The number of levels; nodes of the last go on to the end of the sequence. None
            for as many levels as fit.

    Example:
        >>> [tuple(node) for node in select_nodes(6, 1, "paper")[0]]  # two blocks are never seen
        [(0, 0), (0, 1), (1, 2)]
        >>> [tuple(node) for node in select_nodes(6, 1, "full")[0]]
        [(0, 0), (0, 1), (1, 2), (1, 4)]
    """
    return tuple(
        _select(block, num_blocks, k_neighbours, coverage, stop_level)
        for block in range(num_blocks)
    )


def _select(
    block: int, num_blocks: int, k_neighbours: int, coverage: str, stop_level: int | None
) -> tuple[PyramidNode, ...]:
    left = list(_outward_levels(block, k_neighbours, coverage, stop_level))
    room = num_blocks - block - 1
    right = list(_outward_levels(room, k_neighbours, coverage, stop_level))
    levels = [*reversed(left), 0, *right]
    first = block - sum(1 << level for level in left)
    starts = accumulate((1 << level for level in levels), initial=first)
    return tuple(PyramidNode(*node) for node in zip(levels, starts, strict=False))


def _outward_levels(
    room: int, k_neighbours: int, coverage: str, stop_level: int | None
) -> Iterator[int]:
    """Return the levels of the nodes laid end to end in the `room` blocks on one side (eq. 4-7)."""
    for number in count():
        level = number // k_neighbours
        if stop_level is not None:
            level = min(level, stop_level - 1)
        if room < 1 << level:
            break
        yield level
        room -= 1 << level
    if coverage == "full":  # the binary digits of the remainder are the largest nodes that fit
        yield from (level for level in reversed(range(room.bit_length())) if room >> level & 1)
