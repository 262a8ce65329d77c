"""Window attention on the GPU: the torch ops of its forward and backward kernels.

All queries of a sequence see its global keys, so these are the first tiles that a program attends
to. If there are biases, or if global keys are masked, the kernels of relative attention attend to
the global keys, and the window kernels continue from their outputs and log-sum-exps.
"""

from collections.abc import Sequence
from typing import Any

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
from .scoring import GlobalTokens, Scoring

__all__ = ["backward_op", "forward_op", "window_attention"]


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
    """Compute attention in windows without dilation, as `foveate.ops.window_attention` defines it.

    Args:
        q: Queries `(tokens, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: Keys, likewise.
        v: Values, likewise.
        global_keys_values: Keys and values that all queries of a sequence see.
        bias: Table `(num_buckets, heads)`.
        masked_keys: `(tokens,)` bool, True for tokens that no window shows.
        window: Tokens to the left and to the right.
        lengths: The number of tokens in each sequence.
        max_distance: Distance near which the last bucket begins.
        scale: Factor on the products.
    """
    if scale <= 0:  # the kernels expect the highest product to have the highest score
        q, scale = (-q, -scale) if scale else (0 * q, 1.0)
    kv = global_keys_values
    arguments = (
        q,
        k,
        v,
        kv.k,
        kv.v,
        bias,
        kv.bias,
        kv.positions,
        None if kv.masked is None else masked_key_bias(kv.masked),
        masked_keys,
        list(lengths),
        list(kv.lengths),
        *window,
        max_distance,
        scale,
    )
    out: Tensor
    if torch.is_grad_enabled():
        out = _WindowAttention.apply(*arguments)
    else:
        out, _ = forward_op(*arguments)
    return out


_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor global_k, Tensor global_v, Tensor? bias, "
    "Tensor? global_bias, Tensor? positions, Tensor? global_key_bias, Tensor? masked_keys, "
    "SymInt[] lengths, SymInt[] global_lengths, int left, int right, int max_distance, float scale"
)


def _fake_forward(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return empty_outputs(q)


@define_op(f"window_attention({_ARGUMENTS}) -> (Tensor, Tensor)", fake=_fake_forward)
def forward_op(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_k: Tensor,
    global_v: Tensor,
    bias: Tensor | None,
    global_bias: Tensor | None,
    positions: Tensor | None,
    global_key_bias: Tensor | None,
    masked_keys: Tensor | None,
    lengths: list[int],
    global_lengths: list[int],
    left: int,
    right: int,
    max_distance: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exps; see `forward`."""
    global_tokens = outputs = None
    if bias is None and global_bias is None and global_key_bias is None:
        global_tokens = _global_tokens(global_k, global_v, global_lengths)
    elif global_k.shape[0]:
        outputs = relative_forward_op(
            q,
            global_k,
            global_v,
            global_bias,
            global_key_bias,
            positions,
            None,
            lengths,
            global_lengths,
            False,
            max_distance,
            scale,
        )
    scoring = Scoring.from_table(bias, masked_keys, left, right, max_distance, scale)
    q, k, v = adjacent(q), adjacent(k), adjacent(v)
    return forward(q, k, v, scoring, lengths, global_tokens, outputs)


def _fake_backward(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_k: Tensor,
    global_v: Tensor,
    bias: Tensor | None,
    global_bias: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, ...]:
    biases = (new_or_empty(x, q) for x in (bias, global_bias))
    return empty_gradients(q, 3), empty_gradients(global_k, 2), *biases


@define_op(
    f"window_attention_backward(Tensor grad, Tensor o, Tensor lse, {_ARGUMENTS}) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    fake=_fake_backward,
)
def backward_op(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_k: Tensor,
    global_v: Tensor,
    bias: Tensor | None,
    global_bias: Tensor | None,
    positions: Tensor | None,
    global_key_bias: Tensor | None,
    masked_keys: Tensor | None,
    lengths: list[int],
    global_lengths: list[int],
    left: int,
    right: int,
    max_distance: int,
    scale: float,
) -> tuple[Tensor, ...]:
    """Compute the gradients of q, k and v, of the global keys and values, and of both biases."""
    global_tokens = dq = None
    d_global_kv = empty_gradients(global_k, 2)
    d_global_bias = None if global_bias is None else torch.zeros_like(global_bias)
    if bias is None and global_bias is None and global_key_bias is None:
        global_tokens = _global_tokens(global_k, global_v, global_lengths)
    elif global_k.shape[0]:
        dq, d_global_kv, d_global_bias, _ = relative_backward_op(
            grad,
            o,
            lse,
            q,
            global_k,
            global_v,
            global_bias,
            global_key_bias,
            positions,
            None,
            lengths,
            global_lengths,
            False,
            max_distance,
            scale,
            needs_key_bias=False,
        )
    scoring = Scoring.from_table(bias, masked_keys, left, right, max_distance, scale)
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    d_qkv, d_global, d_bias = backward(grad, q, k, v, o, lse, scoring, lengths, global_tokens, dq)
    if d_global is not None:
        d_global_kv.copy_(d_global.transpose(0, 1))
    if bias is not None and d_bias is not None:
        d_bias = d_bias.to(bias.dtype)
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


def _global_tokens(k: Tensor, v: Tensor, lengths: list[int]) -> GlobalTokens | None:
    return GlobalTokens(adjacent(k), adjacent(v), lengths) if k.shape[0] else None
