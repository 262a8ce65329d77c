"""Positions by their definition: node by node."""

import torch
from torch import Tensor

from foveate.ops.tree_attention import Tree


def tree_positions(tree: Tree, table: Tensor, levels: int) -> Tensor:
    """Add up the path to each node; see `foveate.ops.tree_positions`."""
    parent, first_child = tree.parent.tolist(), tree.first_child.tolist()
    encodings: list[Tensor] = []
    for node, above in enumerate(parent):
        level = int(tree.level[node])
        if above < 0:
            encodings.append(levels * table[0])
        else:
            replaced = table[0] if level <= levels else 0
            step = table[node - first_child[above] + 1] - replaced
            encodings.append(encodings[above] + step)
    return torch.stack(encodings) if encodings else table[:0]


def reading_order(tree: Tree) -> Tensor:
    """Visit every document depth first; see `foveate.ops.tree_positions.reading_order`."""
    first_child, num_children = tree.first_child.tolist(), tree.num_children.tolist()
    order = [0] * len(tree)
    for root in (tree.parent < 0).nonzero()[:, 0].tolist():
        stack, visited = [root], 0
        while stack:
            node = stack.pop()
            order[node] = visited
            visited += 1
            children = range(first_child[node], first_child[node] + num_children[node])
            stack += reversed(children)
    return torch.tensor(order, dtype=torch.long, device=tree.parent.device)
