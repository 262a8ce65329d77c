# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Cross-entropy on the GPU: a forward and a backward kernel, each of which reads the logits once.

Forward, a program goes over one row with the highest logit so far, h, and the sum s of the
exponentials relative to it. The loss is log s + h - logit(label), and the gradient of a logit
exp(logit - h) / s, less 1 for that of the label, times that of the loss. h and s are saved.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import next_power_of_2
from foveate.ops.differentiation import once_differentiable

__all__ = ["cross_entropy"]

_TILE, _WARPS = 4096, 8
"""Logits that a program reads at once, and its warps."""


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """Compute losses of logits in float16, bfloat16 or float32; see `foveate.ops.cross_entropy`."""
    rows = logits.reshape(-1, logits.shape[-1]).contiguous()
    losses: Tensor = _CrossEntropy.apply(rows, labels.flatten().contiguous(), ignore_index)
    return losses.view(labels.shape)


@define_op(
    "cross_entropy(Tensor logits, Tensor labels, int ignore_index) -> (Tensor, Tensor)",
    fake=lambda logits, labels, ignore_index: (
        logits.new_empty(labels.shape, dtype=torch.float32),
        logits.new_empty((2, *labels.shape), dtype=torch.float32),
    ),
)
def _cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Compute losses `(rows,)`, and the highest logits and sums to save, `(2, rows)`."""
    rows, vocab_size = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    saved = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    if rows:
        tensors = logits, labels, losses, saved
        constants = (_tile(vocab_size),)
        numbers = (ignore_index,)
        launch(_forward, rows, tensors, (vocab_size,), numbers, constants, num_warps=_WARPS)
    return losses, saved


@define_op(
    "cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor saved, "
    "int ignore_index) -> Tensor",
    fake=lambda grad, logits, labels, saved, ignore_index: logits.new_empty(logits.shape),
)
def _cross_entropy_backward(
    grad: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, ignore_index: int
) -> Tensor:
    d_logits = torch.empty_like(logits)
    rows, vocab_size = logits.shape
    if rows:
        tensors = grad.contiguous(), logits, labels, saved, d_logits
        constants = (_tile(vocab_size),)
        numbers = (ignore_index,)
        launch(_backward, rows, tensors, (vocab_size,), numbers, constants, num_warps=_WARPS)
    return d_logits


def _tile(vocab_size: int) -> int:
    return min(_TILE, next_power_of_2(vocab_size))


class _CrossEntropy(torch.autograd.Function):
    """Saves its inputs and two numbers per row."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
        losses: Tensor
        losses, saved = _cross_entropy(logits, labels, ignore_index)
        ctx.save_for_backward(logits, labels, saved)
        ctx.ignore_index = ignore_index
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _cross_entropy_backward(grad, *ctx.saved_tensors, ctx.ignore_index), None, None


@triton.jit(do_not_specialize=("ignore_index",))
def _forward(logits, labels, losses, saved, vocab_size, ignore_index, TILE: tl.constexpr):
    """Compute the loss of one row."""
    row = tl.program_id(0)
    logits += row.to(tl.int64) * vocab_size
    high, base, total = float("-inf"), 0.0, 0.0
    for first in range(0, vocab_size, TILE):
        column = first + tl.arange(0, TILE)
        x = tl.load(logits + column, mask=column < vocab_size, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(high, tl.max(x, 0))
        # Where all are -inf so far, there is no difference to take.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - base) + tl.sum(tl.exp(x - base), 0)
        high = higher
    label = tl.load(labels + row)
    exists = (label >= 0) & (label < vocab_size)
    chosen = tl.load(logits + label, mask=exists, other=float("nan")).to(tl.float32)
    loss = tl.log(total) + (base - chosen)
    tl.store(losses + row, tl.where(label == ignore_index, 0.0, loss))
    tl.store(saved + row, base)
    tl.store(saved + tl.num_programs(0) + row, total)


@triton.jit(do_not_specialize=("ignore_index",))
def _backward(grad, logits, labels, saved, d_logits, vocab_size, ignore_index, TILE: tl.constexpr):
    """Compute the gradient of one row."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * vocab_size
    label, slope = tl.load(labels + row), tl.load(grad + row)
    high, total = tl.load(saved + row), tl.load(saved + tl.num_programs(0) + row)
    for first in range(0, vocab_size, TILE):
        column = first + tl.arange(0, TILE)
        exists = column < vocab_size
        x = tl.load(logits + start + column, mask=exists, other=float("-inf")).to(tl.float32)
        d_x = (tl.exp(x - high) / total - (column == label)) * slope
        d_x = tl.where(label == ignore_index, 0.0, d_x)
        tl.store(d_logits + start + column, d_x, mask=exists)
