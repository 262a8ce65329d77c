"""Window attention on the GPU: the torch ops of its forward and backward kernels.

All queries of a sequence see its global keys, so these are the first tiles that a program attends
to. If there are biases, or if global keys are masked, the kernels of relative attention attend to
the global keys, and the window kernels continue from their outputs and log-sum-exps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op, new_or_empty, or_empty
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable
from foveate.ops.relative_attention.triton import backward_op as relative_backward_op
from foveate.ops.relative_attention.triton import forward_op as relative_forward_op

from ..global_attention import GlobalKeysValues, masked_key_bias
from .backward import backward
from .forward import forward
from .scoring import GlobalTokens, WindowScoring

__all__ = ["backward_op", "forward_op", "window_attention"]


class _Arguments(NamedTuple):
    """The arguments of `foveate.ops.window_attention`, as the torch ops take them."""

    q: Tensor
    k: Tensor
    v: Tensor
    global_k: Tensor
    global_v: Tensor
    bias: Tensor | None
    global_bias: Tensor | None
    positions: Tensor | None
    global_key_bias: Tensor | None
    masked_keys: Tensor | None
    lengths: list[int]
    global_lengths: list[int]
    left: int
    right: int
    max_distance: int
    scale: float

    @property
    def scoring(self) -> WindowScoring:
        """The terms of scores in windows."""
        return WindowScoring.from_table(self.bias, self.masked_keys, *self[12:])

    @property
    def global_tokens(self) -> GlobalTokens | None:
        """The global keys and values that the window kernels attend to."""
        biases = self.bias, self.global_bias, self.global_key_bias
        if not len(self.global_k) or any(bias is not None for bias in biases):
            return None
        k, v = adjacent(self.global_k), adjacent(self.global_v)
        return GlobalTokens(k, v, self.global_lengths)

    @property
    def of_relative_attention(self) -> tuple[Any, ...]:
        """The arguments of relative attention to the global keys."""
        return (
            self.q,
            self.global_k,
            self.global_v,
            self.global_bias,
            self.global_key_bias,
            self.positions,
            None,
            self.lengths,
            self.global_lengths,
            False,
            self.max_distance,
            self.scale,
        )


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_keys_values: GlobalKeysValues,
    bias: Tensor | None,
    masked_keys: Tensor | None,
    window: tuple[int, int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Attend in float16, bfloat16 or float32, with any strides."""
    if scale <= 0:  # the kernels expect the highest product to have the highest score
        q, scale = (-q, -scale) if scale else (0 * q, 1.0)
    kv = global_keys_values
    key_bias = None if kv.masked is None else masked_key_bias(kv.masked)
    tensors = q, k, v, kv.k, kv.v, bias, kv.bias, kv.positions, key_bias, masked_keys
    arguments = *tensors, list(lengths), list(kv.lengths), *window, max_distance, scale
    out: Tensor
    if torch.is_grad_enabled():
        out = _WindowAttention.apply(*arguments)
    else:
        out, _ = forward_op(*arguments)
    return out


_SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor global_k, Tensor global_v, Tensor? bias, "
    "Tensor? global_bias, Tensor? positions, Tensor? global_key_bias, Tensor? masked_keys, "
    "SymInt[] lengths, SymInt[] global_lengths, int left, int right, int max_distance, float scale"
)


@define_op(f"window_attention({_SCHEMA}) -> (Tensor, Tensor)", fake=lambda q, *_: empty_outputs(q))
def forward_op(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exps; see `forward`."""
    x = _Arguments(*arguments)
    global_tokens, outputs = x.global_tokens, None
    if global_tokens is None and len(x.global_k):
        outputs = relative_forward_op(*x.of_relative_attention)
    q, k, v = map(adjacent, x[:3])
    return forward(q, k, v, x.scoring, x.lengths, global_tokens, outputs)


def _fake_backward(grad: Tensor, o: Tensor, lse: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    x = _Arguments(*arguments)
    biases = (new_or_empty(bias, x.q) for bias in (x.bias, x.global_bias))
    return empty_gradients(x.q, 3), empty_gradients(x.global_k, 2), *biases


@define_op(
    f"window_attention_backward(Tensor grad, Tensor o, Tensor lse, {_SCHEMA}) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    fake=_fake_backward,
)
def backward_op(grad: Tensor, o: Tensor, lse: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    """Compute the gradients of q, k and v, of the global keys and values, and of both biases."""
    x = _Arguments(*arguments)
    global_tokens, dq = x.global_tokens, None
    d_global_kv = empty_gradients(x.global_k, 2)
    d_global_bias = None if x.global_bias is None else torch.zeros_like(x.global_bias)
    if global_tokens is None and len(x.global_k):
        dq, d_global_kv, d_global_bias, _ = relative_backward_op(
            grad, o, lse, *x.of_relative_attention, True, False
        )
    grad, q, k, v = map(adjacent, (grad, *x[:3]))
    d_qkv, d_global, d_bias = backward(
        grad, q, k, v, o, lse, x.scoring, x.lengths, global_tokens, dq
    )
    if d_global is not None:
        d_global_kv.copy_(d_global.transpose(0, 1))
    if x.bias is not None and d_bias is not None:
        d_bias = d_bias.to(x.bias.dtype)
    return d_qkv, d_global_kv, or_empty(d_bias, q), or_empty(d_global_bias, q)


class _WindowAttention(torch.autograd.Function):
    """Saves the inputs, the output and one float32 per token and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        out: Tensor
        out, lse = forward_op(*arguments)
        ctx.save_for_backward(out, lse, *arguments[:10])
        ctx.options = arguments[10:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        d_qkv, d_global_kv, d_bias, d_global_bias = backward_op(grad, *saved, *ctx.options)
        bias, global_bias = saved[7:9]
        return (
            *d_qkv.unbind(1),
            *d_global_kv.unbind(1),
            None if bias is None else d_bias,
            None if global_bias is None else d_global_bias,
            *[None] * 9,
        )
