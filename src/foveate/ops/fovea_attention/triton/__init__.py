"""Fovea attention on the GPU: tiles of queries against tiles of windows, as torch ops.

`foveate::fovea_attention` and `foveate::fovea_attention_backward` are opaque to the compiler and
know their output's shapes without running, so that torch.compile, graph capture, checkpointing and
distributed wrappers take them like any op of torch's own.
"""

from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.math import adjacent

from .backward import backward
from .forward import forward
from .pyramid import build
from .tables import Plan, rows_of, tables

__all__ = ["fovea_attention"]


def fovea_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_size: int,
    k_neighbours: int,
    coverage: str,
    bias: Tensor | None,
    lengths: tuple[int, ...],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Attention of `(n, heads, head_dim)` rows; `bias` is the table `(num_buckets, heads)`."""
    plan = list(lengths), block_size, k_neighbours, coverage, max_distance
    out: Tensor = _Attention.apply(q, k, v, bias, *plan, scale)
    return out


_OPTIONS = (
    "int[] lengths, int block_size, int k_neighbours, str coverage, int max_distance, float scale"
)
torch.library.define(
    "foveate::fovea_attention",
    f"(Tensor q, Tensor k, Tensor v, Tensor? bias, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "foveate::fovea_attention_backward",
    "(Tensor grad, Tensor q, Tensor windows, Tensor? bias, Tensor o, Tensor lse, "
    f"{_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
)


@torch.library.impl("foveate::fovea_attention", ("cpu", "cuda"))
def _(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    plan = Plan.of(q, bias, *options)
    found = tables(plan, q.device)
    windows = build(adjacent(k), adjacent(v), found)
    by_distance = found.by_distance(bias)
    return *forward(adjacent(q), windows, by_distance, found, options[-1]), windows


@torch.library.register_fake("foveate::fovea_attention")
def _(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    n, heads, head_dim = q.shape
    lse = q.new_empty((heads, n), dtype=torch.float32)
    return q.new_empty(q.shape), lse, k.new_empty((2, rows_of(*options[:3]), heads, head_dim))


@torch.library.impl("foveate::fovea_attention_backward", ("cpu", "cuda"))
def _(
    grad: Tensor,
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    o: Tensor,
    lse: Tensor,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    plan = Plan.of(q, bias, *options)
    found = tables(plan, q.device)
    grad, q = adjacent(grad), adjacent(q)
    by_distance = found.by_distance(bias)
    dq, dk, dv, d_bias = backward(grad, q, windows, by_distance, o, lse, found, options[-1])
    if bias is None or d_bias is None:
        return dq, dk, dv, q.new_empty(0)
    return dq, dk, dv, d_bias.to(bias.dtype)


@torch.library.register_fake("foveate::fovea_attention_backward")
def _(
    grad: Tensor, q: Tensor, windows: Tensor, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_bias = q.new_empty(0) if bias is None else bias.new_empty(bias.shape)
    return q.new_empty(q.shape), q.new_empty(q.shape), q.new_empty(q.shape), d_bias


class _Attention(torch.autograd.Function):
    """Keeps q, the windows, among which are k and v, the output, one float32 per row and head."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        out, lse, windows = torch.ops.foveate.fovea_attention.default(q, k, v, *rest)
        bias, *ctx.options = rest
        ctx.save_for_backward(q, windows, bias, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *gradients, d_bias = torch.ops.foveate.fovea_attention_backward.default(
            grad, *ctx.saved_tensors, *ctx.options
        )
        has_bias = ctx.saved_tensors[2] is not None
        return *gradients, d_bias if has_bias else None, *[None] * 6
