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

SIZE = 64
"""Slots of a tile."""

_CHUNK = 512
"""Rows whose families one program cuts, one block after the other."""

# The report that kernels fill and the host reads, a row of integers: the numbers of blocks, of
# large tiles, and of those with inner children among either; then these.
LARGEST, WRONG, UNSETTLED, TOKENS = (tl.constexpr(i) for i in range(4, 8))
REPORT = 8


class Blocks(NamedTuple):
    """The tiles of a forest, the large families' first.

    Attributes:
        rows: row of each tile's members, -1 in empty slots. `(tiles, SIZE)` int32.
        role: 4 · family within the tile + 2 · has children + stands here as a parent; -4 in empty
            slots, which thereby are a family of their own that nobody reads. `(tiles, SIZE)` int16.
        spans: first tile of the family that a large tile belongs to, and the first one behind it.
            `(large tiles, 2)` int32.
        inner: the blocks that have inner nodes among their children, int32.
        large_inner: the same of the large families' tiles.
    """

    rows: Tensor
    role: Tensor
    spans: Tensor
    inner: Tensor
    large_inner: Tensor

    def renumbered(self, order: Tensor) -> "Blocks":
        """Return the same tiles where row i of the forest is the caller's row `order[i]`."""
        rows = torch.where(self.rows < 0, -1, order[self.rows.clamp(min=0)]).int()
        return self._replace(rows=rows)


def cut(parent: Tensor, first_child: Tensor, num_children: Tensor) -> Blocks:
    """Cut a forest in level order, `(n,)` int64 each, into tiles. Waits for the device once."""
    tree = (parent, first_child, num_children)
    report = torch.zeros(REPORT, dtype=torch.int32, device=parent.device)
    report[TOKENS.value] = len(parent)
    ends = count(*tree, report)
    return write(*tree, report, ends, report.tolist())


def count(parent: Tensor, first_child: Tensor, num_children: Tensor, report: Tensor) -> Tensor:
    """Count the tiles of a forest in level order, without waiting for the device.

    Args:
        parent: `(n,)` int64, like the others; rows from `report[TOKENS]` on are no nodes.
        first_child: first rows of families.
        num_children: sizes of families.
        report: int32, where the counts are added. Nothing is counted if a fault is noted there.

    Returns:
        `(4, chunks)` int32, where each chunk's tiles end.
    """
    chunks = triton.cdiv(len(parent), _CHUNK)
    counts = torch.zeros(4, chunks, dtype=torch.int32, device=parent.device)
    tree = (parent, first_child, num_children)
    nothing = (counts,) * 5
    _cut[(chunks,)](*tree, *nothing, counts, report, chunks, 0, False, _CHUNK, SIZE, num_warps=1)
    return counts.cumsum(1, dtype=torch.int32)


def write(
    parent: Tensor,
    first_child: Tensor,
    num_children: Tensor,
    report: Tensor,
    ends: Tensor,
    found: list[int],
) -> Blocks:
    """Write the tiles that were counted; `found` is the report on the host."""
    device, (closed, large, inner, large_inner) = parent.device, found[:4]
    blocks = Blocks(
        rows=torch.empty(large + closed, SIZE, dtype=torch.int32, device=device),
        role=torch.empty(large + closed, SIZE, dtype=torch.int16, device=device),
        spans=torch.empty(large, 2, dtype=torch.int32, device=device),
        inner=torch.empty(inner, dtype=torch.int32, device=device),
        large_inner=torch.empty(large_inner, dtype=torch.int32, device=device),
    )
    tree, chunks = (parent, first_child, num_children), ends.shape[1]
    _cut[(chunks,)](*(*tree, *blocks, ends, report, chunks, large, True, _CHUNK, SIZE), num_warps=1)
    return blocks


