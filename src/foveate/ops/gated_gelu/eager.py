"""The gated GELU in plain PyTorch, on any device."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops.differentiation import is_transformed, once_differentiable


def gated_gelu(a: Tensor, b: Tensor) -> Tensor:
    """Compute GELU(a) · b; see `foveate.ops.gated_gelu`."""
    if is_transformed():
        return F.gelu(a, approximate="tanh") * b
    out: Tensor = _GatedGELU.apply(a, b)
    return out


class _GatedGELU(torch.autograd.Function):
    """Saves a and b; the backward pass recomputes GELU(a)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return F.gelu(a, approximate="tanh").mul_(b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        d_a = torch.ops.aten.gelu_backward(grad * b, a, approximate="tanh")
        return d_a, F.gelu(a, approximate="tanh").mul_(grad)
