"""Positions by their definition: node by node."""

import torch
from torch import Tensor

from foveate.ops.tree_attention import Tree


def tree_positions(tree: Tree, table: Tensor, levels: int, global_leaves: bool) -> Tensor:
    """Add up the path to each node; see `foveate.ops.tree_positions`."""
    parent, first_child = tree.parent.tolist(), tree.first_child.tolist()
    num_children = tree.num_children.tolist()
    encodings: list[Tensor] = []
    for node, above in enumerate(parent):
        level = int(tree.level[node])
        if above < 0:
            encodings.append(levels * table[0])
            continue
        first, index = first_child[above], node - first_child[above] + 1
        if global_leaves and level == 1:
            siblings = range(first, first + num_children[above])
            sections = [sibling for sibling in siblings if num_children[sibling] > 0]
            if sections and node < sections[0]:
                encodings.append(levels * table[node - first])
                continue
            index = node - (sections[0] if sections else first) + 1
        replaced = table[0] if level <= levels else 0
        encodings.append(encodings[above] + table[index] - replaced)
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
