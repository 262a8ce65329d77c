"""Positions in plain PyTorch, level by level."""

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from foveate.ops.compiling import uncompiled
from foveate.ops.tree_attention import Tree


@uncompiled  # the loop over levels would be recompiled for every tree
def tree_positions(tree: Tree, table: Tensor, levels: int, first_counted: Tensor) -> Tensor:
    """Encode the positions of level after level; see `foveate.ops.tree_positions`."""
    nodes = torch.arange(len(tree), device=tree.parent.device)
    end = tree.level_sizes[0] if len(tree) else 0
    encodings = [(levels * table[:1]).expand(end, -1)]
    start_above = 0
    for level, size in enumerate(tree.level_sizes[1:], start=1):
        start, end = end, end + size
        parent = tree.parent[start:end]
        index = nodes[start:end] - first_counted.index_select(0, parent) + 1
        step = table - table[0] if level <= levels else table
        inherited = encodings[-1].index_select(0, parent - start_above)
        encoding = inherited.add_(step.index_select(0, index.clamp(min=0)))
        if level == 1:
            own = nodes[start:end] - tree.first_child.index_select(0, parent)
            alike = levels * table.index_select(0, own)
            encoding = torch.where((index < 1)[:, None], alike, encoding)
        encodings.append(encoding)
        start_above = start
    return torch.cat(encodings)


@uncompiled  # the loops over levels would be recompiled for every tree
def reading_order(tree: Tree) -> Tensor:
    """Add up subtrees from below, and paths from above; see `foveate.ops.tree_positions`."""
    ends = accumulate(tree.level_sizes, initial=0)
    levels = [slice(*level) for level in pairwise(ends)]
    sizes = torch.ones_like(tree.parent)
    for level in reversed(levels[1:]):
        sizes.index_add_(0, tree.parent[level], sizes[level].clone())
    before = sizes.cumsum(0) - sizes  # siblings are consecutive
    order = torch.zeros_like(sizes)
    for level in levels[1:]:
        parent = tree.parent[level]
        siblings = before[level] - before[tree.first_child[parent]]
        order[level] = order[parent] + 1 + siblings
    return order
