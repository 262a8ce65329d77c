# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""A padded batch's forest, in level order and cut into tiles, waiting for the device once.

Everything the host must know, sizes and faults, is gathered in one small row of integers while the
kernels go on, so that it is waited for once.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .blocks import LARGEST, REPORT, TOKENS, UNSETTLED, WRONG, Blocks, count, write

_STEPS = 64
"""Levels climbed before giving up; deeper forests are for pointer doubling."""

_PADDING = tl.constexpr(127)
"""Level of padding, behind all others."""

# What the report holds more: whether rows have moved; the nodes of each level; for each row of the
# batch, its length less its first real place.
_MOVED = tl.constexpr(REPORT)
_LEVELS = tl.constexpr(REPORT + 1)
_FIRST = tl.constexpr(REPORT + 1 + 128)


class Survey(NamedTuple):
    """A forest in level order; the tensors are those of `Tree`.

    Attributes:
        rows: `(tokens,)`, place in the flattened batch of each level-order row.
        first: `(batch,)`, the level-order row of each batch row's first real place.
        moved: whether any place is not its own level-order row.
    """

    parent: Tensor
    level: Tensor
    first_child: Tensor
    num_children: Tensor
    rows: Tensor
    first: Tensor
    moved: bool
    level_sizes: list[int]
    largest_family: int
    blocks: Blocks


def survey(parents: Tensor, mask: Tensor | None) -> Survey | None:
    """Find the forest of `parents` `(batch, length)` int64, places within their rows.

    Args:
        parents: -1 at a root; anything at padding.
        mask: 0 at padding, same shape; None where all places are real.

    Returns:
        None where parents are no forest, or where another way must be taken: for trees of over 64
        levels, and for rows that sorting by level alone does not bring into level order.
    """
    batch, length = parents.shape
    places, device = batch * length, parents.device
    parents = parents.contiguous()
    mask = None if mask is None else mask.contiguous()
    report = torch.zeros(_FIRST.value + batch, dtype=torch.int32, device=device)
    depth = torch.empty(places, dtype=torch.int8, device=device)
    grid = (triton.cdiv(places, 256),)
    _climb[grid](parents, mask, depth, report, places, length, _STEPS, 256)
    level, rows = depth.sort(stable=True)
    rank = torch.empty_like(rows).scatter_(0, rows, torch.arange(places, device=device))
    parent, deep = torch.empty_like(rows), torch.empty_like(rows)
    first_child, behind = torch.zeros(2, places, dtype=torch.long, device=device)
    first = torch.empty(batch, dtype=torch.long, device=device)
    _settle[grid](
        *(parents, level, rows, rank, parent, deep, first_child, behind, first, report),
        *(places, length, batch, 256),
    )
    tree = (parent, first_child, behind - first_child)
    ends = count(*tree, report)
    found = report.tolist()
    if found[WRONG.value] or found[UNSETTLED.value] or not all(found[_FIRST.value :]):
        return None
    tokens = found[TOKENS.value]
    return Survey(
        parent[:tokens],
        deep[:tokens],
        first_child[:tokens],
        tree[2][:tokens],
        rows[:tokens],
        first,
        bool(found[_MOVED.value]),
        [size for size in found[_LEVELS.value : _FIRST.value] if size],
        found[LARGEST.value],
        write(*tree, report, ends, found),
    )


@triton.jit
def _climb(parents, mask, depth, report, places, length, STEPS: tl.constexpr, SIZE: tl.constexpr):
    """Climb from every place to its root."""
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = place < places
    row = place // length
    start = row * length
    real = inside
    if mask is not None:
        real = inside & (tl.load(mask + place, mask=inside, other=0) != 0)
    up = tl.load(parents + place, mask=real, other=-1)
    wrong = (up < -1) | (up >= length)
    level = tl.zeros([SIZE], tl.int32)
    steps = 0
    while (steps < STEPS) & (tl.max((up >= 0).to(tl.int32), 0) > 0):
        wrong = wrong | (up >= length)
        up = tl.where(up < length, up, -1)
        climbing = up >= 0
        level += climbing.to(tl.int32)
        if mask is not None:
            padding = climbing & (tl.load(mask + start + up, mask=climbing, other=1) == 0)
            wrong = wrong | padding
        up = tl.load(parents + start + up, mask=climbing, other=-1)
        steps += 1
    wrong = wrong | (up >= 0)
    level = tl.where(real, level, _PADDING)
    tl.store(depth + place, level.to(tl.int8), mask=inside)
    tl.atomic_max(report + WRONG, tl.max(wrong.to(tl.int32), 0))
    nodes = tl.histogram(tl.where(inside, level, _PADDING), 128)
    slot = tl.arange(0, 128)
    tl.atomic_add(report + _LEVELS + slot, nodes, mask=(nodes > 0) & (slot < _PADDING))
    tl.atomic_add(report + TOKENS, tl.sum(real.to(tl.int32), 0))
    before = (length - (place - start)).to(tl.int32)
    tl.atomic_max(report + _FIRST + row, before, mask=real)


@triton.jit
def _settle(
    parents,
    level,
    rows,
    rank,
    parent,
    deep,
    first_child,
    behind,
    first,
    report,
    places,
    length,
    batch,
    SIZE: tl.constexpr,
):
    """Number parents by level-order rows, and find where families begin and end."""
    if tl.load(report + WRONG) != 0:
        return
    row = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    above = _parent(parents, level, rows, rank, row, row < places, length)
    before = _parent(parents, level, rows, rank, row - 1, (row > 0) & (row <= places), length)
    after = _parent(parents, level, rows, rank, row + 1, row + 1 < places, length)
    inside = row < places
    depth = tl.load(level + row, mask=inside, other=_PADDING)
    real = inside & (depth != _PADDING)
    tl.store(parent + row, above, mask=real)
    tl.store(deep + row, depth.to(tl.int64), mask=real)
    child = real & (above >= 0)
    tl.store(first_child + above, row.to(tl.int64), mask=child & (above != before))
    tl.store(behind + above, row.to(tl.int64) + 1, mask=child & (above != after))
    unsettled = real & (above < before)
    tl.atomic_max(report + UNSETTLED, tl.max(unsettled.to(tl.int32), 0))
    moved = real & (tl.load(rows + row, mask=inside, other=0) != row)
    tl.atomic_max(report + _MOVED, tl.max(moved.to(tl.int32), 0))
    here = row < batch
    place = (row + 1) * length - tl.load(report + _FIRST + row, mask=here, other=1)
    here = here & (place < places)
    tl.store(first + row, tl.load(rank + place, mask=here, other=0), mask=here)


@triton.jit
def _parent(parents, level, rows, rank, row, inside, length):
    """Level-order rows of the parents of level-order rows; -1 at roots and padding, -2 outside."""
    real = inside & (tl.load(level + row, mask=inside, other=_PADDING) != _PADDING)
    place = tl.load(rows + row, mask=real, other=0)
    up = tl.load(parents + place, mask=real, other=-1)
    up_place = place - place % length + up
    up_rank = tl.load(rank + up_place, mask=real & (up >= 0), other=-1)
    return tl.where(inside, up_rank, -2)
