"""Tree attention: every node attends to its parent, siblings and children (HDT, section 3.2)."""

from collections.abc import Collection

import torch
from torch import Tensor

from foveate.ops._packed.validation import check_device, check_scale, check_self_attention
from foveate.ops._triton.card import row_bytes
from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference
from .tree import SIZE, Tree

__all__ = ["EDGES", "Tree", "tree_attention", "tree_attention_qkv"]

EDGES = ("parent", "siblings", "children")
"""What a node may attend to besides itself."""


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
    """Attend along the edges of a forest of any depth (HDT, eq. 3-7).

    Each node attends to itself and, where `edges` names them, to its parent, its siblings and its
    children. Time and memory are linear in the number of nodes for families of bounded size.

    Args:
        q: Queries `(tokens, heads, head_dim)`, any floating dtype, in the node order of `tree`.
        k: Keys, same shape.
        v: Values, same shape.
        tree: The forest, on the same device.
        edges: A subset of {"parent", "siblings", "children"}.
        scale: Factor on the scores, 1/√head_dim if None.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q` and in the node order of `tree`.

    Raises:
        ValueError: If shapes, dtypes or devices do not match, if an edge or the backend is unknown,
            or if the backend cannot run on these tensors.

    Example:
        >>> import torch
        >>> tree = Tree.from_parents([-1, 0, 1, 1, 0, 4])  # a root, two sections, three tokens
        >>> q, k, v = torch.randn(3, 6, 2, 8)
        >>> tree_attention(q, k, v, tree).shape
        torch.Size([6, 2, 8])
    """
    return _attend((q, k, v), tree, edges, scale, backend)


def tree_attention_qkv(
    qkv: Tensor,
    tree: Tree,
    *,
    edges: Collection[str] = EDGES,
    scale: float | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend like `tree_attention`, with queries, keys and values in one tensor.

    Their gradients are one tensor, too, so a layer that projects to all three has its own from one
    product, without a copy.

    Args:
        qkv: Queries, keys and values `(tokens, 3, heads, head_dim)`.
        tree: See `tree_attention`.
        edges: See `tree_attention`.
        scale: See `tree_attention`.
        backend: See `tree_attention`.

    Returns:
        `(tokens, heads, head_dim)`.

    Raises:
        ValueError: If `qkv` has another shape, or see `tree_attention`.
    """
    if qkv.dim() != 4 or qkv.shape[1] != 3:
        raise ValueError(f"qkv must be (tokens, 3, heads, head_dim), got {tuple(qkv.shape)}")
    return _attend((qkv,), tree, edges, scale, backend)


def kernel_memory(q: Tensor, trains: bool) -> int:
    """Return the bytes that a kernel needs: the tiles that it multiplies stay in shared memory."""
    num_tiles = 3 if not trains else 5 if q.element_size() < 4 else 6
    return num_tiles * SIZE * row_bytes(q)


def _attend(
    inputs: tuple[Tensor, ...],
    tree: Tree,
    edges: Collection[str],
    scale: float | None,
    backend: str | None,
) -> Tensor:
    """Check arguments and choose the backend; the inputs are queries, keys and values, or one."""
    inputs = tuple(autocast(x) for x in inputs)
    q, k, v = inputs if len(inputs) == 3 else inputs[0].unbind(1)
    check_self_attention(q, k, v)
    if not isinstance(tree, Tree):
        raise ValueError(
            f"tree must be a Tree, got {type(tree).__name__}: build it once with Tree.from_parents"
        )
    if q.shape[0] != len(tree):
        raise ValueError(f"q has {q.shape[0]} tokens but the tree has {len(tree)} nodes")
    check_device("tree", tree.parent, q)
    if isinstance(edges, str):
        raise ValueError(
            f"edges must be a list of names, got the string {edges!r}: pass [{edges!r}]"
        )
    if unknown := set(edges) - set(EDGES):
        raise ValueError(f"unknown edges {sorted(unknown)}: choose from {list(EDGES)}")
    check_scale(scale)
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    backend = choose(backend, q, shared_memory=kernel_memory(q, trains))
    if q.numel() == 0:
        return q.clone()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if backend == "triton":
        from . import triton as _triton

        parent, siblings, children = (edge in edges for edge in EDGES)
        return _triton.tree_attention(inputs, tree.tiles, (parent, siblings, children), scale)

    q, k, v = tree.to_level_order(q), tree.to_level_order(k), tree.to_level_order(v)
    if backend == "eager":
        out = _eager.tree_attention(q, k, v, tree, edges, scale)
    else:
        out = _reference.tree_attention(q, k, v, tree.parent, edges, scale)
    return tree.from_level_order(out)
