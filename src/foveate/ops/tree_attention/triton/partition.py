# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Partitioning a forest into tiles: lists of nodes that a kernel loads once and finishes.

A *closed* tile is a run of whole families: their children, then their parents. All edges between
its members stay inside it, so one tile of scores covers them, forward and backward. A *large*
family, with more members than a tile has slots, is spread over several tiles that attend to each
other. Every node is a child in exactly one tile (including roots, which have no parent there). An
*inner* node, one with children, also is a parent in another tile, or in several.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

from ..tree import SIZE

_CHUNK = 256
"""Nodes whose families one program partitions, one closed tile after the other."""

# The report is a vector of integers that kernels fill and the host reads: the numbers of closed
# tiles, large families' tiles, and tiles of either kind with inner children; then the fields that
# are named below. Only later kernels read it, so its atomic additions need no order.
_NUM_LARGE, _NUM_INNER, _NUM_LARGE_INNER = map(tl.constexpr, range(1, 4))
LARGEST_FAMILY, INVALID, UNSORTED, NUM_NODES = map(tl.constexpr, range(4, 8))
REPORT_SIZE = 8


class ForestTiles(NamedTuple):
    """The tiles of a forest: closed ones from the first on, large families' from the last on.

    Attributes:
        members: `(capacity, 2, SIZE)` int32. For each tile the nodes in its slots, -1 in an empty
            slot, and their roles: 4 · family within the tile + 2 · has children + is a parent here.
            The role of an empty slot is -4, which puts it into a family of its own that is never
            read.
        lists: `(4, capacity)` int32. The closed tiles that have inner nodes among their children;
            the large families' tiles that do; and for each large family's tile the first tile of
            its family, and the end of its family's tiles.
        counts: The numbers of closed tiles, of large families' tiles, and of tiles with inner nodes
            among their children of either kind.
    """

    members: Tensor
    lists: Tensor
    counts: list[int]

    @property
    def capacity(self) -> int:
        """The number of tiles that are allocated."""
        return self.lists.shape[1]

    def renumber(self, order: Tensor) -> "ForestTiles":
        """Return the same tiles with node i renamed to `order[i]`."""
        members = torch.empty_like(self.members)
        tensors = self.members, order, members
        launch(_renumber, self.capacity, tensors, (), (len(order),), (SIZE,), num_warps=1)
        return self._replace(members=members)


def partition(parent: Tensor, first_child: Tensor, num_children: Tensor) -> ForestTiles:
    """Partition a forest in level order, `(n,)` int64 each, into tiles. Synchronizes once."""
    report = torch.zeros(REPORT_SIZE, dtype=torch.int32, device=parent.device)
    report[NUM_NODES.value] = len(parent)
    tables = enqueue_partition(parent, first_child, num_children, report)
    return ForestTiles(*tables, report[:4].tolist())


