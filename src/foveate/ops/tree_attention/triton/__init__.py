"""Tree attention on the GPU: tiles of whole families, forward and backward, as torch ops.

`foveate::tree_attention` and `foveate::tree_attention_backward` are opaque to the compiler and
know their output's shapes without running, so that torch.compile, graph capture, checkpointing and
distributed wrappers take them like any op of torch's own.
"""

from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.math import adjacent

from .backward import backward
from .partition import ForestTiles
from .forward import forward

__all__ = ["tree_attention"]


def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, blocks: ForestTiles, edges: tuple[bool, bool, bool], scale: float
) -> Tensor:
    """Attention of rows `(n, heads, head_dim)` within the families that `blocks` was cut from.

    Args:
        q: queries, float16, bfloat16 or float32, any strides.
        k: keys, like q.
        v: values, like q.
        blocks: the tiles of the forest, their rows numbered as those of q, k and v.
        edges: whether nodes see their parent, their siblings, their children.
        scale: factor on the scores.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _Attention.apply(q, k, v, *blocks, *edges, scale)
        return out
    return torch.ops.foveate.tree_attention.default(q, k, v, *blocks, *edges, scale)[0]


_BLOCKS = "Tensor members, Tensor lists, SymInt[] counts"
_OPTIONS = "bool parent, bool siblings, bool children, float scale"
torch.library.define(
    "foveate::tree_attention",
    f"(Tensor q, Tensor k, Tensor v, {_BLOCKS}, {_OPTIONS}) -> (Tensor, Tensor)",
)
torch.library.define(
    "foveate::tree_attention_backward",
    f"(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_BLOCKS}, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("foveate::tree_attention", ("cpu", "cuda"))
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *blocks, parent, siblings, children, scale = rest
    q, k, v = adjacent(q), adjacent(k), adjacent(v)
    return forward(q, k, v, ForestTiles(*blocks), (parent, siblings, children), scale)


@torch.library.register_fake("foveate::tree_attention")
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    n, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((heads, n), dtype=torch.float32)


@torch.library.impl("foveate::tree_attention_backward", ("cpu", "cuda"))
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *blocks, parent, siblings, children, scale = rest
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    edges = parent, siblings, children
    return backward(grad, q, k, v, o, lse, ForestTiles(*blocks), edges, scale)


@torch.library.register_fake("foveate::tree_attention_backward")
def _(grad: Tensor, q: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape), q.new_empty(q.shape)


class _Attention(torch.autograd.Function):
    """Keeps q, k, v, the output and one float32 per row and head."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        out, lse = torch.ops.foveate.tree_attention.default(q, k, v, *rest)
        ctx.save_for_backward(q, k, v, out, lse, *rest[:2])
        ctx.options = rest[2:]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dq, dk, dv = torch.ops.foveate.tree_attention_backward.default(
            grad, *ctx.saved_tensors, *ctx.options
        )
        return dq, dk, dv, *[None] * 7
