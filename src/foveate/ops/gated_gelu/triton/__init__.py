"""The gated GELU on the GPU: one kernel forward and one backward, as torch ops.

`foveate::gated_gelu` and `foveate::gated_gelu_backward` are opaque to the compiler and know their
outputs' shapes without running, so that torch.compile, graph capture, checkpointing and distributed
wrappers take them like any op of torch's own.
"""

from typing import Any

import torch
from torch import Tensor

from .kernels import backward, forward

__all__ = ["gated_gelu"]


def gated_gelu(a: Tensor, b: Tensor) -> Tensor:
    """GELU(a) · b, as `foveate.ops.gated_gelu` defines it, in float16, bfloat16 or float32."""
    run = _GatedGELU.apply if torch.is_grad_enabled() else torch.ops.foveate.gated_gelu.default
    result: Tensor = run(a, b)
    return result


torch.library.define("foveate::gated_gelu", "(Tensor a, Tensor b) -> Tensor")
torch.library.define(
    "foveate::gated_gelu_backward", "(Tensor grad, Tensor a, Tensor b) -> (Tensor, Tensor)"
)


@torch.library.impl("foveate::gated_gelu", ("cpu", "cuda"))
def _(a: Tensor, b: Tensor) -> Tensor:
    return forward(a.contiguous(), b.contiguous())


@torch.library.register_fake("foveate::gated_gelu")
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape)


@torch.library.impl("foveate::gated_gelu_backward", ("cpu", "cuda"))
def _(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return backward(grad.contiguous(), a.contiguous(), b.contiguous())


@torch.library.register_fake("foveate::gated_gelu_backward")
def _(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a.new_empty(a.shape), b.new_empty(b.shape)


class _GatedGELU(torch.autograd.Function):
    """Keeps a and b."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        result: Tensor = torch.ops.foveate.gated_gelu.default(a, b)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        d_a, d_b = torch.ops.foveate.gated_gelu_backward.default(grad, *ctx.saved_tensors)
        return d_a, d_b
