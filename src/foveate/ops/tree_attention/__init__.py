"""Tree attention: every node attends its parent, its siblings and its children (HDT, 3.2)."""

from collections.abc import Collection

from torch import Tensor

from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference
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
    backend: str | None = None,
) -> Tensor:
    """Attend along the edges of a forest (HDT, eq. 3-7, for any depth).

    Node i attends itself and, where `edges` names them, its parent, its siblings and its children.
    Time and memory are linear in the number of nodes for families of bounded size.

    Args:
        q: queries `(tokens, heads, head_dim)`, any floating dtype, rows in the tree's order. Slices
            of one fused projection are read in place.
        k: keys, same shape.
        v: values, same shape.
        tree: the forest, on the same device.
        edges: a subset of {"parent", "siblings", "children"}.
        scale: factor on the scores, 1/√head_dim if None.
        backend: "triton" (kernels for GPUs, linear memory: one float32 per row and head beyond
            inputs and outputs), "eager" (any device, linear memory), "reference" (the dense
            definition), or "auto": triton where it can run, torch elsewhere. If None, what the
            environment variable FOVEATE_BACKEND says, "auto" if nothing.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, rows in the tree's order.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit together, an unknown edge or backend,
            or a backend that cannot run on these tensors.

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
    if q.shape[0] != len(tree):
        raise ValueError(f"q has {q.shape[0]} rows but the tree has {len(tree)} nodes")
    q, k, v = autocast(q), autocast(k), autocast(v)
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v must share one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    if not q.device == k.device == v.device == tree.parent.device:
        raise ValueError(
            "q, k, v and the tree must be on one device, "
            f"got {q.device}, {k.device}, {v.device} and {tree.parent.device}"
        )
    if isinstance(edges, str):
        raise ValueError(f"edges must be a list of names, got {edges!r}: give [{edges!r}]")
    if unknown := set(edges) - set(EDGES):
        raise ValueError(f"unknown edges {sorted(unknown)}: choose among {list(EDGES)}")
    backend = choose(backend, q)
    if q.shape[0] == 0:
        return q.clone()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if backend == "triton":
        from .triton import tree_attention as attend_tiles

        parent, siblings, children = (edge in edges for edge in EDGES)
        return attend_tiles(q, k, v, tree.blocks, (parent, siblings, children), scale)

    q, k, v = tree.to_level_order(q), tree.to_level_order(k), tree.to_level_order(v)
    if backend == "eager":
        out = _eager.tree_attention(q, k, v, tree, edges, scale)
    else:
        out = _reference.tree_attention(q, k, v, tree.parent, edges, scale)
    return tree.from_level_order(out)
