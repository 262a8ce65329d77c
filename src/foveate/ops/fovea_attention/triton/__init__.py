"""Fovea attention on the GPU: the torch ops of its forward and backward kernels."""

from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op, new_or_empty, or_empty
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable

from .backward import backward
from .forward import forward
from .pyramid import build_windows
from .schedule import ScheduleKey, build_schedule, num_windows

__all__ = ["backward_op", "forward_op", "fovea_attention"]


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
    size_bias: bool,
    stop_level: int | None,
) -> Tensor:
    """Compute softmax attention of `(tokens, heads, head_dim)` in float16, bfloat16 or float32."""
    nodes = block_size, k_neighbours, coverage, stop_level, max_distance
    out: Tensor = _FoveaAttention.apply(q, k, v, bias, list(lengths), *nodes, scale, size_bias)
    return out


_OPTIONS = (
    "int[] lengths, int block_size, int k_neighbours, str coverage, int? stop_level, "
    "int max_distance, float scale, bool size_bias"
)


def _fake_forward(q: Tensor, k: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    _, heads, head_dim = q.shape
    _, _, lengths, block_size, k_neighbours, _, stop_level, *_ = arguments
    windows = num_windows(lengths, block_size, k_neighbours, stop_level)
    return *empty_outputs(q), k.new_empty((2, windows, heads, head_dim))


@define_op(
    f"fovea_attention(Tensor q, Tensor k, Tensor v, Tensor? bias, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor)",
    fake=_fake_forward,
)
def forward_op(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the output, the log-sum-exps and the keys and values of all windows."""
    *nodes, scale, size_bias = options
    schedule = build_schedule(ScheduleKey.from_arguments(q, bias, *nodes), q.device)
    windows = build_windows(adjacent(k), adjacent(v), schedule)
    biases = schedule.bias(bias), schedule.log_sizes if size_bias else None
    return *forward(adjacent(q), windows, *biases, schedule, scale), windows


def _fake_backward(
    grad: Tensor, q: Tensor, windows: Tensor, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    return new_or_empty(q, q), empty_gradients(q, 2), new_or_empty(bias, q)


@define_op(
    "fovea_attention_backward(Tensor grad, Tensor q, Tensor windows, Tensor? bias, Tensor o, "
    f"Tensor lse, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    fake=_fake_backward,
)
def backward_op(
    grad: Tensor,
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    o: Tensor,
    lse: Tensor,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, of k and v, and of the bias."""
    *nodes, scale, size_bias = options
    schedule = build_schedule(ScheduleKey.from_arguments(q, bias, *nodes), q.device)
    biases = schedule.bias(bias), schedule.log_sizes if size_bias else None
    dq, d_kv, d_bias = backward(
        adjacent(grad), adjacent(q), windows, *biases, o, lse, schedule, scale
    )
    if bias is not None and d_bias is not None:
        d_bias = d_bias.to(bias.dtype)
    return dq, d_kv, or_empty(d_bias, q)


class _FoveaAttention(torch.autograd.Function):
    """Saves q, the windows, which include k and v, the output, one float32 per token and head."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *options: Any
    ) -> Tensor:
        out: Tensor
        out, lse, windows = forward_op(q, k, v, bias, *options)
        ctx.save_for_backward(q, windows, bias, out, lse)
        ctx.options = options
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _, _, bias, _, _ = ctx.saved_tensors
        dq, d_kv, d_bias = backward_op(grad, *ctx.saved_tensors, *ctx.options)
        return dq, *d_kv.unbind(1), None if bias is None else d_bias, *[None] * 8
