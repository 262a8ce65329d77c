"""Positions in a tree: of a node among its siblings on every level, and in reading order."""

import torch
from torch import Tensor

from foveate.ops.backends import choose
from foveate.ops.tree_attention import Tree

from . import eager as _eager
from . import reference as _reference

__all__ = ["reading_order", "tree_positions"]


@torch.no_grad()
def tree_positions(
    tree: Tree,
    table: Tensor,
    *,
    levels: int,
    global_leaves: bool = False,
    backend: str | None = None,
) -> Tensor:
    """Encode the position of every node (HDT, eq. 2), without gradients.

    The encoding of a root is `levels` times that of index 0. The encoding of any other node is that
    of its parent, with the encoding of its index among its siblings, counted from 1, in place of
    index 0; below `levels` levels, in addition to it.

    Args:
        tree: The forest, in level order.
        table: `(indices, channels)`, the encodings of indices, more of them than any node has
            children.
        levels: Number of levels below the roots that an encoding has room for.
        global_leaves: Whether leaves before the first other child of a root, such as the tokens of
            a query before the sections, take no place among its children, so that the first section
            still has index 1. They have the same index on all levels, counted from 0.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        `(nodes, channels)` in the dtype of the table.

    Raises:
        ValueError: If the table does not have two dimensions or is on another device than the
            tree, if the backend is unknown, or if it cannot run on these tensors.

    Example:
        >>> import torch
        >>> tree = Tree.from_parents([-1, 0, 0, 1])  # a root, two sections, a sentence
        >>> tree_positions(tree, torch.tensor([[0.0], [1.0], [10.0]]), levels=2)
        tensor([[ 0.],
                [ 1.],
                [10.],
                [ 2.]])
    """
    if table.dim() != 2 or table.device != tree.parent.device:
        raise ValueError(
            f"the table must be (indices, channels) on {tree.parent.device}, "
            f"got {tuple(table.shape)} on {table.device}"
        )
    backend = choose(backend, table, widest=None)
    if backend == "reference":
        return _reference.tree_positions(tree, table, levels, global_leaves)
    first_counted = _after_global_leaves(tree) if global_leaves else tree.first_child
    if backend == "triton":
        from .triton import tree_positions_op

        nodes = tree.parent, tree.level, tree.first_child
        encodings: Tensor = tree_positions_op(*nodes, table.contiguous(), levels, first_counted)
        return encodings
    return _eager.tree_positions(tree, table, levels, first_counted)


def _after_global_leaves(tree: Tree) -> Tensor:
    """Return the child of each node from which its children are counted, `(nodes,)` int64."""
    nodes = torch.arange(len(tree), device=tree.parent.device)
    is_section = (tree.level == 1) & (tree.num_children > 0)
    none = torch.full_like(nodes, len(tree))
    first_section = none.scatter_reduce(
        0, tree.parent.clamp(min=0), torch.where(is_section, nodes, none), "amin"
    )
    return torch.where(first_section < len(tree), first_section, tree.first_child)


@torch.no_grad()
def reading_order(tree: Tree, *, backend: str | None = None) -> Tensor:
    """Count the nodes before each node in its document, where parents come before their children.

    Args:
        tree: The forest, in level order.
        backend: See `tree_positions`.

    Returns:
        `(nodes,)` int64, 0 at roots.

    Raises:
        ValueError: If the backend is unknown, or if it cannot run on this tree.

    Example:
        >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2])  # a root, two sentences, their tokens
        >>> reading_order(tree)
        tensor([0, 1, 4, 2, 3, 5])
    """
    backend = choose(backend, tree.parent.new_empty(0, dtype=torch.float32), widest=None)
    if backend == "reference":
        return _reference.reading_order(tree)
    if backend == "triton":
        from .triton import reading_order_op

        order: Tensor = reading_order_op(
            tree.parent, tree.level, tree.first_child, tree.num_children
        )
        return order
    return _eager.reading_order(tree)
