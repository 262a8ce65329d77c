"""Tree attention on the GPU: tiles of whole families, forward and backward, as torch ops."""

from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable

from .backward import backward
from .forward import forward
from .partition import ForestTiles

__all__ = ["backward_op", "forward_op", "tree_attention"]


def tree_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tiles: ForestTiles,
    edges: tuple[bool, bool, bool],
    scale: float,
) -> Tensor:
    """Compute the attention of `(n, heads, head_dim)` within the families of a forest.

    Args:
        q: Queries, float16, bfloat16 or float32, any strides.
        k: Keys, like q.
        v: Values, like q.
        tiles: The tiles of the forest, in the node order of q, k and v.
        edges: Whether nodes attend to their parent, their siblings and their children.
        scale: Factor on the scores.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _TreeAttention.apply(q, k, v, *tiles, *edges, scale)
    else:
        out, _ = forward_op(q, k, v, *tiles, *edges, scale)
    return out


_OPTIONS = (
    "Tensor members, Tensor lists, SymInt[] counts, "
    "bool parent, bool siblings, bool children, float scale"
)


@define_op(
    f"tree_attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)",
    fake=lambda q, *_: empty_outputs(q),
)
def forward_op(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exps; see `forward`."""
    *tiles, parent, siblings, children, scale = options
    q, k, v = adjacent(q), adjacent(k), adjacent(v)
    return forward(q, k, v, ForestTiles(*tiles), (parent, siblings, children), scale)


@define_op(
    "tree_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
    f"{_OPTIONS}) -> Tensor",
    fake=lambda _, q, *__: empty_gradients(q, 3),
)
def backward_op(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *options: Any
) -> Tensor:
    """Compute the gradients of q, k and v; see `backward`."""
    *tiles, parent, siblings, children, scale = options
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    edges = parent, siblings, children
    return backward(grad, q, k, v, o, lse, ForestTiles(*tiles), edges, scale)


class _TreeAttention(torch.autograd.Function):
    """Saves q, k, v, the output and one float32 per node and head."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Tensor:
        out: Tensor
        out, lse = forward_op(q, k, v, *options)
        ctx.save_for_backward(q, k, v, out, lse, *options[:2])
        ctx.options = options[2:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dq, dk, dv = backward_op(grad, *ctx.saved_tensors, *ctx.options).unbind(1)
        return dq, dk, dv, *[None] * 7
