# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The common parts of both kernels: launches, members of a tile, and the edge mask."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.card import padded_width
from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot

from ..tree import SIZE
from .partition import ForestTiles

NOT_SPECIALIZED = ["n", "heads", "capacity"]
"""Arguments that change from batch to batch, for which kernels are not recompiled."""

_SEES_NOTHING = tl.constexpr(-1000)
"""Code of a query that attends to no other role."""

_UNSEEN = tl.constexpr(-2000)
"""Code of a key that no other role attends to."""


def launch_passes(
    kernel: Any,
    tensors: Sequence[Tensor],
    strides: Sequence[int],
    tiles: ForestTiles,
    edges: tuple[bool, bool, bool],
    scale: float,
    registers: tuple[int, int],
    programs_per_large_tile: int = 1,
) -> None:
    """Launch the two passes of a kernel, over large families' tiles and over closed ones.

    The first pass finishes all nodes but the inner ones, and leaves at every inner node its part as
    a parent. The second pass, over the few tiles with inner nodes among their children, adds their
    parts as children.

    Args:
        kernel: The kernel. Its arguments are the tensors, the tables of `tiles`, the strides, the
            arguments of `NOT_SPECIALIZED`, the scale, and the compile-time constants.
        tensors: Tensors of the kernel, the first `(n, heads, head_dim)`.
        strides: Strides of the kernel's inputs.
        tiles: The tiles of the forest.
        edges: Whether nodes attend to their parent, their siblings and their children.
        scale: Factor on the scores.
        registers: Limits on a thread's registers, in a closed tile and in a large family's.
        programs_per_large_tile: Programs that share a large family's tile.
    """
    n, heads, head_dim = tensors[0].shape
    itemsize = tensors[0].element_size()
    numbers = (n, heads, tiles.capacity, scale)
    closed, large, inner, large_inner = tiles.counts
    for count, second_pass, is_large in (
        (large, False, True),
        (closed, False, False),
        (large_inner, True, True),
        (inner, True, False),
    ):
        if count:
            width, options = _launch_options(head_dim, itemsize, registers[is_large])
            programs = count * heads * (programs_per_large_tile if is_large else 1)
            constants = (*edges, second_pass, is_large, head_dim, width, SIZE)
            tables = (tiles.members, tiles.lists)
            launch(kernel, programs, (*tensors, *tables), strides, numbers, constants, **options)


@cache
def _launch_options(head_dim: int, itemsize: int, registers: int) -> tuple[int, dict[str, int]]:
    """Return the width of the tiles and Triton's options.

    The kernels are bound by memory, not by arithmetic, so what matters is how many programs fit on
    a multiprocessor at once: for heads of up to 128 bytes, the registers of a thread are limited.
    Wider heads would not fit into the registers under the limit.
    """
    width = padded_width(head_dim)
    if width * itemsize <= 128:
        return width, {"num_warps": 4, "num_stages": 1, "maxnreg": registers}
    return width, {"num_warps": 8 if itemsize == 4 else 4, "num_stages": 1}


@triton.jit
def nth_tile(lists, nth, capacity, INNER: tl.constexpr, LARGE: tl.constexpr):
    """Return the nth tile of a pass: closed tiles come first, large families' at the end."""
    if LARGE:
        tile = tl.load(lists + capacity + nth) if INNER else capacity - 1 - nth
    else:
        tile = tl.load(lists + nth) if INNER else nth
    return tile


@triton.jit
def family_tiles(lists, tile, capacity):
    """Return the first tile of the large family of a tile, and the end of the family's tiles."""
    pointer = lists + 2 * capacity + tile
    return tl.load(pointer), tl.load(pointer + capacity)


@triton.jit
def load_members(members, tile, SIZE: tl.constexpr):
    """Load the nodes in a tile's slots and their roles, `(SIZE,)` each; see `partition.py`."""
    slot = members + tile * (2 * SIZE) + tl.arange(0, SIZE)
    role = tl.load(slot + SIZE).to(tl.int16)  # takes fewer registers to keep
    return tl.load(slot), role.to(tl.int32)


@triton.jit
def node_pointers(x, node, head, node_stride, head_stride, WIDTH: tl.constexpr):
    """Return pointers to one head of nodes of x `(n, heads, head_dim)`: `(SIZE, WIDTH)`."""
    start = node.to(tl.int64) * node_stride + head * head_stride
    return x + start[:, None] + tl.arange(0, WIDTH)[None, :]


@triton.jit
def node_mask(keep, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr):
    """Mask `(SIZE, WIDTH)` of the real channels of the nodes to keep."""
    return keep[:, None] & (tl.arange(0, WIDTH) < HEAD_DIM)[None, :]


@triton.jit
def load_nodes(
    x, node, head, node_stride, head_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr
):
    """Load one head of nodes, zero in empty slots and padded channels: `(SIZE, WIDTH)`."""
    pointers = node_pointers(x, node, head, node_stride, head_stride, WIDTH)
    return tl.load(pointers, mask=node_mask(node >= 0, HEAD_DIM, WIDTH), other=0.0)


@triton.jit
def is_finished(node, role, INNER: tl.constexpr):
    """Return whether this pass stores a member: the second inner children, the first all others."""
    return (node >= 0) & (((role & 3) == 2) == INNER)


@triton.jit
def query_code(role, CHILDREN: tl.constexpr):
    """Return a member's code as a query, which attends to keys with the same code or one above."""
    parent = (role & 1) == 1
    return tl.where(parent, (role & -4) - 1 if CHILDREN else _SEES_NOTHING, role & -4)


@triton.jit
def key_code(role, PARENT: tl.constexpr):
    """Return the code of a member as a key: 4f for a child of family f, 4f + 1 for its parent."""
    parent = (role & 1) == 1
    return tl.where(parent, (role & -4) + 1 if PARENT else _UNSEEN, role & -4)


@triton.jit
def edge_mask(query_code, query_node, key_code, key_node, SIBLINGS: tl.constexpr):
    """Return whether queries attend to keys; the shapes of queries and keys are broadcast."""
    step = key_code - query_code  # 0 from child to child, 1 between child and parent
    mask = step.to(tl.uint32, bitcast=True) < 2
    if not SIBLINGS:
        mask = mask & ((step == 1) | (query_node == key_node))
    return mask


@triton.jit
def masked_scores(a, b, mask, scale):
    """Compute base-2 scores of a against b, -inf where the mask is false: float32."""
    return tl.where(mask, dot(a, b.T) * (scale * LOG2E), float("-inf"))
