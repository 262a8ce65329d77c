# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The gated GELU on the GPU, forward and backward: every element is read once and written once.

With s the logistic function at 2√(2/π)·(a + 0.044715·a³), GELU(a) is a·s, since 1 + tanh(x) is
twice the logistic function at 2x.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import adjacent, cdiv, next_power_of_2
from foveate.ops.differentiation import once_differentiable

__all__ = ["gated_gelu"]

_TILE, _WIDEST, _WARPS = 2048, 1024, 4
"""Elements and channels that a program computes at most, and its warps."""

_LINEAR = tl.constexpr(2 * math.sqrt(2 / math.pi))
_CUBIC = tl.constexpr(2 * math.sqrt(2 / math.pi) * 0.044715)


def gated_gelu(a: Tensor, b: Tensor) -> Tensor:
    """Compute GELU(a) · b in float16, bfloat16 or float32; see `foveate.ops.gated_gelu`."""
    run = _GatedGELU.apply if torch.is_grad_enabled() else _gated_gelu
    out: Tensor = run(a, b)
    return out


@define_op(
    "gated_gelu(Tensor a, Tensor b) -> Tensor",
    fake=lambda a, b: a.new_empty(a.shape),
)
def _gated_gelu(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    _launch(_forward, (a, b), (out,))
    return out


@define_op(
    "gated_gelu_backward(Tensor grad, Tensor a, Tensor b) -> Tensor",
    fake=lambda grad, a, b: _empty_pair(a),
)
def _gated_gelu_backward(grad: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the gradients of a and b, `(..., 2, channels)`."""
    gradients = _empty_pair(a)
    _launch(_backward, (grad, a, b), gradients.unbind(-2))
    return gradients


def _empty_pair(x: Tensor) -> Tensor:
    channels = x.shape[-1:] or (1,)
    return x.new_empty(*x.shape[:-1], 2, *channels)


def _launch(kernel: Any, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
    """Run a kernel over all elements.

    Rows may be apart, as those of layers that are computed in one product are.
    """
    if not inputs[0].numel():
        return
    inputs = tuple(adjacent(x.reshape(-1, x.shape[-1] if x.ndim else 1)) for x in inputs)
    row_stride = outputs[0].stride(-2) if outputs[0].ndim > 1 else 0  # there is one row
    rows, width = inputs[0].shape
    columns = min(_WIDEST, next_power_of_2(width))
    constants = columns, _TILE // columns
    column_tiles = cdiv(width, columns)
    programs = column_tiles * cdiv(rows, _TILE // columns)
    strides = *(x.stride(0) for x in inputs), row_stride, width
    numbers = rows, column_tiles
    launch(kernel, programs, inputs + outputs, strides, numbers, constants, num_warps=_WARPS)


class _GatedGELU(torch.autograd.Function):
    """Saves a and b."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        out: Tensor = _gated_gelu(a, b)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        d_a, d_b = _gated_gelu_backward(grad, a, b).unbind(-2)
        return d_a.view_as(a), d_b.view_as(b)


@triton.jit
def _logistic(a):
    """s, and its derivative by a."""
    square = a * a
    # Where the exponential would overflow, s is 0 to working precision.
    s = 1 / (1 + tl.exp(tl.minimum(-a * (_LINEAR + _CUBIC * square), 87.0)))
    return s, s * (1 - s) * (_LINEAR + 3 * _CUBIC * square)


@triton.jit
def _program_tile(column_tiles, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """Return the rows and columns of a program's tile."""
    program = tl.program_id(0)
    row = (program // column_tiles) * ROWS + tl.arange(0, ROWS)
    column = (program % column_tiles).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    return row[:, None].to(tl.int64), column[None, :]


@triton.jit(do_not_specialize=("rows", "column_tiles"))
def _forward(
    a,
    b,
    out,
    stride_a,
    stride_b,
    stride_out,
    width,
    rows,
    column_tiles,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    row, column = _program_tile(column_tiles, COLUMNS, ROWS)
    exists = (row < rows) & (column < width)
    x = tl.load(a + row * stride_a + column, mask=exists, other=0).to(tl.float32)
    y = tl.load(b + row * stride_b + column, mask=exists, other=0).to(tl.float32)
    s, _ = _logistic(x)
    tl.store(out + row * stride_out + column, x * s * y, mask=exists)


@triton.jit(do_not_specialize=("rows", "column_tiles"))
def _backward(
    grad,
    a,
    b,
    d_a,
    d_b,
    stride_grad,
    stride_a,
    stride_b,
    stride_d,
    width,
    rows,
    column_tiles,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    row, column = _program_tile(column_tiles, COLUMNS, ROWS)
    exists = (row < rows) & (column < width)
    x = tl.load(a + row * stride_a + column, mask=exists, other=0).to(tl.float32)
    y = tl.load(b + row * stride_b + column, mask=exists, other=0).to(tl.float32)
    g = tl.load(grad + row * stride_grad + column, mask=exists, other=0).to(tl.float32)
    s, ds = _logistic(x)
    offset = row * stride_d + column
    tl.store(d_a + offset, g * y * (s + x * ds), mask=exists)
    tl.store(d_b + offset, g * x * s, mask=exists)
