"""Relative attention on the GPU: tiles of queries and keys, forward and backward, as torch ops.

`foveate::relative_attention` and `foveate::relative_attention_backward` are opaque to the compiler
and know their output's shapes without running, so that torch.compile, graph capture, checkpointing
and distributed wrappers take them like any op of torch's own.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.math import adjacent

from .backward import backward
from .forward import forward
from .launch import Scoring

__all__ = ["relative_attention"]


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    causal: bool,
    max_distance: int,
    scale: float,
) -> Tensor:
    """Attention of packed rows, as `foveate.ops.relative_attention` defines it.

    Args:
        q: queries `(n, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: keys, like q.
        v: values, like q.
        bias: table `(num_buckets, heads)`.
        key_bias: `(key_rows,)`.
        q_positions: `(n,)`; 0, 1, … in each sequence if None.
        k_positions: `(key_rows,)`, likewise.
        q_lengths: lengths of the sequences.
        k_lengths: on the keys' side.
        causal: whether later keys are hidden.
        max_distance: distance near which the last bucket begins.
        scale: factor on the products.
    """
    if scale < 0:  # the highest product shall have the highest score
        q, scale = -q, -scale
    lengths = list(q_lengths), list(k_lengths)
    arguments = q, k, v, bias, key_bias, q_positions, k_positions, *lengths, causal, max_distance
    if torch.is_grad_enabled():
        out: Tensor = _Attention.apply(*arguments, scale)
        return out
    return torch.ops.foveate.relative_attention.default(*arguments, scale)[0]


_ARGUMENTS = (
    "Tensor? bias, Tensor? key_bias, Tensor? q_positions, Tensor? k_positions, "
    "SymInt[] q_lengths, SymInt[] k_lengths, bool causal, int max_distance, float scale"
)
torch.library.define(
    "foveate::relative_attention",
    f"(Tensor q, Tensor k, Tensor v, {_ARGUMENTS}) -> (Tensor, Tensor)",
)
torch.library.define(
    "foveate::relative_attention_backward",
    f"(Tensor grad, Tensor o, Tensor lse, Tensor q, Tensor k, Tensor v, {_ARGUMENTS},"
    " bool of_bias=True, bool of_key_bias=True) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@torch.library.impl("foveate::relative_attention", ("cpu", "cuda"))
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: list[int],
    k_lengths: list[int],
    causal: bool,
    max_distance: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    biases, places = (bias, key_bias), (q_positions, k_positions)
    scoring = Scoring.by_table(*biases, *places, causal, max_distance, scale)
    return forward(adjacent(q), adjacent(k), adjacent(v), scoring, q_lengths, k_lengths)


@torch.library.register_fake("foveate::relative_attention")
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    n, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((heads, n), dtype=torch.float32)


@torch.library.impl("foveate::relative_attention_backward", ("cpu", "cuda"))
def _(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: list[int],
    k_lengths: list[int],
    causal: bool,
    max_distance: int,
    scale: float,
    of_bias: bool = True,
    of_key_bias: bool = True,
) -> tuple[Tensor, ...]:
    biases, places = (bias, key_bias), (q_positions, k_positions)
    scoring = Scoring.by_table(*biases, *places, causal, max_distance, scale)
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    o = o.contiguous()
    *of_rows, d_bias, d_key_bias = backward(
        grad, q, k, v, o, lse, scoring, q_lengths, k_lengths, of_bias, of_key_bias
    )
    return *of_rows, _or_nothing(d_bias, bias, q), _or_nothing(d_key_bias, key_bias, q)


@torch.library.register_fake("foveate::relative_attention_backward")
def _(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: list[int],
    k_lengths: list[int],
    causal: bool,
    max_distance: int,
    scale: float,
    of_bias: bool = True,
    of_key_bias: bool = True,
) -> tuple[Tensor, ...]:
    rows = (x.new_empty(x.shape) for x in (q, k, v))
    asked = (bias if of_bias else None, key_bias if of_key_bias else None)
    return *rows, *(q.new_empty(0) if x is None else x.new_empty(x.shape) for x in asked)


class _Attention(torch.autograd.Function):
    """Keeps q, k, v, the biases, the output and one float32 per row and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        out, lse = torch.ops.foveate.relative_attention.default(*arguments)
        ctx.save_for_backward(out, lse, *arguments[:7])
        ctx.options = arguments[7:]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        asked = ctx.needs_input_grad[3:5]
        *of_rows, d_bias, d_key_bias = torch.ops.foveate.relative_attention_backward.default(
            grad, *ctx.saved_tensors, *ctx.options, *asked
        )
        of_biases = (d_bias if asked[0] else None, d_key_bias if asked[1] else None)
        return *of_rows, *of_biases, *[None] * 7


def _or_nothing(gradient: Tensor | None, x: Tensor | None, q: Tensor) -> Tensor:
    """Gradient in the dtype of x; ops return no None, so that of no x is empty."""
    return q.new_empty(0) if gradient is None or x is None else gradient.to(x.dtype)
