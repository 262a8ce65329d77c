"""Which nodes a block of queries attends (Fovea, 2.2).

A sequence is N blocks. The level-q node that starts at block s stands for blocks s … s + 2^q - 1.
Seen from a query block, nodes of level 0, 1, 2, … are laid end to end on both sides, k of each.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, count
from typing import NamedTuple

COVERAGES = ("full", "paper")


class Node(NamedTuple):
    """A level-`level` node over blocks `start` to `start + 2^level - 1`."""

    level: int
    start: int

    @property
    def blocks(self) -> int:
        """Number of blocks it stands for."""
        return 1 << self.level


@lru_cache(maxsize=64)
def plan(num_blocks: int, k_neighbours: int, coverage: str) -> tuple[tuple[Node, ...], ...]:
    """Select the nodes of each query block, left to right, its own block among them.

    Args:
        num_blocks: N.
        k_neighbours: k, the nodes of each level on each side.
        coverage: "paper" drops the nodes that do not fit inside the sequence (eq. 7); "full" tiles
            what they leave over with the largest nodes that fit.

    Example:
        >>> [tuple(node) for node in plan(6, 1, "paper")[0]]  # two blocks are never seen
        [(0, 0), (0, 1), (1, 2)]
        >>> [tuple(node) for node in plan(6, 1, "full")[0]]
        [(0, 0), (0, 1), (1, 2), (1, 4)]
    """
    return tuple(_select(block, num_blocks, k_neighbours, coverage) for block in range(num_blocks))


def _select(block: int, num_blocks: int, k_neighbours: int, coverage: str) -> tuple[Node, ...]:
    left = list(_outwards(block, k_neighbours, coverage))
    right = list(_outwards(num_blocks - block - 1, k_neighbours, coverage))
    levels = [*reversed(left), 0, *right]
    first = block - sum(1 << level for level in left)
    starts = accumulate((1 << level for level in levels), initial=first)
    return tuple(Node(*node) for node in zip(levels, starts, strict=False))


def _outwards(room: int, k_neighbours: int, coverage: str) -> Iterator[int]:
    """Levels of the nodes that lie end to end in `room` blocks beside a block (eq. 4-7)."""
    for level in (level for level in count() for _ in range(k_neighbours)):
        if room < 1 << level:
            break
        yield level
        room -= 1 << level
    if coverage == "full":  # the remainder's binary digits are the largest nodes that fit
        yield from (level for level in reversed(range(room.bit_length())) if room >> level & 1)
