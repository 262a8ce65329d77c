# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Quantization of rows on the GPU: a kernel that reads every row once.

For each 16-bit number, it reads two bytes and writes one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import cdiv, next_power_of_2

from .reference import LARGEST, SMALLEST_SCALE

__all__ = ["quantize_rows"]

_TILE = 2048
"""Elements that a program computes at once, at least a row."""


@define_op(
    "quantize_rows(Tensor x, bool relu) -> (Tensor, Tensor)",
    fake=lambda x, relu: (
        x.new_empty(x.shape, dtype=torch.float8_e4m3fn),
        x.new_empty(len(x), dtype=torch.float32),
    ),
)
def quantize_rows(x: Tensor, relu: bool) -> tuple[Tensor, Tensor]:
    """Scale and round rows; see `foveate.ops.float8`."""
    x = x.contiguous()
    n, width = x.shape
    values = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(n, dtype=torch.float32, device=x.device)
    block = next_power_of_2(width)
    rows = max(1, _TILE // block)
    if n:
        warps = 4 if block <= 2 * _TILE else 8
        constants = width, block, rows, relu, LARGEST, SMALLEST_SCALE
        launch(
            _quantize,
            cdiv(n, rows),
            (x, values, scales),
            (),
            (n,),
            constants,
            num_warps=warps,
        )
    return values, scales


@triton.jit(do_not_specialize=("n",))
def _quantize(
    x,
    values,
    scales,
    n,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    RELU: tl.constexpr,
    LARGEST: tl.constexpr,
    SMALLEST_SCALE: tl.constexpr,
):
    """Quantize ROWS rows, computing in float32."""
    column = tl.arange(0, BLOCK)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offset = row[:, None].to(tl.int64) * WIDTH + column
    mask = (row < n)[:, None] & (column < WIDTH)
    element = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
    if RELU:
        element = tl.where(element < 0, 0.0, element)  # keeps NaN
    scale = tl.max(tl.abs(element), 1) / LARGEST
    scale = tl.where(scale < SMALLEST_SCALE, 0.0, scale)
    has_nan = tl.max((element != element).to(tl.int32), 1)
    scale = tl.where(has_nan > 0, float("nan"), scale)  # the maximum may pass NaN over
    factor = tl.where(scale == 0, 0.0, 1 / tl.where(scale == 0, 1.0, scale))
    tl.store(values + offset, (element * factor[:, None]).to(tl.float8e4nv), mask=mask)
    tl.store(scales + row, scale, mask=row < n)
