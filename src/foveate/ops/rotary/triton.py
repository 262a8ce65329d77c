# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Rotary positions on the GPU: queries and keys are read once and written once, in one kernel.

With 12 heads of 64 channels in bfloat16 that is 6,144 bytes a node, and 256 for its angles: 105 MB
for 16,384 nodes, 25 µs at 4.2 TB/s. Turning back by the same angles gives the gradients.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import adjacent, cdiv, next_power_of_2

__all__ = ["rotate"]

_TILE = 1024
"""Pairs of channels that a program turns in each of the two."""


def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Turn float16, bfloat16 or float32 tensors; see `foveate.ops.rotary.rotate`."""
    cos, sin = (x.float().contiguous() for x in (cos, sin))
    outputs = (
        _Rotate.apply(q, k, cos, sin, 1) if torch.is_grad_enabled() else _rotate(q, k, cos, sin, 1)
    )
    return outputs[0], outputs[1]


@define_op(
    "rotate(Tensor q, Tensor k, Tensor cos, Tensor sin, int sign) -> (Tensor, Tensor)",
    fake=lambda q, k, *_: (q.new_empty(q.shape), k.new_empty(k.shape)),
)
def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    n, heads, head_dim = q.shape
    outputs = tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k))
    if q.numel():
        q, k = adjacent(q), adjacent(k)
        half = head_dim // 2
        width = next_power_of_2(half)
        rows = max(1, _TILE // width)
        tensors = q, k, cos, sin, *outputs
        strides = q.stride(0), q.stride(1), k.stride(0), k.stride(1)
        constants = heads, half, width, rows
        launch(_turn, cdiv(n * heads, rows), tensors, strides, (n * heads, sign), constants)
    return outputs[0], outputs[1]


class _Rotate(torch.autograd.Function):
    """Turns by the angles times a sign; saves the angles only."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, sign: int
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        ctx.sign = sign
        outputs: tuple[Tensor, Tensor] = _rotate(q, k, cos, sin, sign)
        return outputs

    @staticmethod
    def backward(ctx: Any, d_q: Tensor, d_k: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d_q, d_k = _Rotate.apply(d_q, d_k, *ctx.saved_tensors, -ctx.sign)
        return d_q, d_k, None, None, None


@triton.jit(do_not_specialize=["rows", "sign"])
def _turn(
    q,
    k,
    cos,
    sin,
    out_q,
    out_k,
    stride_q,
    stride_q_head,
    stride_k,
    stride_k_head,
    rows,
    sign,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Turn heads; a row is a head of a node."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    node, head = (row // HEADS).to(tl.int64)[:, None], (row % HEADS)[:, None]
    channel = tl.arange(0, WIDTH)[None, :]
    exists = (row < rows)[:, None] & (channel < HALF)
    c = tl.load(cos + node * HALF + channel, mask=exists, other=0.0)
    s = tl.load(sin + node * HALF + channel, mask=exists, other=0.0) * sign
    out = (row.to(tl.int64) * (2 * HALF))[:, None] + channel
    _turn_rows(
        q + node * stride_q + head * stride_q_head + channel, c, s, out_q + out, exists, HALF
    )
    _turn_rows(
        k + node * stride_k + head * stride_k_head + channel, c, s, out_k + out, exists, HALF
    )


@triton.jit
def _turn_rows(x, c, s, out, exists, HALF: tl.constexpr):
    """Load, turn and store rows in float32."""
    a = tl.load(x, mask=exists, other=0.0).to(tl.float32)
    b = tl.load(x + HALF, mask=exists, other=0.0).to(tl.float32)
    tl.store(out, (a * c - b * s).to(out.dtype.element_ty), mask=exists)
    tl.store(out + HALF, (b * c + a * s).to(out.dtype.element_ty), mask=exists)
