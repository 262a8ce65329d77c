# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The last step of sums over rows: add what the programs of a kernel summed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import launch
from .math import cdiv

_ROWS, _COLUMNS = 64, 32
"""Elements that a program adds at once."""


def add_sums(sums: Tensor, dtype: torch.dtype) -> Tensor:
    """Add along the first dimension in a fixed order, in a third of the time of PyTorch's sum.

    Args:
        sums: `(programs, ...)` float32, contiguous.
        dtype: Of the result.

    Returns:
        `(...)`, zero if there are no programs.
    """
    out = torch.empty(sums.shape[1:], dtype=dtype, device=sums.device)
    if width := out.numel():
        launch(_add, cdiv(width, _COLUMNS), (sums, out), (), (len(sums), width), (_ROWS, _COLUMNS))
    return out


@triton.jit(do_not_specialize=("n", "width"))
def _add(sums, out, n, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in tl.range(0, n, ROWS, num_stages=3):
        row = first + tl.arange(0, ROWS)
        mask = (row < n)[:, None] & (column < width)
        total += tl.load(sums + row[:, None] * width + column, mask=mask, other=0)
    tl.store(out + column, tl.sum(total, 0), mask=column < width)
