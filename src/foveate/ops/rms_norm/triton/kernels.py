# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The gradient of RMSNorm: every row is read once, with its gradient, and written once.

With u = x / √(mean(x²) + eps) and s = grad · weight, the gradient of x is
(s - u · mean(s · u)) / √(mean(x²) + eps), that of the weights the sum of grad · u over the rows.
A program sums its own, consecutive rows; the sums of programs are summed later, so that the order
is fixed.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

TILE, PER_PROCESSOR = 1024, 8
"""Elements that a program computes at once, and programs that a multiprocessor can hold of that."""


def backward(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of x `(n, channels)` and the weights, from contiguous rows."""
    n, width = x.shape
    block = triton.next_power_of_2(width)
    at_once = max(1, TILE // block)
    programs = min(triton.cdiv(n, at_once), PER_PROCESSOR * _processors(x.device))
    d_x = torch.empty_like(x)
    sums = torch.empty(programs, width, dtype=torch.float32, device=x.device)
    if programs:
        of_program = at_once * triton.cdiv(n, at_once * programs)
        launch(
            *(_backward, programs, (grad, x, weight, d_x, sums), (), (n, of_program, eps)),
            (width, block, at_once),
            num_warps=4 if block <= 2 * TILE else 8,
        )
    return d_x, sums.sum(0).to(weight.dtype)


def _processors(device: torch.device) -> int:
    """Multiprocessors of the GPU; few elsewhere, for tests."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit(do_not_specialize=("n", "of_program"))
def _backward(
    grad,
    x,
    weight,
    d_x,
    sums,
    n,
    of_program,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradients of `of_program` rows, a multiple of ROWS, and the sum for the weights."""
    column = tl.arange(0, BLOCK)
    real = column < WIDTH
    scale = tl.load(weight + column, mask=real, other=0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    begin = tl.program_id(0) * of_program
    for first in range(begin, tl.minimum(begin + of_program, n), ROWS):
        row = first + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * WIDTH + column
        inside = (row < n)[:, None] & real
        unit = tl.load(x + place, mask=inside, other=0).to(tl.float32)
        slope = tl.load(grad + place, mask=inside, other=0).to(tl.float32)
        square = tl.sum(unit * unit, 1) / WIDTH + eps
        rate = tl.rsqrt(tl.where(row < n, square, 1))[:, None]
        unit *= rate
        total += slope * unit
        slope *= scale
        along = tl.sum(slope * unit, 1)[:, None] / WIDTH
        tl.store(d_x + place, (slope - unit * along) * rate, mask=inside)
    tl.store(sums + tl.program_id(0) * WIDTH + column, tl.sum(total, 0), mask=real)
