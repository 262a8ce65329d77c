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

__all__ = ["gated_gelu"]

_BLOCK, _WARPS = 2048, 4
"""Elements and warps of a program."""

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
    a, b = a.contiguous(), b.contiguous()
    out = torch.empty_like(a)
    if n := a.numel():
        tensors = a, b, out
        launch(_forward, triton.cdiv(n, _BLOCK), tensors, (n,), (), (_BLOCK,), num_warps=_WARPS)
    return out


@define_op(
    "gated_gelu_backward(Tensor grad, Tensor a, Tensor b) -> (Tensor, Tensor)",
    fake=lambda grad, a, b: (a.new_empty(a.shape), b.new_empty(b.shape)),
)
def _gated_gelu_backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    grad, a, b = grad.contiguous(), a.contiguous(), b.contiguous()
    d_a, d_b = torch.empty_like(a), torch.empty_like(b)
    if n := a.numel():
        tensors = grad, a, b, d_a, d_b
        launch(_backward, triton.cdiv(n, _BLOCK), tensors, (n,), (), (_BLOCK,), num_warps=_WARPS)
    return d_a, d_b


class _GatedGELU(torch.autograd.Function):
    """Saves a and b."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        out: Tensor = _gated_gelu(a, b)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        d_a, d_b = _gated_gelu_backward(grad, *ctx.saved_tensors)
        return d_a, d_b


@triton.jit
def _logistic(a):
    """s, and its derivative by a."""
    square = a * a
    # Where the exponential would overflow, s is 0 to working precision.
    s = 1 / (1 + tl.exp(tl.minimum(-a * (_LINEAR + _CUBIC * square), 87.0)))
    return s, s * (1 - s) * (_LINEAR + 3 * _CUBIC * square)


@triton.jit
def _program_elements(n, BLOCK: tl.constexpr):
    """Offsets of a program's elements, and which of them exist."""
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return offset, offset < n


@triton.jit
def _forward(a, b, out, n, BLOCK: tl.constexpr):
    offset, exists = _program_elements(n, BLOCK)
    x = tl.load(a + offset, mask=exists, other=0).to(tl.float32)
    y = tl.load(b + offset, mask=exists, other=0).to(tl.float32)
    s, _ = _logistic(x)
    tl.store(out + offset, x * s * y, mask=exists)


@triton.jit
def _backward(grad, a, b, d_a, d_b, n, BLOCK: tl.constexpr):
    offset, exists = _program_elements(n, BLOCK)
    x = tl.load(a + offset, mask=exists, other=0).to(tl.float32)
    y = tl.load(b + offset, mask=exists, other=0).to(tl.float32)
    g = tl.load(grad + offset, mask=exists, other=0).to(tl.float32)
    s, ds = _logistic(x)
    tl.store(d_a + offset, g * y * (s + x * ds), mask=exists)
    tl.store(d_b + offset, g * x * s, mask=exists)
