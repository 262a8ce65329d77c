# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Positions on the GPU: every program climbs from its nodes to their roots.

For hierarchical positions it writes each node's encoding once, 2 · channels bytes in bfloat16, and
reads the table's rows, which stay in cache: 25 MB for 16,384 nodes of 768 channels, 5 µs at
4.8 TB/s. Level by level it takes six launches for each level, and reads and writes every encoding
twice.

For the reading order, nodes with children first add their number to all subtrees that they are in;
siblings are consecutive, so that sums of subtrees are differences of prefix sums.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import cdiv, next_power_of_2

__all__ = ["reading_order_op", "tree_positions_op"]

_ELEMENTS = 4096
"""Channels of all nodes of a program."""

_NODES = 128
"""Nodes of a program that counts."""


@define_op(
    "tree_positions(Tensor parent, Tensor level, Tensor first_child, Tensor table, int levels,"
    " Tensor? first_counted=None) -> Tensor",
    fake=lambda parent, _, __, table, *___: table.new_empty(len(parent), table.shape[1]),
)
def tree_positions_op(
    parent: Tensor,
    level: Tensor,
    first_child: Tensor,
    table: Tensor,
    levels: int,
    first_counted: Tensor | None = None,
) -> Tensor:
    """Encode positions in float16, bfloat16 or float32; see `foveate.ops.tree_positions`.

    Children are counted from `first_counted`, by default the first; those before it are alike on
    all levels.
    """
    first_counted = first_child if first_counted is None else first_counted
    num_nodes, channels = len(parent), table.shape[1]
    encodings = torch.empty(num_nodes, channels, dtype=table.dtype, device=table.device)
    if num_nodes:
        width = next_power_of_2(channels)
        nodes = max(1, _ELEMENTS // width)
        tensors = parent, level, first_child, first_counted, table, encodings
        constants = channels, width, nodes
        launch(_encode, cdiv(num_nodes, nodes), tensors, (), (num_nodes, levels), constants)
    return encodings


@triton.jit(do_not_specialize=["num_nodes", "levels"])
def _encode(
    parent,
    level,
    first_child,
    first_counted,
    table,
    encodings,
    num_nodes,
    levels,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
    NODES: tl.constexpr,
):
    """Add up the steps on the paths to the roots, in float32."""
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    real = node < num_nodes
    depth = tl.load(level + node, mask=real, other=0).to(tl.int32)
    channel = tl.arange(0, WIDTH)
    in_table = channel < CHANNELS
    first = tl.load(table + channel, mask=in_table, other=0.0).to(tl.float32)
    total = tl.zeros([NODES, WIDTH], tl.float32) + (first * levels)[None, :]
    ancestor = node.to(tl.int64)
    for climbed in range(0, tl.max(depth, 0)):
        on_path = depth > climbed
        above = tl.load(parent + ancestor, mask=on_path, other=0)
        index = ancestor - tl.load(first_counted + above, mask=on_path, other=0) + 1
        # Leaves before the sections have the same index on all levels.
        alike = on_path & (index < 1)
        own = ancestor - tl.load(first_child + above, mask=alike, other=0)
        index = tl.where(alike, own, index)
        times = tl.where(alike, levels, 1).to(tl.float32)
        pointers = table + index[:, None] * CHANNELS + channel[None, :]
        step = tl.load(pointers, mask=on_path[:, None] & in_table[None, :], other=0.0)
        total += times[:, None] * step.to(tl.float32)
        replaced = tl.where(on_path & (depth - climbed <= levels), times, 0.0)
        total -= replaced[:, None] * first[None, :]
        ancestor = above
    pointers = encodings + node.to(tl.int64)[:, None] * CHANNELS + channel[None, :]
    tl.store(pointers, total.to(encodings.dtype.element_ty), mask=real[:, None] & in_table[None, :])


@define_op(
    "reading_order(Tensor parent, Tensor level, Tensor first_child, Tensor num_children) -> Tensor",
    fake=lambda parent, *_: torch.empty_like(parent),
)
def reading_order_op(
    parent: Tensor, level: Tensor, first_child: Tensor, num_children: Tensor
) -> Tensor:
    """Count the nodes before each node; see `foveate.ops.tree_positions.reading_order`."""
    num_nodes = len(parent)
    sizes, order = torch.ones_like(parent), torch.empty_like(parent)
    if num_nodes:
        programs, numbers = cdiv(num_nodes, _NODES), (num_nodes,)
        up = parent, level, num_children, sizes
        launch(_add_to_subtrees, programs, up, (), numbers, (_NODES,))
        before = sizes.cumsum(0) - sizes
        down = parent, level, first_child, before, order
        launch(_add_up_path, programs, down, (), numbers, (_NODES,))
    return order


@triton.jit(do_not_specialize=["num_nodes"])
def _add_to_subtrees(parent, level, num_children, sizes, num_nodes, NODES: tl.constexpr):
    """Add the children of every node to the sizes of its own subtree and its ancestors'."""
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    real = node < num_nodes
    children = tl.load(num_children + node, mask=real, other=0)
    depth = tl.load(level + node, mask=real, other=0).to(tl.int32)
    depth = tl.where(children > 0, depth, -1)
    ancestor = node.to(tl.int64)
    for climbed in range(0, tl.max(depth, 0) + 1):
        on_path = depth >= climbed
        tl.atomic_add(sizes + ancestor, children, mask=on_path, sem="relaxed")
        ancestor = tl.load(parent + ancestor, mask=depth > climbed, other=0)


@triton.jit(do_not_specialize=["num_nodes"])
def _add_up_path(parent, level, first_child, before, order, num_nodes, NODES: tl.constexpr):
    """Add up, on the path to the root, the parents and the subtrees of earlier siblings."""
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    real = node < num_nodes
    depth = tl.load(level + node, mask=real, other=0).to(tl.int32)
    total = tl.zeros([NODES], tl.int64)
    ancestor = node.to(tl.int64)
    for climbed in range(0, tl.max(depth, 0)):
        on_path = depth > climbed
        above = tl.load(parent + ancestor, mask=on_path, other=0)
        first = tl.load(first_child + above, mask=on_path, other=0)
        subtrees = tl.load(before + ancestor, mask=on_path, other=0)
        subtrees -= tl.load(before + first, mask=on_path, other=0)
        total += tl.where(on_path, 1 + subtrees, 0)
        ancestor = above
    tl.store(order + node, total, mask=real)
