# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Kernels of the gated GELU: every element is read once and written once.

With s the logistic function at 2√(2/π)·(a + 0.044715·a³), GELU(a) is a·s, since
1 + tanh(x) is twice the logistic function at 2x.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

BLOCK, WARPS = 2048, 4
"""Elements of a program, and its warps."""

_LINEAR = tl.constexpr(2 * math.sqrt(2 / math.pi))
_CUBIC = tl.constexpr(2 * math.sqrt(2 / math.pi) * 0.044715)


def forward(a: Tensor, b: Tensor) -> Tensor:
    """GELU(a) · b of contiguous tensors."""
    out = torch.empty_like(a)
    if n := a.numel():
        launch(_forward, triton.cdiv(n, BLOCK), (a, b, out), (n,), (), (BLOCK,), num_warps=WARPS)
    return out


def backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of a and b, from contiguous tensors."""
    d_a, d_b = torch.empty_like(a), torch.empty_like(b)
    if n := a.numel():
        tensors = grad, a, b, d_a, d_b
        launch(_backward, triton.cdiv(n, BLOCK), tensors, (n,), (), (BLOCK,), num_warps=WARPS)
    return d_a, d_b


@triton.jit
def _logistic(a):
    """s, and its derivative by a."""
    square = a * a
    # Where the exponential would overflow, s is 0 but for rounding.
    s = 1 / (1 + tl.exp(tl.minimum(-a * (_LINEAR + _CUBIC * square), 87.0)))
    return s, s * (1 - s) * (_LINEAR + 3 * _CUBIC * square)


@triton.jit
def _places(n, BLOCK: tl.constexpr):
    """A program's elements, and which of them there are."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return place, place < n


@triton.jit
def _forward(a, b, out, n, BLOCK: tl.constexpr):
    place, inside = _places(n, BLOCK)
    x = tl.load(a + place, mask=inside, other=0).to(tl.float32)
    y = tl.load(b + place, mask=inside, other=0).to(tl.float32)
    s, _ = _logistic(x)
    tl.store(out + place, x * s * y, mask=inside)


@triton.jit
def _backward(grad, a, b, d_a, d_b, n, BLOCK: tl.constexpr):
    place, inside = _places(n, BLOCK)
    x = tl.load(a + place, mask=inside, other=0).to(tl.float32)
    y = tl.load(b + place, mask=inside, other=0).to(tl.float32)
    slope = tl.load(grad + place, mask=inside, other=0).to(tl.float32)
    s, ds = _logistic(x)
    tl.store(d_a + place, slope * y * (s + x * ds), mask=inside)
    tl.store(d_b + place, slope * x * s, mask=inside)
