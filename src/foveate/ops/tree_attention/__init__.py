"""Tree attention: every node attends its parent, its siblings and its children (hdt.txt, 3.2)."""

from collections.abc import Collection

from torch import Tensor

from . import torch as _torch
from .tree import Tree

__all__ = ["EDGES", "Tree", "tree_attention"]

EDGES = ("parent", "siblings", "children")


def tree_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tree: Tree,
    *,
    edges: Collection[str] = EDGES,
    scale: float | None = None,
) -> Tensor:
    """Attend along the edges of a forest (hdt.txt, eq. 3-7, for any depth).

    Node i attends itself and, where `edges` names them, its parent, its siblings and its children.
    Time and memory are linear in the number of nodes for families of bounded size.

    Args:
        q: queries `(tokens, heads, head_dim)`, any floating dtype, rows in the tree's order.
        k: keys, same shape.
        v: values, same shape.
        tree: the forest, on the same device.
        edges: a subset of {"parent", "siblings", "children"}.
        scale: factor on the scores, 1/√head_dim if None.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, rows in the tree's order.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit together, or an unknown edge.

    Example:
        >>> import torch
        >>> tree = Tree.from_parents([-1, 0, 1, 1, 0, 4])  # a root, two sections, three tokens
        >>> q, k, v = torch.randn(3, 6, 2, 8)
        >>> tree_attention(q, k, v, tree).shape
        torch.Size([6, 2, 8])
    """
    if q.dim() != 3 or not q.shape == k.shape == v.shape:
        raise ValueError(
            "q, k and v must share one shape (tokens, heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if len(q) != len(tree):
        raise ValueError(f"q has {len(q)} rows but the tree has {len(tree)} nodes")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v must share one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    if not q.device == k.device == v.device == tree.parent.device:
        raise ValueError(
            "q, k, v and the tree must be on one device, "
            f"got {q.device}, {k.device}, {v.device} and {tree.parent.device}"
        )
    if unknown := set(edges) - set(EDGES):
        raise ValueError(f"unknown edges {sorted(unknown)}: choose among {list(EDGES)}")
    if len(q) == 0:
        return q.clone()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v = tree.to_level_order(q), tree.to_level_order(k), tree.to_level_order(v)
    return tree.from_level_order(_torch.tree_attention(q, k, v, tree, edges, scale))
