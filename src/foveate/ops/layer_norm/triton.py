# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Layer norm of a sum on the GPU: kernels that read every row once.

With s = x + update, u = (s - mean(s)) / √(var(s) + eps) and g = grad · weight, the gradient of x
and of the update is (g - mean(g) - u · mean(g · u)) / √(var(s) + eps); those of weight and bias are
the sums of grad · u and of grad over rows. A program sums over consecutive rows, and the programs'
sums are added afterwards, so the order of the additions is fixed.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import cdiv
from foveate.ops._triton.rows import as_rows, consecutive_rows, row_tile
from foveate.ops.differentiation import once_differentiable

__all__ = ["add_layer_norm"]


def add_layer_norm(x: Tensor, update: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Compute in float16, bfloat16 or float32; see `foveate.ops.layer_norm`."""
    out: Tensor
    if torch.is_grad_enabled():
        out = _AddLayerNorm.apply(x, update, weight, bias, eps)
    else:
        out, _ = _add_layer_norm_forward(x, update, weight, bias, eps, False)
    return out


@define_op(
    "add_layer_norm_forward(Tensor x, Tensor update, Tensor weight, Tensor bias, float eps, "
    "bool keeps_sum) -> (Tensor, Tensor)",
    fake=lambda x, update, weight, bias, eps, keeps_sum: (
        x.new_empty(x.shape),
        x.new_empty(x.shape if keeps_sum else 0),
    ),
)
def _add_layer_norm_forward(
    x: Tensor, update: Tensor, weight: Tensor, bias: Tensor, eps: float, keeps_sum: bool
) -> tuple[Tensor, Tensor]:
    """Return the norm, and the sum if it is to be kept, empty otherwise."""
    width = weight.shape[0]
    rows, added = as_rows(x, width), as_rows(update, width)
    n = rows.shape[0]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = torch.empty(x.shape if keeps_sum else 0, dtype=x.dtype, device=x.device)
    block, tile_rows, warps = row_tile(width, narrow_warps=2)
    if n:
        tensors = rows, added, weight, bias, total, out
        constants = width, block, tile_rows, keeps_sum
        launch(_forward, cdiv(n, tile_rows), tensors, (), (n, eps), constants, num_warps=warps)
    return out, total


@define_op(
    "add_layer_norm_backward(Tensor grad, Tensor total, Tensor weight, float eps, "
    "ScalarType update_dtype) -> (Tensor, Tensor, Tensor)",
    fake=lambda grad, total, weight, eps, update_dtype: (
        total.new_empty(total.shape),
        total.new_empty(0 if update_dtype == total.dtype else total.shape, dtype=update_dtype),
        weight.new_empty((2, *weight.shape)),
    ),
)
def _add_layer_norm_backward(
    grad: Tensor, total: Tensor, weight: Tensor, eps: float, update_dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, of the update, empty if it is that of x, and of both vectors."""
    width = weight.shape[0]
    grad, rows = as_rows(grad, width), as_rows(total, width)
    n = rows.shape[0]
    block, tile_rows, warps = row_tile(width, narrow_warps=2)
    programs, rows_per_program = consecutive_rows(n, tile_rows, total.device)
    d_x = torch.empty_like(rows)
    casts = update_dtype != total.dtype
    d_update = torch.empty(total.shape if casts else 0, dtype=update_dtype, device=total.device)
    sums = torch.empty(programs, 2, width, dtype=torch.float32, device=total.device)
    if programs:
        tensors = grad, rows, weight, d_x, d_update, sums
        numbers, constants = (n, rows_per_program, eps), (width, block, tile_rows, casts)
        launch(_backward, programs, tensors, (), numbers, constants, num_warps=warps)
    return d_x.view(total.shape), d_update, sums.sum(0).to(weight.dtype)


class _AddLayerNorm(torch.autograd.Function):
    """Saves the sum and the weight."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, update: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        out: Tensor
        out, total = _add_layer_norm_forward(x, update, weight, bias, eps, True)
        ctx.save_for_backward(total, weight)
        ctx.eps, ctx.update_dtype = eps, update.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, weight = ctx.saved_tensors
        d_x, d_update, d_vectors = _add_layer_norm_backward(
            grad, total, weight, ctx.eps, ctx.update_dtype
        )
        d_update = d_x if ctx.update_dtype == total.dtype else d_update
        return d_x, d_update, *d_vectors.unbind(), None


@triton.jit(do_not_specialize=("n",))
def _forward(
    x,
    update,
    weight,
    bias,
    total,
    out,
    n,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    KEEPS_SUM: tl.constexpr,
):
    """Add the updates to ROWS rows, round as if they were stored, and normalize in float32."""
    column = tl.arange(0, BLOCK)
    real = column < WIDTH
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offset = row[:, None].to(tl.int64) * WIDTH + column
    mask = (row < n)[:, None] & real
    values = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
    values += tl.load(update + offset, mask=mask, other=0).to(tl.float32)
    stored = values.to(x.dtype.element_ty)
    if KEEPS_SUM:
        tl.store(total + offset, stored, mask=mask)
    unit, _ = _normalize(stored.to(tl.float32), mask, row < n, eps, WIDTH)
    scale = tl.load(weight + column, mask=real, other=0).to(tl.float32)
    shift = tl.load(bias + column, mask=real, other=0).to(tl.float32)
    tl.store(out + offset, unit * scale + shift, mask=mask)


@triton.jit(do_not_specialize=("n", "rows_per_program"))
def _backward(
    grad,
    total,
    weight,
    d_x,
    d_update,
    sums,
    n,
    rows_per_program,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    CASTS: tl.constexpr,
):
    """Gradients of `rows_per_program` rows, a multiple of ROWS, and their sums for the vectors."""
    column = tl.arange(0, BLOCK)
    real = column < WIDTH
    scale = tl.load(weight + column, mask=real, other=0).to(tl.float32)
    d_weight = tl.zeros((ROWS, BLOCK), tl.float32)
    d_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    begin = tl.program_id(0) * rows_per_program
    for first in tl.range(begin, tl.minimum(begin + rows_per_program, n), ROWS, num_stages=3):
        row = first + tl.arange(0, ROWS)
        offset = row[:, None].to(tl.int64) * WIDTH + column
        mask = (row < n)[:, None] & real
        values = tl.load(total + offset, mask=mask, other=0).to(tl.float32)
        slope = tl.load(grad + offset, mask=mask, other=0).to(tl.float32)
        unit, inverse_deviation = _normalize(values, mask, row < n, eps, WIDTH)
        d_weight += slope * unit
        d_bias += slope
        slope *= scale
        mean = tl.sum(slope, 1)[:, None] / WIDTH
        projection = tl.sum(slope * unit, 1)[:, None] / WIDTH
        slope = (slope - mean - unit * projection) * inverse_deviation
        tl.store(d_x + offset, slope, mask=mask)
        if CASTS:
            tl.store(d_update + offset, slope, mask=mask)
    sums += tl.program_id(0) * 2 * WIDTH + column
    tl.store(sums, tl.sum(d_weight, 0), mask=real)
    tl.store(sums + WIDTH, tl.sum(d_bias, 0), mask=real)


@triton.jit
def _normalize(values, mask, exists, eps, WIDTH: tl.constexpr):
    """Return rows with mean 0 and variance 1, 0 where `mask` is not set, and 1 / √(var + eps)."""
    mean = tl.sum(values, 1)[:, None] / WIDTH
    centered = tl.where(mask, values - mean, 0.0)
    variance = tl.sum(centered * centered, 1) / WIDTH + eps
    inverse_deviation = tl.rsqrt(tl.where(exists, variance, 1))[:, None]
    return centered * inverse_deviation, inverse_deviation
