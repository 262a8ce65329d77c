# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""A padded batch's forest, in level order and cut into tiles, waiting for the device once.

Level order is a counting sort: a node's row is how many nodes are on levels above, on its level in
chunks of the batch before its own, and on its level before it in its chunk. Everything the host
must know, sizes and faults, is gathered in one small row of integers, the last to be computed.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

from .blocks import LARGEST, REPORT, TOKENS, UNSETTLED, WRONG, Blocks, begin_to_cut

_CHUNK = tl.constexpr(256)
"""Places of the batch that one program takes."""

_AT_ONCE, _BITS = tl.constexpr(6), tl.constexpr(10)
"""Levels that are counted in one integer of 64 bits, and the bits of each."""

_MOST = tl.constexpr((1 << _BITS.value) - 1)
"""What these bits can count to."""

_LEVELS = tl.constexpr(64)
"""Levels a forest may have; deeper ones are for pointer doubling."""

# What the report holds more: whether rows have moved; the nodes of each level; for each row of the
# batch, its length less its first real place.
_MOVED = tl.constexpr(REPORT)
_SIZES = tl.constexpr(REPORT + 1)
_FIRST = tl.constexpr(REPORT + 1 + _LEVELS.value)


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
    chunks = -(-places // _CHUNK.value)
    width = chunks * _CHUNK.value
    sizes = [_LEVELS.value * chunks, width, width, width, _FIRST.value + batch]
    zeros = torch.zeros(sum(sizes), dtype=torch.int32, device=device)
    counts, codes, families, nearest, report = zeros.split(sizes)
    numbers = places, length
    found_below = codes, families, nearest, report
    launch(_climb, chunks, (parents, mask, counts, *found_below), (), numbers, ())
    ends = counts.cumsum(0, dtype=torch.int32)
    tree = torch.empty(5, width, dtype=torch.long, device=device)
    first = torch.empty(batch, dtype=torch.long, device=device)
    launch(_settle, chunks, (parents, ends, *found_below, tree, first), (), numbers, ())
    tables = begin_to_cut(tree[0, :places], tree[2], tree[3], report)
    found = report.tolist()
    if found[WRONG.value] or found[UNSETTLED.value] or not all(found[_FIRST.value :]):
        return None
    tokens = found[TOKENS.value]
    parent, level, first_child, num_children, rows = tree[:, :tokens]
    return Survey(
        parent,
        level,
        first_child,
        num_children,
        rows,
        first,
        moved=bool(found[_MOVED.value]),
        level_sizes=[size for size in found[_SIZES.value : _FIRST.value] if size],
        largest_family=found[LARGEST.value],
        blocks=Blocks(*tables, found[:4]),
    )


@triton.jit(do_not_specialize=["places", "length"])
def _climb(parents, mask, counts, codes, families, nearest, report, places, length):
    """Climb from every place to its root, number it on its level, and count it to its parent.

    A place's code is its number among those of its chunk and level, times the levels, plus its
    level; -1 at padding. A family's first member is kept as its distance from the batch's end.
    """
    chunk = tl.program_id(0)
    place = chunk * _CHUNK + tl.arange(0, _CHUNK)
    row = place // length
    start = row * length
    real = place < places
    first = real & (place == start)
    if mask is not None:
        real = real & (tl.load(mask + place, mask=real, other=0) != 0)
        first = real & (tl.load(mask + place - 1, mask=real & (place > start), other=0) == 0)
    up = tl.load(parents + place, mask=real, other=-1)
    wrong = (up < -1) | (up >= length)
    up = tl.where(up < length, up, -1)
    tl.atomic_add(families + start + up, 1, mask=up >= 0, sem="relaxed")
    tl.atomic_max(nearest + start + up, places - place, mask=up >= 0, sem="relaxed")
    level = tl.zeros([_CHUNK], tl.int32)
    steps = 1
    while (steps < _LEVELS) & (tl.max((up >= 0).to(tl.int32), 0) > 0):
        climbing = up >= 0
        level += climbing.to(tl.int32)
        if mask is not None:
            padding = climbing & (tl.load(mask + start + up, mask=climbing, other=1) == 0)
            wrong = wrong | padding
        up = tl.load(parents + start + up, mask=climbing, other=-1)
        wrong = wrong | (up >= length)
        up = tl.where(up < length, up, -1)
        steps += 1
    wrong = wrong | (up >= 0)
    tl.atomic_max(report + WRONG, tl.max(wrong.to(tl.int32), 0), sem="relaxed")

    code = tl.full([_CHUNK], -1, tl.int32)
    nth = tl.arange(0, 8)
    for lowest in range(0, tl.max(level, 0) + 1, _AT_ONCE):
        here = real & (level >= lowest) & (level < lowest + _AT_ONCE)
        shift = tl.where(here, level - lowest, 0) * _BITS
        one = tl.where(here, tl.full([_CHUNK], 1, tl.int64) << shift, 0)
        number = ((tl.cumsum(one, 0) >> shift) & _MOST).to(tl.int32) - 1
        code = tl.where(here, number * _LEVELS + level, code)
        nodes = ((tl.sum(one, 0) >> (tl.minimum(nth, _AT_ONCE) * _BITS)) & _MOST).to(tl.int32)
        depth = lowest + nth
        counted = (nth < _AT_ONCE) & (depth < _LEVELS)
        tl.store(counts + depth * tl.num_programs(0) + chunk, nodes, mask=counted)
        tl.atomic_add(report + _SIZES + depth, nodes, mask=counted & (nodes > 0), sem="relaxed")
    tl.store(codes + place, code)
    tl.atomic_add(report + TOKENS, tl.sum(real.to(tl.int32), 0), sem="relaxed")
    tl.atomic_max(report + _FIRST + row, length - (place - start), mask=first, sem="relaxed")


@triton.jit(do_not_specialize=["places", "length"])
def _settle(parents, ends, codes, families, nearest, report, tree, first, places, length):
    """Put every place and what is known of it into its level-order row."""
    if tl.load(report + WRONG) != 0:
        return
    place = tl.program_id(0) * _CHUNK + tl.arange(0, _CHUNK)
    code = tl.load(codes + place, mask=place < places, other=-1)
    real = code >= 0
    row = _row(ends, codes, place, real)
    start = place - place % length
    up = tl.load(parents + place, mask=real, other=-1)
    above = _row(ends, codes, start + up, up >= 0)
    size = tl.load(families + place, mask=real, other=0)
    child = places - tl.load(nearest + place, mask=real, other=0)
    child_row = _row(ends, codes, child, size > 0)
    width = tl.num_programs(0) * _CHUNK
    tree += row
    tl.store(tree, tl.where(up >= 0, above, -1).to(tl.int64), mask=real)
    tl.store(tree + width, (code % _LEVELS).to(tl.int64), mask=real)
    tl.store(tree + 2 * width, child_row.to(tl.int64), mask=real)
    tl.store(tree + 3 * width, size.to(tl.int64), mask=real)
    tl.store(tree + 4 * width, place.to(tl.int64), mask=real)
    tl.atomic_max(report + _MOVED, tl.max((real & (row != place)).to(tl.int32), 0), sem="relaxed")
    batch_row = place // length
    left = tl.load(report + _FIRST + batch_row, mask=real, other=0)
    tl.store(first + batch_row, row.to(tl.int64), mask=real & (place - start == length - left))


@triton.jit
def _row(ends, codes, place, real):
    """Level-order rows of places, 0 where these are not real."""
    code = tl.load(codes + place, mask=real, other=0)
    before = (code % _LEVELS) * tl.num_programs(0) + place // _CHUNK
    return tl.load(ends + before - 1, mask=real & (before > 0), other=0) + code // _LEVELS
