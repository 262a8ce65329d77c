# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Cutting a forest into tiles: lists of rows that the kernels load once and finish.

A *block* is a run of whole families: their children, then their parents. Whatever its members
exchange stays inside, so one tile of scores settles it, forward and backward. A family with more
members than a tile has slots, a *large* one, is spread over several tiles that see each other.
Every node is a child in exactly one tile (roots too, without a parent); a node with children, an
*inner* node, also is a parent in one other tile or more.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

SIZE = 64
"""Slots of a tile."""

_CHUNK = 256
"""Rows whose families one program cuts, one block after the other."""

# The report that kernels fill and the host reads, a row of integers: how many blocks, large tiles,
# and tiles with inner children among either; then these. Only later kernels read it, so that no
# addition has to wait for what was written before it.
_LARGE, _INNER, _LARGE_INNER, LARGEST, WRONG, UNSETTLED, TOKENS = map(tl.constexpr, range(1, 8))
REPORT = 8


class Blocks(NamedTuple):
    """The tiles of a forest: blocks from the first on, large families' from the last on.

    Attributes:
        members: for each tile, the rows of its members, -1 in empty slots, and their roles:
            4 · family within the tile + 2 · has children + stands here as a parent; -4 in empty
            slots, which thereby are a family of their own that nobody reads.
            `(capacity, 2, SIZE)` int32.
        lists: the blocks that have inner nodes among their children; the large families' tiles
            that do; for each tile of these the first of its family, and the first one behind it.
            `(4, capacity)` int32.
        counts: how many blocks, large families' tiles, and tiles with inner children among either.
    """

    members: Tensor
    lists: Tensor
    counts: list[int]

    @property
    def capacity(self) -> int:
        """How many tiles there is room for."""
        return self.lists.shape[1]

    def renumbered(self, order: Tensor) -> "Blocks":
        """Return the same tiles where row i of the forest is the caller's row `order[i]`."""
        members = torch.empty_like(self.members)
        tensors = self.members, order, members
        launch(_renumber, self.capacity, tensors, (), (len(order),), (SIZE,), num_warps=1)
        return self._replace(members=members)


def cut(parent: Tensor, first_child: Tensor, num_children: Tensor) -> Blocks:
    """Cut a forest in level order, `(n,)` int64 each, into tiles. Waits for the device once."""
    report = torch.zeros(REPORT, dtype=torch.int32, device=parent.device)
    report[TOKENS.value] = len(parent)
    tables = begin_to_cut(parent, first_child, num_children, report)
    return Blocks(*tables, report[:4].tolist())


