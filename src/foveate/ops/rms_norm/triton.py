# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""RMSNorm on the GPU: kernels that read every row once.

Forward it is PyTorch's kernel, unless there is something to add or to cast.

With u = x / √(mean(x²) + eps) and s = grad · weight, the gradient of x is
(s - u · mean(s · u)) / √(mean(x²) + eps), to which that of a residual connection is added, and that
of the weight is the sum of grad · u over rows. A program sums over consecutive rows, and the
programs' sums are added afterwards, so the order of the additions is fixed.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op, or_empty
from foveate.ops._triton.math import cdiv
from foveate.ops._triton.rows import as_rows, consecutive_rows, row_tile
from foveate.ops.differentiation import once_differentiable

__all__ = ["residual_rms_norm", "rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Compute RMSNorm in float16, bfloat16 or float32; see `foveate.ops.rms_norm`."""
    if not torch.is_grad_enabled():
        return F.rms_norm(x, weight.shape, weight, eps)
    out: Tensor = _RMSNorm.apply(x, weight, eps)
    return out


def residual_rms_norm(
    x: Tensor, weight: Tensor, eps: float, update: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return x, with its update, and the norm; see `foveate.ops.rms_norm`."""
    run = _ResidualRMSNorm.apply if torch.is_grad_enabled() else _residual_rms_norm
    outputs: tuple[Tensor, Tensor] = run(x, weight, eps, update, dtype)
    return outputs


def _residual_rms_norm(
    x: Tensor, weight: Tensor, eps: float, update: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    if update is None and dtype == x.dtype:
        return x, F.rms_norm(x, weight.shape, weight, eps)
    total, normed = _rms_norm_forward(x, weight, eps, or_empty(update, x), dtype)
    return x if update is None else total, normed


@define_op(
    "rms_norm_forward(Tensor x, Tensor weight, float eps, Tensor update, ScalarType dtype) "
    "-> (Tensor, Tensor)",
    fake=lambda x, weight, eps, update, dtype: (
        x.new_empty(update.shape),
        x.new_empty(x.shape, dtype=dtype),
    ),
)
def _rms_norm_forward(
    x: Tensor, weight: Tensor, eps: float, update: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return x plus its update, in the dtype of x, and the norm; without one, an empty sum."""
    width = weight.shape[0]
    rows, added = as_rows(x, width), as_rows(update, width)
    n = rows.shape[0]
    total = torch.empty(update.shape, dtype=x.dtype, device=x.device)
    out = torch.empty(x.shape, dtype=dtype, device=x.device)
    block, tile_rows, warps = row_tile(width)
    if n:
        tensors, programs = (rows, weight, added, total, out), cdiv(n, tile_rows)
        constants = width, block, tile_rows, added.shape[0] > 0
        launch(_forward, programs, tensors, (), (n, eps), constants, num_warps=warps)
    return total, out


@define_op(
    "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor residual_grad, float eps, "
    "ScalarType update_dtype) -> (Tensor, Tensor, Tensor)",
    fake=lambda grad, x, weight, residual_grad, eps, update_dtype: (
        x.new_empty(x.shape),
        weight.new_empty(weight.shape),
        x.new_empty(0 if update_dtype == x.dtype else x.shape, dtype=update_dtype),
    ),
)
def _rms_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    residual_grad: Tensor,
    eps: float,
    update_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a norm; that of x with `residual_grad` added unless it is empty.

    The gradient of an update is that of x. It is returned only where its dtype differs, and is
    empty otherwise.
    """
    has_residual = residual_grad.numel() > 0
    width = weight.shape[0]
    grad, rows, residual_grad = (as_rows(tensor, width) for tensor in (grad, x, residual_grad))
    n = rows.shape[0]
    block, tile_rows, warps = row_tile(width)
    programs, rows_per_program = consecutive_rows(n, tile_rows, x.device)
    d_x = torch.empty_like(rows)
    casts = update_dtype != x.dtype
    d_update = torch.empty(x.shape if casts else 0, dtype=update_dtype, device=x.device)
    sums = torch.empty(programs, width, dtype=torch.float32, device=x.device)
    if programs:
        tensors = grad, rows, weight, residual_grad, d_x, d_update, sums
        constants = width, block, tile_rows, has_residual, casts
        numbers = n, rows_per_program, eps
        launch(_backward, programs, tensors, (), numbers, constants, num_warps=warps)
    return d_x.view(x.shape), sums.sum(0).to(weight.dtype), d_update


class _RMSNorm(torch.autograd.Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return F.rms_norm(x, weight.shape, weight, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        d_x, d_weight, _ = _rms_norm_backward(grad, x, weight, or_empty(None, x), ctx.eps, x.dtype)
        return d_x, d_weight, None


class _ResidualRMSNorm(torch.autograd.Function):
    """Saves what was normalized, and the weight."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        eps: float,
        update: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        total, normed = _residual_rms_norm(x, weight, eps, update, dtype)
        ctx.save_for_backward(total, weight)
        ctx.set_materialize_grads(False)
        ctx.eps, ctx.update_dtype = eps, None if update is None else update.dtype
        return total, normed

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, residual_grad: Tensor | None, grad: Tensor | None
    ) -> tuple[Tensor, Tensor, None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        grad = torch.zeros_like(x) if grad is None else grad
        residual_grad, dtype = or_empty(residual_grad, x), ctx.update_dtype or x.dtype
        d_x, d_weight, d_update = _rms_norm_backward(grad, x, weight, residual_grad, ctx.eps, dtype)
        if ctx.update_dtype is None:
            return d_x, d_weight, None, None, None
        return d_x, d_weight, None, d_x if dtype == x.dtype else d_update, None


@triton.jit(do_not_specialize=("n",))
def _forward(
    x,
    weight,
    update,
    total,
    out,
    n,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_UPDATE: tl.constexpr,
):
    """Add the updates to ROWS rows, as they are stored, and normalize the sums in float32."""
    column = tl.arange(0, BLOCK)
    real = column < WIDTH
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offset = row[:, None].to(tl.int64) * WIDTH + column
    mask = (row < n)[:, None] & real
    values = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
    if HAS_UPDATE:
        values += tl.load(update + offset, mask=mask, other=0).to(tl.float32)
        stored = values.to(total.dtype.element_ty)
        tl.store(total + offset, stored, mask=mask)
        values = stored.to(tl.float32)
    scale = tl.load(weight + column, mask=real, other=0).to(tl.float32)
    mean_square = tl.sum(values * values, 1) / WIDTH + eps
    inverse_rms = tl.rsqrt(tl.where(row < n, mean_square, 1))[:, None]
    tl.store(out + offset, values * inverse_rms * scale, mask=mask)


@triton.jit(do_not_specialize=("n", "rows_per_program"))
def _backward(
    grad,
    x,
    weight,
    residual_grad,
    d_x,
    d_update,
    sums,
    n,
    rows_per_program,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    CASTS: tl.constexpr,
):
    """Gradients of `rows_per_program` rows, a multiple of ROWS, and their sum for the weight."""
    column = tl.arange(0, BLOCK)
    real = column < WIDTH
    scale = tl.load(weight + column, mask=real, other=0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    begin = tl.program_id(0) * rows_per_program
    for first in range(begin, tl.minimum(begin + rows_per_program, n), ROWS):
        row = first + tl.arange(0, ROWS)
        offset = row[:, None].to(tl.int64) * WIDTH + column
        mask = (row < n)[:, None] & real
        unit = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
        slope = tl.load(grad + offset, mask=mask, other=0).to(tl.float32)
        mean_square = tl.sum(unit * unit, 1) / WIDTH + eps
        inverse_rms = tl.rsqrt(tl.where(row < n, mean_square, 1))[:, None]
        unit *= inverse_rms
        total += slope * unit
        slope *= scale
        projection = tl.sum(slope * unit, 1)[:, None] / WIDTH
        slope = (slope - unit * projection) * inverse_rms
        if HAS_RESIDUAL:
            slope += tl.load(residual_grad + offset, mask=mask, other=0).to(tl.float32)
        tl.store(d_x + offset, slope, mask=mask)
        if CASTS:
            tl.store(d_update + offset, slope, mask=mask)
    tl.store(sums + tl.program_id(0) * WIDTH + column, tl.sum(total, 0), mask=real)