@triton.jit
def _cut(
    parent,
    first_child,
    num_children,
    rows,
    role,
    spans,
    inner,
    large_inner,
    counts,
    report,
    chunks,
    n_large,
    WRITE: tl.constexpr,
    CHUNK: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Cut the families that begin among the CHUNK rows of this program, as many as fit at a time.

    Run twice: to count this chunk's blocks, large tiles and blocks with inner children, and, once
    `counts` holds where each chunk's end, to write them.
    """
    if (tl.load(report + WRONG) != 0) | (tl.load(report + UNSETTLED) != 0):
        return
    n = tl.load(report + TOKENS)
    chunk = tl.program_id(0)
    slot = tl.arange(0, SIZE)
    row = tl.cast(chunk, tl.int64) * CHUNK
    stop = tl.minimum(row + CHUNK, n)
    if row >= stop:
        return
    first_up = tl.load(parent + row)
    if first_up >= 0:
        first = tl.load(first_child + first_up)
        if first < row:  # a family that the chunk before takes
            row = first + tl.load(num_children + first_up)

    closed = tl.cast(0, tl.int32)
    large = tl.cast(0, tl.int32)
    with_inner = tl.cast(0, tl.int32)
    large_with_inner = tl.cast(0, tl.int32)
    largest = tl.cast(0, tl.int64)
    if WRITE and chunk > 0:
        closed = tl.load(counts + chunk - 1)
        large = tl.load(counts + chunks + chunk - 1)
        with_inner = tl.load(counts + 2 * chunks + chunk - 1)
        large_with_inner = tl.load(counts + 3 * chunks + chunk - 1)
    if WRITE:
        closed += n_large

    while row < stop:
        child = row + slot
        real = child < n
        up = tl.load(parent + child, mask=real, other=-1)
        before = tl.load(parent + child - 1, mask=real & (slot > 0), other=-2)
        after = tl.load(parent + child + 1, mask=child + 1 < n, other=-2)
        opens = real & ((up != before) | (up < 0))  # roots are families of one
        closes = real & ((up != after) | (up < 0))
        parents = tl.cumsum((opens & (up >= 0)).to(tl.int32), 0)
        children = tl.max(tl.where(closes & (slot + 1 + parents <= SIZE), slot + 1, 0), 0)
        if children > 0:
            real = slot < children
            has_children = real & (tl.load(num_children + child, mask=real, other=0) > 0)
            if WRITE:
                family = tl.cumsum(opens.to(tl.int32), 0) - 1
                place = closed * SIZE + slot
                tl.store(rows + place, tl.where(real, child, -1).to(tl.int32))
                kind = tl.where(real, 4 * family + 2 * has_children.to(tl.int32), -4)
                tl.store(role + place, kind.to(tl.int16))
                # The families' parents follow the children, over what was empty.
                tl.debug_barrier()
                place = closed * SIZE + children + parents - 1
                opens = opens & real & (up >= 0)
                tl.store(rows + place, up.to(tl.int32), mask=opens)
                tl.store(role + place, (4 * family + 3).to(tl.int16), mask=opens)
            if not WRITE:
                sizes = tl.load(num_children + up, mask=opens & (up >= 0), other=0)
                largest = tl.maximum(largest, tl.max(sizes, 0))
            any_inner = tl.max(has_children.to(tl.int32), 0)
            if WRITE and any_inner > 0:
                tl.store(inner + with_inner, closed)
            with_inner += any_inner
            closed += 1
            row += children
        else:
            family_parent = tl.load(parent + row)
            size = tl.load(num_children + family_parent)
            largest = tl.maximum(largest, size)
            tiles = ((size + SIZE) // SIZE).to(tl.int32)  # a parent and its children
            for tile in range(tiles):
                place = tl.cast(tile, tl.int64) * SIZE + slot
                child = row + place
                real = place < size
                has_children = tl.load(num_children + child, mask=real, other=0) > 0
                any_inner = tl.max(has_children.to(tl.int32), 0)
                if WRITE:
                    member = tl.where(place == size, family_parent, tl.where(real, child, -1))
                    kind = tl.where(real, 2 * has_children.to(tl.int32), -4)
                    kind = tl.where(place == size, 3, kind)
                    place = (large + tile) * SIZE + slot
                    tl.store(rows + place, member.to(tl.int32))
                    tl.store(role + place, kind.to(tl.int16))
                    tl.store(spans + 2 * (large + tile), large)
                    tl.store(spans + 2 * (large + tile) + 1, large + tiles)
                    if any_inner > 0:
                        tl.store(large_inner + large_with_inner, large + tile)
                large_with_inner += any_inner
            large += tiles
            row += size

    if not WRITE:
        tl.store(counts + chunk, closed)
        tl.store(counts + chunks + chunk, large)
        tl.store(counts + 2 * chunks + chunk, with_inner)
        tl.store(counts + 3 * chunks + chunk, large_with_inner)
        tl.atomic_add(report, closed)
        tl.atomic_add(report + 1, large)
        tl.atomic_add(report + 2, with_inner)
        tl.atomic_add(report + 3, large_with_inner)
        tl.atomic_max(report + LARGEST, largest.to(tl.int32))
