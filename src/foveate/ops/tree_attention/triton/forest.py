# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""Building the forest of a padded batch on the GPU: level order and tiles, synchronizing once.

Level order is a counting sort. A node's level-order index is the number of nodes on the levels
above, plus those on its level in earlier chunks of the batch, plus those on its level before it in
its chunk. Everything that the host must know, sizes and errors, is gathered in one small vector of
integers (see `partition.py`) that is complete when the last kernel ends.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

from .partition import (
    INVALID,
    LARGEST_FAMILY,
    NUM_NODES,
    REPORT_SIZE,
    UNSORTED,
    ForestTiles,
    enqueue_partition,
)

_CHUNK = tl.constexpr(256)
"""Positions of the batch that one program takes."""

_LEVELS_PER_INT, _BITS = tl.constexpr(6), tl.constexpr(10)
"""Levels that are counted in one 64-bit integer, and the bits of each count."""

_MAX_COUNT = tl.constexpr((1 << _BITS.value) - 1)
"""The largest count that fits in these bits."""

_LEVELS = tl.constexpr(64)
"""Levels that a forest may have; deeper ones are built by pointer doubling instead."""

# The report continues after the fields of the partition: whether any node changes its position; the
# number of nodes on each level; for each sequence, the length minus its first token's position.
_REORDERED = tl.constexpr(REPORT_SIZE)
_LEVEL_SIZES = tl.constexpr(REPORT_SIZE + 1)
_FIRST_TOKENS = tl.constexpr(REPORT_SIZE + 1 + _LEVELS.value)


class LevelOrderedForest(NamedTuple):
    """A forest in level order. Fields that are not listed are those of `Tree`.

    Attributes:
        positions: `(n,)`, the position of each node in the flattened batch.
        first_nodes: `(batch,)`, the node of each sequence's first token.
        reordered: Whether any node's index differs from its position.
    """

    parent: Tensor
    level: Tensor
    first_child: Tensor
    num_children: Tensor
    positions: Tensor
    first_nodes: Tensor
    reordered: bool
    level_sizes: list[int]
    largest_family: int
    tiles: ForestTiles


