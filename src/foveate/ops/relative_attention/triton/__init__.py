"""Relative attention on the GPU: the torch ops of its forward and backward kernels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op, new_or_empty, or_empty
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable

from .backward import backward
from .forward import forward
from .scoring import Scoring

__all__ = ["backward_op", "forward_op", "relative_attention"]


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
    """Compute attention within packed sequences, as `foveate.ops.relative_attention` defines it.

    Args:
        q: Queries `(tokens, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: Keys `(key_tokens, heads, head_dim)`, likewise.
        v: Values, likewise.
        bias: Table `(num_buckets, heads)`.
        key_bias: `(key_tokens,)`.
        q_positions: `(tokens,)`; 0, 1, … in each sequence if None.
        k_positions: `(key_tokens,)`, likewise.
        q_lengths: The number of queries in each sequence.
        k_lengths: The number of keys in each sequence.
        causal: Whether later keys are hidden.
        max_distance: Distance near which the last bucket begins.
        scale: Factor on the products.
    """
    if scale < 0:  # the kernels expect the highest product to have the highest score
        q, scale = -q, -scale
    arguments = (
        q,
        k,
        v,
        bias,
        key_bias,
        q_positions,
        k_positions,
        list(q_lengths),
        list(k_lengths),
        causal,
        max_distance,
        scale,
    )
    out: Tensor
    if torch.is_grad_enabled():
        out = _RelativeAttention.apply(*arguments)
    else:
        out, _ = forward_op(*arguments)
    return out


_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? key_bias, Tensor? q_positions, "
    "Tensor? k_positions, SymInt[] q_lengths, SymInt[] k_lengths, bool causal, int max_distance, "
    "float scale"
)


def _fake_forward(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return empty_outputs(q)


@define_op(f"relative_attention({_ARGUMENTS}) -> (Tensor, Tensor)", fake=_fake_forward)
def forward_op(
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
    """Compute the output and the log-sum-exps; see `forward`."""
    scoring = Scoring.from_table(
        bias, key_bias, q_positions, k_positions, causal, max_distance, scale
    )
    return forward(adjacent(q), adjacent(k), adjacent(v), scoring, q_lengths, k_lengths)


def _fake_backward(
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
    needs_bias: bool = True,
    needs_key_bias: bool = True,
) -> tuple[Tensor, ...]:
    biases = bias if needs_bias else None, key_bias if needs_key_bias else None
    return new_or_empty(q, q), empty_gradients(k, 2), *(new_or_empty(x, q) for x in biases)


@define_op(
    f"relative_attention_backward(Tensor grad, Tensor o, Tensor lse, {_ARGUMENTS}, "
    "bool needs_bias=True, bool needs_key_bias=True) -> (Tensor, Tensor, Tensor, Tensor)",
    fake=_fake_backward,
)
def backward_op(
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
    needs_bias: bool = True,
    needs_key_bias: bool = True,
) -> tuple[Tensor, ...]:
    """Compute the gradients of q, of k and v, and of both biases, empty if they are not needed."""
    scoring = Scoring.from_table(
        bias, key_bias, q_positions, k_positions, causal, max_distance, scale
    )
    dq, d_kv, d_bias, d_key_bias = backward(
        adjacent(grad),
        adjacent(q),
        adjacent(k),
        adjacent(v),
        o.contiguous(),
        lse,
        scoring,
        q_lengths,
        k_lengths,
        needs_bias,
        needs_key_bias,
    )
    if bias is not None and d_bias is not None:
        d_bias = d_bias.to(bias.dtype)
    if key_bias is not None and d_key_bias is not None:
        d_key_bias = d_key_bias.to(key_bias.dtype)
    return dq, d_kv, or_empty(d_bias, q), or_empty(d_key_bias, q)


class _RelativeAttention(torch.autograd.Function):
    """Saves q, k, v, the biases, the output and one float32 per token and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        out: Tensor
        out, lse = forward_op(*arguments)
        ctx.save_for_backward(out, lse, *arguments[:7])
        ctx.options = arguments[7:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needs_bias, needs_key_bias = ctx.needs_input_grad[3:5]
        dq, d_kv, d_bias, d_key_bias = backward_op(
            grad, *ctx.saved_tensors, *ctx.options, needs_bias, needs_key_bias
        )
        biases = d_bias if needs_bias else None, d_key_bias if needs_key_bias else None
        return dq, *d_kv.unbind(1), *biases, *[None] * 7
