# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Padding of forests to one of a few sizes, so that forests of similar size share a CUDA graph.

A graph launches as many programs as it was captured with. Nodes that pad the forest are roots, in
closed tiles after the forest's own; programs that then have no tile get an empty one, which stores
nothing. So no kernel needs to know that it runs from a graph, and all that kernels return for the
padding is as defined as for other roots: gradients of weights, which are sums over all nodes, need
that.

One program copies one tile and `SIZE` nodes. It reads and writes 2 · 512 bytes of a tile, 2 · 12 of
lists and 8 · 8 · `SIZE` of nodes: 1.3 MB for 16,384 nodes, less time than launching it takes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import bucket_size, next_power_of_2

from ..tree import SIZE
from .partition import ForestTiles

_SMALLEST_FAMILY = 1023
"""Children that a parent in any bucket may have."""


def bucket_counts(counts: list[int], num_nodes: int, size: int) -> list[int]:
    """Return upper bounds of the numbers of tiles that forests of a bucket have in common.

    Nearly all forests of a bucket have few enough tiles for the same bounds: most documents fill
    their closed tiles to more than half, and few tiles have inner nodes among their children.

    Args:
        counts: The numbers of tiles, see `ForestTiles`.
        num_nodes: Nodes of the forest.
        size: Nodes of its bucket.
    """
    closed, large, inner, large_inner = counts
    closed += -(-(size - num_nodes) // SIZE)
    usual = size // (SIZE // 2), size // (4 * SIZE)
    closed, inner_bound = (
        bound if count <= bound else next_power_of_2(count)
        for count, bound in zip((closed, inner), usual, strict=True)
    )
    large, large_inner = (count and next_power_of_2(count) for count in (large, large_inner))
    return [closed, large, min(inner_bound, closed), min(large_inner, large)]


def pad_forest(
    parent: Tensor,
    level: Tensor,
    first_child: Tensor,
    num_children: Tensor,
    tiles: ForestTiles,
    largest_family: int,
) -> tuple[Tensor, ForestTiles, int]:
    """Pad a forest in level order to one of a few sizes, without synchronizing.

    Args:
        parent: `(n,)` int64, like the others; see `Tree`.
        level: See there.
        first_child: See there.
        num_children: See there.
        tiles: The tiles of the forest.
        largest_family: The largest number of children of any node.

    Returns:
        Parent, level, first child and number of children of `size` nodes, `(4, size)` int64; the
        tiles with upper bounds of their numbers: the forest's own closed tiles, those of the
        padding, empty ones, and those of large families; and an upper bound of the number of
        children of any node.
    """
    num_nodes, device = len(parent), parent.device
    size = bucket_size(num_nodes)
    counts = bucket_counts(tiles.counts, num_nodes, size)
    capacity = counts[0] + 1 + counts[1]  # with an empty tile for programs that have none
    nodes = torch.empty(4, size, dtype=torch.long, device=device)
    members = torch.empty(capacity, 2, SIZE, dtype=torch.int32, device=device)
    lists = torch.empty(4, capacity, dtype=torch.int32, device=device)
    tensors = (parent, level, first_child, num_children, tiles.members, tiles.lists)
    numbers = (num_nodes, size, tiles.capacity, capacity, counts[0], *tiles.counts)
    programs = max(capacity, -(-size // SIZE))
    launch(_pad, programs, (*tensors, nodes, members, lists), (), numbers, (SIZE,), num_warps=2)
    largest_family = next_power_of_2(max(_SMALLEST_FAMILY, largest_family) + 1) - 1
    return nodes, ForestTiles(members, lists, counts), largest_family


@triton.jit(
    do_not_specialize=[
        "num_nodes",
        "size",
        "old_capacity",
        "capacity",
        "empty",
        "closed",
        "large",
        "inner",
        "large_inner",
    ]
)
def _pad(
    parent,
    level,
    first_child,
    num_children,
    old_members,
    old_lists,
    nodes,
    members,
    lists,
    num_nodes,
    size,
    old_capacity,
    capacity,
    empty,
    closed,
    large,
    inner,
    large_inner,
    SIZE: tl.constexpr,
):
    """Copy SIZE nodes, a tile and its entries of the lists; large families' tiles stay at the end.

    Tiles after the closed ones get the nodes that pad the forest. The lists of tiles with inner
    children continue with an empty tile. The family of an empty tile of large families ends where
    it begins.
    """
    program = tl.program_id(0)
    slot = tl.arange(0, SIZE)
    node = program * SIZE + slot  # and the slots of the tiles, counted the same way
    real = node < num_nodes
    fits = node < size
    tl.store(nodes + node, tl.load(parent + node, mask=real, other=-1), mask=fits)
    nodes += size
    tl.store(nodes + node, tl.load(level + node, mask=real, other=0), mask=fits)
    nodes += size
    tl.store(nodes + node, tl.load(first_child + node, mask=real, other=0), mask=fits)
    nodes += size
    tl.store(nodes + node, tl.load(num_children + node, mask=real, other=0), mask=fits)

    if program < capacity:
        moved = capacity - old_capacity
        is_large = program >= capacity - large
        has_tile = (node < closed * SIZE) | (node >= (capacity - large) * SIZE)
        old_tile = tl.where(is_large, program - moved, program)
        old = old_members + old_tile * (2 * SIZE) + slot
        target = members + program * (2 * SIZE) + slot
        root = num_nodes + node - closed * SIZE  # that pads the forest, a family of its own
        is_root = (root >= num_nodes) & (root < size)
        member = tl.load(old, mask=has_tile, other=-1)
        role = tl.load(old + SIZE, mask=has_tile, other=-4)
        tl.store(target, tl.where(is_root, root, member).to(tl.int32))
        tl.store(target + SIZE, tl.where(is_root, 4 * slot, role))
        tile = tl.load(old_lists + program, mask=program < inner, other=0)
        tl.store(lists + program, tl.where(program < inner, tile, empty))
        tile = tl.load(old_lists + old_capacity + program, mask=program < large_inner, other=0)
        tile = tl.where(program < large_inner, tile + moved, empty)
        tl.store(lists + capacity + program, tile)
        first = tl.load(old_lists + 2 * old_capacity + old_tile, mask=is_large, other=0)
        tl.store(lists + 2 * capacity + program, tl.where(is_large, first + moved, 0))
        stop = tl.load(old_lists + 3 * old_capacity + old_tile, mask=is_large, other=0)
        tl.store(lists + 3 * capacity + program, tl.where(is_large, stop + moved, 0))
