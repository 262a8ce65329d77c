"""RMSNorm on the GPU: torch's kernel forward, one of ours backward, as a torch op.

`foveate::rms_norm_backward` is opaque to the compiler and knows its outputs' shapes without
running, so that torch.compile, graph capture, checkpointing and distributed wrappers take it like
any op of torch's own.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .kernels import backward

__all__ = ["rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm, as `foveate.ops.rms_norm` defines it, in float16, bfloat16 or float32."""
    if not torch.is_grad_enabled():
        return F.rms_norm(x, weight.shape, weight, eps)
    result: Tensor = _RMSNorm.apply(x, weight, eps)
    return result


torch.library.define(
    "foveate::rms_norm_backward",
    "(Tensor grad, Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)",
)


@torch.library.impl("foveate::rms_norm_backward", ("cpu", "cuda"))
def _(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    grad, rows = (each.reshape(-1, len(weight)).contiguous() for each in (grad, x))
    d_x, d_weight = backward(grad, rows, weight, eps)
    return d_x.view(x.shape), d_weight


@torch.library.register_fake("foveate::rms_norm_backward")
def _(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


class _RMSNorm(torch.autograd.Function):
    """Keeps its inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return F.rms_norm(x, weight.shape, weight, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        d_x, d_weight = torch.ops.foveate.rms_norm_backward.default(
            grad, *ctx.saved_tensors, ctx.eps
        )
        return d_x, d_weight, None