def enqueue_partition(
    parent: Tensor, first_child: Tensor, num_children: Tensor, report: Tensor
) -> tuple[Tensor, Tensor]:
    """Partition a forest without synchronizing: the counts are left in the report.

    Args:
        parent: `(n,)` int64, like the others; elements from `report[NUM_NODES]` on are not nodes.
        first_child: First child of each node.
        num_children: Number of children of each node.
        report: int32. Receives the counts, and is marked as unsorted if the nodes are not sorted by
            their parents. If it is already marked as invalid, nothing is partitioned.

    Returns:
        The members and the lists of `ForestTiles`.
    """
    # Any two consecutive closed tiles of a chunk have more members than one tile has slots, and
    # there are at most two members for each node: itself and its parent.
    chunks = -(-len(parent) // _CHUNK)
    capacity = 4 * len(parent) // SIZE + chunks
    members = torch.empty(capacity, 2, SIZE, dtype=torch.int32, device=parent.device)
    lists = torch.empty(4, capacity, dtype=torch.int32, device=parent.device)
    tensors = (parent, first_child, num_children, members, lists, report)
    launch(_partition, chunks, tensors, (), (capacity,), (_CHUNK, SIZE), num_warps=2)
    return members, lists


@triton.jit(do_not_specialize=["capacity"])
def _partition(
    parent,
    first_child,
    num_children,
    members,
    lists,
    report,
    capacity,
    CHUNK: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Partition the families that begin among this program's CHUNK nodes.

    If the nodes turn out not to be sorted by their parents, the output is useless but within
    bounds.
    """
    n = tl.where(tl.load(report + INVALID) == 0, tl.load(report + NUM_NODES), 0)
    node = tl.cast(tl.program_id(0), tl.int64) * CHUNK
    stop = tl.minimum(node + CHUNK, n)
    if node >= stop:
        return
    first_parent = tl.load(parent + node)
    if not _check_sorted(parent, num_children, report, node + tl.arange(0, CHUNK), n):
        return
    if first_parent >= 0:
        first = tl.load(first_child + first_parent)
        if first < node:  # a family that the previous chunk takes
            node = first + tl.load(num_children + first_parent)

    slot = tl.arange(0, SIZE)
    up, before, after, children = _load_window(parent, num_children, node + slot, slot, n)
    while node < stop:
        real = node + slot < n
        opens = real & ((up != before) | (up < 0))  # every root is a family of its own
        closes = real & ((up != after) | (up < 0))
        # A family that begins in the next chunk belongs to that chunk: count it as not fitting.
        next_chunk = tl.where(opens & (node + slot >= stop), SIZE, 0)
        num_parents = tl.cumsum((opens & (up >= 0)).to(tl.int32) + next_chunk, 0)
        num_fitting = tl.max(tl.where(closes & (slot + 1 + num_parents <= SIZE), slot + 1, 0), 0)
        begin, begin_up, begin_children = node, up, children
        size = tl.cast(num_fitting, tl.int64)
        if num_fitting == 0:
            size = tl.load(num_children + tl.load(parent + node))
        node += size
        # Loads of the next window overlap with the stores of this one.
        up, before, after, children = _load_window(parent, num_children, node + slot, slot, n)
        if num_fitting > 0:
            tile = tl.atomic_add(report, 1, sem="relaxed")
            real = slot < num_fitting
            inner = real & (begin_children > 0)
            _store_closed_tile(
                members,
                tile,
                capacity,
                slot,
                begin + slot,
                begin_up,
                real,
                inner,
                opens,
                num_parents,
                num_fitting,
                SIZE,
            )
            if (tile < capacity) & (tl.max(inner.to(tl.int32), 0) > 0):
                tl.store(lists + tl.atomic_add(report + _NUM_INNER, 1, sem="relaxed"), tile)
        else:
            family_parent = tl.load(parent + begin)
            _store_large_family(
                num_children, members, lists, report, begin, size, family_parent, n, capacity, SIZE
            )


@triton.jit
def _load_window(parent, num_children, node, slot, n):
    """Load the parents of SIZE nodes and of their neighbours, and their numbers of children."""
    real = node < n
    up = tl.load(parent + node, mask=real, other=-1)
    before = tl.load(parent + node - 1, mask=real & (slot > 0), other=-2)
    after = tl.load(parent + node + 1, mask=node + 1 < n, other=-2)
    return up, before, after, tl.load(num_children + node, mask=real, other=0)


@triton.jit
def _store_closed_tile(
    members,
    tile,
    capacity,
    slot,
    node,
    parent,
    real,
    inner,
    opens,
    num_parents,
    num_children,
    SIZE: tl.constexpr,
):
    """Store a closed tile: its children, then their parents over the empty slots after them."""
    fits = slot < (capacity - tile) * SIZE
    family = tl.cumsum(opens.to(tl.int32), 0) - 1
    target = members + tile * (2 * SIZE) + slot
    tl.store(target, tl.where(real, node, -1).to(tl.int32), mask=fits)
    role = tl.where(real, 4 * family + 2 * inner.to(tl.int32), -4)
    tl.store(target + SIZE, role, mask=fits)
    tl.debug_barrier()
    target += num_children + num_parents - 1 - slot
    opens = opens & real & (parent >= 0) & fits
    tl.store(target, parent.to(tl.int32), mask=opens)
    tl.store(target + SIZE, 4 * family + 3, mask=opens)


@triton.jit
def _store_large_family(
    num_children,
    members,
    lists,
    report,
    begin,
    size,
    parent,
    n,
    capacity,
    SIZE: tl.constexpr,
):
    """Store the tiles of a large family: its children, then their parent."""
    slot = tl.arange(0, SIZE)
    tiles = ((size + SIZE) // SIZE).to(tl.int32)
    first_tile = capacity - tl.atomic_add(report + _NUM_LARGE, tiles, sem="relaxed") - tiles
    for turn in range(tiles):
        tile = first_tile + turn
        fits = slot < (tile + 1) * SIZE
        index = tl.cast(turn, tl.int64) * SIZE + slot  # within the family, its parent the last
        child = begin + index
        real = (index < size) & (child < n)
        inner = tl.load(num_children + child, mask=real, other=0) > 0
        member = tl.where(index == size, parent, tl.where(real, child, -1))
        role = tl.where(real, 2 * inner.to(tl.int32), -4)
        role = tl.where(index == size, 3, role)
        target = members + tile * (2 * SIZE) + slot
        tl.store(target, member.to(tl.int32), mask=fits)
        tl.store(target + SIZE, role, mask=fits)
        if tile >= 0:
            tl.store(lists + 2 * capacity + tile, first_tile)
            tl.store(lists + 3 * capacity + tile, first_tile + tiles)
            if tl.max(inner.to(tl.int32), 0) > 0:
                nth = tl.atomic_add(report + _NUM_LARGE_INNER, 1, sem="relaxed")
                tl.store(lists + capacity + nth, tile)


@triton.jit
def _check_sorted(parent, num_children, report, node, n):
    """Return whether nodes are sorted by their parents; report that and the largest family."""
    sizes = tl.load(num_children + node, mask=node < n, other=0)
    tl.atomic_max(report + LARGEST_FAMILY, tl.max(sizes, 0).to(tl.int32), sem="relaxed")
    up = tl.load(parent + node, mask=node < n, other=-1)
    before = tl.load(parent + node - 1, mask=(node > 0) & (node < n), other=-1)
    unsorted = tl.max(((node < n) & (up < before)).to(tl.int32), 0)
    tl.atomic_max(report + UNSORTED, unsorted, sem="relaxed")
    return unsorted == 0


@triton.jit(do_not_specialize=["n"])
def _renumber(members, order, renumbered, n, SIZE: tl.constexpr):
    """Copy a tile and renumber its nodes; an allocated tile that is unused holds anything."""
    slot = tl.arange(0, 2 * SIZE)
    index = tl.program_id(0) * (2 * SIZE) + slot
    member = tl.load(members + index)
    node = tl.load(order + member, mask=(member >= 0) & (member < n), other=-1).to(tl.int32)
    tl.store(renumbered + index, tl.where(slot < SIZE, node, member))