def build_forest(parents: Tensor, mask: Tensor | None) -> LevelOrderedForest | None:
    """Build the forest of a padded batch.

    Args:
        parents: `(batch, length)` int64, the position of each token's parent within its sequence,
            -1 at a root, anything at padding.
        mask: 0 at padding, same shape; None if there is no padding.

    Returns:
        None if the parents do not form a forest, or if this method does not apply: for trees with
        more than 64 levels, and for nodes that sorting by level alone does not bring into level
        order.
    """
    batch, length = parents.shape
    size, device = batch * length, parents.device
    parents = parents.contiguous()
    mask = None if mask is None else mask.contiguous()
    chunks = -(-size // _CHUNK.value)
    width = chunks * _CHUNK.value
    buffer_sizes = [_LEVELS.value * chunks, width, width, width, _FIRST_TOKENS.value + batch]
    zeros = torch.zeros(sum(buffer_sizes), dtype=torch.int32, device=device)
    level_counts, codes, family_sizes, first_children, report = zeros.split(buffer_sizes)
    numbers = size, length
    buffers = codes, family_sizes, first_children, report
    launch(_compute_depths, chunks, (parents, mask, level_counts, *buffers), (), numbers, ())
    level_ends = level_counts.cumsum(0, dtype=torch.int32)
    tree = torch.empty(5, width, dtype=torch.long, device=device)
    first_nodes = torch.empty(batch, dtype=torch.long, device=device)
    tensors = (parents, level_ends, *buffers, tree, first_nodes)
    launch(_scatter_to_level_order, chunks, tensors, (), numbers, ())
    tables = enqueue_partition(tree[0, :size], tree[2], tree[3], report)
    values = report.tolist()
    if values[INVALID.value] or values[UNSORTED.value] or not all(values[_FIRST_TOKENS.value :]):
        return None
    parent, level, first_child, num_children, positions = tree[:, : values[NUM_NODES.value]]
    return LevelOrderedForest(
        parent,
        level,
        first_child,
        num_children,
        positions,
        first_nodes,
        reordered=bool(values[_REORDERED.value]),
        level_sizes=[n for n in values[_LEVEL_SIZES.value : _FIRST_TOKENS.value] if n],
        largest_family=values[LARGEST_FAMILY.value],
        tiles=ForestTiles(*tables, values[:4]),
    )


@triton.jit(do_not_specialize=["size", "length"])
def _compute_depths(
    parents, mask, level_counts, codes, family_sizes, first_children, report, size, length
):
    """Climb from every position to its root, number it on its level, and count it as a child.

    The code of a position is its number among the positions of its chunk and level, times _LEVELS,
    plus its level; -1 at padding. The first child of a position is kept as its distance from the
    end of the batch, so that the first one is the maximum.
    """
    chunk = tl.program_id(0)
    position = chunk * _CHUNK + tl.arange(0, _CHUNK)
    sequence = position // length
    start = sequence * length
    real = position < size
    first = real & (position == start)
    if mask is not None:
        real = real & (tl.load(mask + position, mask=real, other=0) != 0)
        first = real & (tl.load(mask + position - 1, mask=real & (position > start), other=0) == 0)
    up = tl.load(parents + position, mask=real, other=-1)
    invalid = (up < -1) | (up >= length)
    up = tl.where(up < length, up, -1)
    tl.atomic_add(family_sizes + start + up, 1, mask=up >= 0, sem="relaxed")
    tl.atomic_max(first_children + start + up, size - position, mask=up >= 0, sem="relaxed")
    level = tl.zeros([_CHUNK], tl.int32)
    steps = 1
    while (steps < _LEVELS) & (tl.max((up >= 0).to(tl.int32), 0) > 0):
        climbing = up >= 0
        level += climbing.to(tl.int32)
        if mask is not None:
            padding = climbing & (tl.load(mask + start + up, mask=climbing, other=1) == 0)
            invalid = invalid | padding
        up = tl.load(parents + start + up, mask=climbing, other=-1)
        invalid = invalid | (up >= length)
        up = tl.where(up < length, up, -1)
        steps += 1
    invalid = invalid | (up >= 0)
    tl.atomic_max(report + INVALID, tl.max(invalid.to(tl.int32), 0), sem="relaxed")

    code = tl.full([_CHUNK], -1, tl.int32)
    nth = tl.arange(0, 8)
    for lowest in range(0, tl.max(level, 0) + 1, _LEVELS_PER_INT):
        here = real & (level >= lowest) & (level < lowest + _LEVELS_PER_INT)
        shift = tl.where(here, level - lowest, 0) * _BITS
        one = tl.where(here, tl.full([_CHUNK], 1, tl.int64) << shift, 0)
        number = ((tl.cumsum(one, 0) >> shift) & _MAX_COUNT).to(tl.int32) - 1
        code = tl.where(here, number * _LEVELS + level, code)
        shifts = tl.minimum(nth, _LEVELS_PER_INT) * _BITS
        nodes = ((tl.sum(one, 0) >> shifts) & _MAX_COUNT).to(tl.int32)
        depth = lowest + nth
        counted = (nth < _LEVELS_PER_INT) & (depth < _LEVELS)
        tl.store(level_counts + depth * tl.num_programs(0) + chunk, nodes, mask=counted)
        nonzero = counted & (nodes > 0)
        tl.atomic_add(report + _LEVEL_SIZES + depth, nodes, mask=nonzero, sem="relaxed")
    tl.store(codes + position, code)
    tl.atomic_add(report + NUM_NODES, tl.sum(real.to(tl.int32), 0), sem="relaxed")
    left = length - (position - start)
    tl.atomic_max(report + _FIRST_TOKENS + sequence, left, mask=first, sem="relaxed")


@triton.jit(do_not_specialize=["size", "length"])
def _scatter_to_level_order(
    parents,
    level_ends,
    codes,
    family_sizes,
    first_children,
    report,
    tree,
    first_nodes,
    size,
    length,
):
    """Scatter the parent, level, children and position of every node to its level-order index."""
    if tl.load(report + INVALID) != 0:
        return
    position = tl.program_id(0) * _CHUNK + tl.arange(0, _CHUNK)
    code = tl.load(codes + position, mask=position < size, other=-1)
    real = code >= 0
    node = _level_order_index(level_ends, codes, position, real)
    start = position - position % length
    up = tl.load(parents + position, mask=real, other=-1)
    parent = _level_order_index(level_ends, codes, start + up, up >= 0)
    num_children = tl.load(family_sizes + position, mask=real, other=0)
    child = size - tl.load(first_children + position, mask=real, other=0)
    first_child = _level_order_index(level_ends, codes, child, num_children > 0)
    width = tl.num_programs(0) * _CHUNK
    tree += node
    tl.store(tree, tl.where(up >= 0, parent, -1).to(tl.int64), mask=real)
    tl.store(tree + width, (code % _LEVELS).to(tl.int64), mask=real)
    tl.store(tree + 2 * width, first_child.to(tl.int64), mask=real)
    tl.store(tree + 3 * width, num_children.to(tl.int64), mask=real)
    tl.store(tree + 4 * width, position.to(tl.int64), mask=real)
    reordered = tl.max((real & (node != position)).to(tl.int32), 0)
    tl.atomic_max(report + _REORDERED, reordered, sem="relaxed")
    sequence = position // length
    left = tl.load(report + _FIRST_TOKENS + sequence, mask=real, other=0)
    is_first = real & (position - start == length - left)
    tl.store(first_nodes + sequence, node.to(tl.int64), mask=is_first)


@triton.jit
def _level_order_index(level_ends, codes, position, real):
    """Return the level-order indices of positions, 0 where these are not real."""
    code = tl.load(codes + position, mask=real, other=0)
    bucket = (code % _LEVELS) * tl.num_programs(0) + position // _CHUNK
    start = tl.load(level_ends + bucket - 1, mask=real & (bucket > 0), other=0)
    return start + code // _LEVELS