def begin_to_cut(
    parent: Tensor, first_child: Tensor, num_children: Tensor, report: Tensor
) -> tuple[Tensor, Tensor]:
    """Cut a forest without waiting for the device: the counts are left in the report.

    Args:
        parent: `(n,)` int64, like the others; rows from `report[TOKENS]` on are no nodes.
        first_child: first rows of families.
        num_children: sizes of families.
        report: int32, where counts are added, and a fault if rows are not sorted by their parents.
            Nothing is cut where another fault has been noted.

    Returns:
        The members and the lists of `Blocks`.
    """
    # Of a chunk's blocks any two in succession have more members than a tile has slots, and there
    # are at most two for each row: it and its parent.
    chunks = -(-len(parent) // _CHUNK)
    capacity = 4 * len(parent) // SIZE + chunks
    members = torch.empty(capacity, 2, SIZE, dtype=torch.int32, device=parent.device)
    lists = torch.empty(4, capacity, dtype=torch.int32, device=parent.device)
    tensors = (parent, first_child, num_children, members, lists, report)
    launch(_cut, chunks, tensors, (), (capacity,), (_CHUNK, SIZE), num_warps=2)
    return members, lists


@triton.jit(do_not_specialize=["capacity"])
def _cut(
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
    """Cut the families that begin among the CHUNK rows of this program, as many as fit at a time.

    Where rows turn out not to be sorted by their parents, what is written is of no use, but stays
    within bounds.
    """
    n = tl.where(tl.load(report + WRONG) == 0, tl.load(report + TOKENS), 0)
    row = tl.cast(tl.program_id(0), tl.int64) * CHUNK
    stop = tl.minimum(row + CHUNK, n)
    if row >= stop:
        return
    first_up = tl.load(parent + row)
    if not _in_order(parent, num_children, report, row + tl.arange(0, CHUNK), n):
        return
    if first_up >= 0:
        first = tl.load(first_child + first_up)
        if first < row:  # a family that the chunk before takes
            row = first + tl.load(num_children + first_up)

    slot = tl.arange(0, SIZE)
    up, before, after, families = _look(parent, num_children, row + slot, slot, n)
    while row < stop:
        real = row + slot < n
        opens = real & ((up != before) | (up < 0))  # roots are families of one
        closes = real & ((up != after) | (up < 0))
        # A family that begins in the next chunk, which is that one's, counts as if it did not fit.
        next_chunk = tl.where(opens & (row + slot >= stop), SIZE, 0)
        parents = tl.cumsum((opens & (up >= 0)).to(tl.int32) + next_chunk, 0)
        children = tl.max(tl.where(closes & (slot + 1 + parents <= SIZE), slot + 1, 0), 0)
        begin, begin_up, begin_families = row, up, families
        size = tl.cast(children, tl.int64)
        if children == 0:
            size = tl.load(num_children + tl.load(parent + row))
        row += size
        # What comes next is on its way while this is written.
        up, before, after, families = _look(parent, num_children, row + slot, slot, n)
        if children > 0:
            tile = tl.atomic_add(report, 1, sem="relaxed")
            real = slot < children
            inner = real & (begin_families > 0)
            _put_block(
                *(members, tile, capacity, slot, begin + slot, begin_up, real, inner, opens),
                *(parents, children, SIZE),
            )
            if (tile < capacity) & (tl.max(inner.to(tl.int32), 0) > 0):
                tl.store(lists + tl.atomic_add(report + _INNER, 1, sem="relaxed"), tile)
        else:
            family_parent = tl.load(parent + begin)
            _put_family(
                *(num_children, members, lists, report, begin, size, family_parent),
                *(n, capacity, SIZE),
            )


@triton.jit
def _look(parent, num_children, child, slot, n):
    """Parents of SIZE rows, of those before and behind them, and how many children they have."""
    real = child < n
    up = tl.load(parent + child, mask=real, other=-1)
    before = tl.load(parent + child - 1, mask=real & (slot > 0), other=-2)
    after = tl.load(parent + child + 1, mask=child + 1 < n, other=-2)
    return up, before, after, tl.load(num_children + child, mask=real, other=0)


@triton.jit
def _put_block(
    members,
    tile,
    capacity,
    slot,
    child,
    up,
    real,
    inner,
    opens,
    parents,
    children,
    SIZE: tl.constexpr,
):
    """Write a block: its children, and over what was empty behind them their parents."""
    fits = slot < (capacity - tile) * SIZE
    family = tl.cumsum(opens.to(tl.int32), 0) - 1
    place = members + tile * (2 * SIZE) + slot
    tl.store(place, tl.where(real, child, -1).to(tl.int32), mask=fits)
    kind = tl.where(real, 4 * family + 2 * inner.to(tl.int32), -4)
    tl.store(place + SIZE, kind, mask=fits)
    tl.debug_barrier()
    place += children + parents - 1 - slot
    opens = opens & real & (up >= 0) & fits
    tl.store(place, up.to(tl.int32), mask=opens)
    tl.store(place + SIZE, 4 * family + 3, mask=opens)


@triton.jit
def _put_family(
    num_children,
    members,
    lists,
    report,
    begin,
    size,
    family_parent,
    n,
    capacity,
    SIZE: tl.constexpr,
):
    """Write the tiles of a large family: its children, then their parent."""
    slot = tl.arange(0, SIZE)
    tiles = ((size + SIZE) // SIZE).to(tl.int32)
    first_tile = capacity - tl.atomic_add(report + _LARGE, tiles, sem="relaxed") - tiles
    for turn in range(tiles):
        tile = first_tile + turn
        fits = slot < (tile + 1) * SIZE
        place = tl.cast(turn, tl.int64) * SIZE + slot
        child = begin + place
        real = (place < size) & (child < n)
        inner = tl.load(num_children + child, mask=real, other=0) > 0
        member = tl.where(place == size, family_parent, tl.where(real, child, -1))
        kind = tl.where(real, 2 * inner.to(tl.int32), -4)
        kind = tl.where(place == size, 3, kind)
        place = members + tile * (2 * SIZE) + slot
        tl.store(place, member.to(tl.int32), mask=fits)
        tl.store(place + SIZE, kind, mask=fits)
        if tile >= 0:
            tl.store(lists + 2 * capacity + tile, first_tile)
            tl.store(lists + 3 * capacity + tile, first_tile + tiles)
            if tl.max(inner.to(tl.int32), 0) > 0:
                nth = tl.atomic_add(report + _LARGE_INNER, 1, sem="relaxed")
                tl.store(lists + capacity + nth, tile)


@triton.jit
def _in_order(parent, num_children, report, row, n):
    """Whether rows are sorted by their parents; the report gets to know, and the largest family."""
    sizes = tl.load(num_children + row, mask=row < n, other=0)
    tl.atomic_max(report + LARGEST, tl.max(sizes, 0).to(tl.int32), sem="relaxed")
    up = tl.load(parent + row, mask=row < n, other=-1)
    before = tl.load(parent + row - 1, mask=(row > 0) & (row < n), other=-1)
    unsettled = tl.max(((row < n) & (up < before)).to(tl.int32), 0)
    tl.atomic_max(report + UNSETTLED, unsettled, sem="relaxed")
    return unsettled == 0


@triton.jit(do_not_specialize=["n"])
def _renumber(members, order, moved, n, SIZE: tl.constexpr):
    """Copy a tile, its rows renumbered; there may be no tile yet where there is room for one."""
    slot = tl.arange(0, 2 * SIZE)
    place = tl.program_id(0) * (2 * SIZE) + slot
    member = tl.load(members + place)
    row = tl.load(order + member, mask=(member >= 0) & (member < n), other=-1).to(tl.int32)
    tl.store(moved + place, tl.where(slot < SIZE, row, member))
