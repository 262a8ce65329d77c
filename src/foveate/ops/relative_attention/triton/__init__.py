"""Relative attention on the GPU: the torch ops of its forward and backward kernels."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op, new_or_empty, or_empty
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable

from .backward import backward
from .forward import forward
from .scoring import RelativeScoring

__all__ = ["backward_op", "forward_op", "relative_attention"]


class _Arguments(NamedTuple):
    """The arguments of `foveate.ops.relative_attention`, as the torch ops take them."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    key_bias: Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    q_lengths: list[int]
    k_lengths: list[int]
    causal: bool
    max_distance: int
    scale: float

    @property
    def scoring(self) -> RelativeScoring:
        """The terms of scores other than products."""
        return RelativeScoring.from_table(*self[3:7], *self[9:])


def relative_attention(q: Tensor, *arguments: Any) -> Tensor:
    """Attend in float16, bfloat16 or float32, with any strides.

    Args:
        q: The queries.
        arguments: The others of `_Arguments`.
    """
    *others, q_lengths, k_lengths, causal, max_distance, scale = arguments
    if scale < 0:  # the kernels expect the highest product to have the highest score
        q, scale = -q, -scale
    arguments = q, *others, list(q_lengths), list(k_lengths), causal, max_distance, scale
    out: Tensor
    if torch.is_grad_enabled():
        out = _RelativeAttention.apply(*arguments)
    else:
        out, _ = forward_op(*arguments)
    return out


_SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? key_bias, Tensor? q_positions, "
    "Tensor? k_positions, SymInt[] q_lengths, SymInt[] k_lengths, bool causal, int max_distance, "
    "float scale"
)


@define_op(
    f"relative_attention({_SCHEMA}) -> (Tensor, Tensor)", fake=lambda q, *_: empty_outputs(q)
)
def forward_op(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exps; see `forward`."""
    x = _Arguments(*arguments)
    q, k, v = map(adjacent, x[:3])
    return forward(q, k, v, x.scoring, x.q_lengths, x.k_lengths)


def _fake_backward(grad: Tensor, o: Tensor, lse: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    *inputs, needs_bias, needs_key_bias = arguments
    x = _Arguments(*inputs)
    biases = x.bias if needs_bias else None, x.key_bias if needs_key_bias else None
    return (
        new_or_empty(x.q, x.q),
        empty_gradients(x.k, 2),
        *(new_or_empty(bias, x.q) for bias in biases),
    )


@define_op(
    f"relative_attention_backward(Tensor grad, Tensor o, Tensor lse, {_SCHEMA}, "
    "bool needs_bias, bool needs_key_bias) -> (Tensor, Tensor, Tensor, Tensor)",
    fake=_fake_backward,
)
def backward_op(grad: Tensor, o: Tensor, lse: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    """Compute the gradients of q, of k and v, and of both biases, empty if they are not needed."""
    *inputs, needs_bias, needs_key_bias = arguments
    x = _Arguments(*inputs)
    grad, q, k, v = map(adjacent, (grad, *x[:3]))
    dq, d_kv, d_bias, d_key_bias = backward(
        grad,
        q,
        k,
        v,
        o.contiguous(),
        lse,
        x.scoring,
        x.q_lengths,
        x.k_lengths,
        needs_bias,
        needs_key_bias,
    )
    if x.bias is not None and d_bias is not None:
        d_bias = d_bias.to(x.bias.dtype)
    if x.key_bias is not None and d_key_bias is not None:
        d_key_bias = d_key_bias.to(x.key_bias.dtype)
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
