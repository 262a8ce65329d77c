"""Linear layers with ReLU in the products themselves, and what their gradients need."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.ops._triton.cache import stream_id
from foveate.ops._triton.library import define_op
from foveate.ops.backends import autocasts


def relu_feed_forward(x: Tensor, first: Tensor, second: Tensor, dropout: float) -> Tensor:
    """Apply both layers to rows `(n, in_features)`; see `foveate.ops.feed_forward`."""
    if not torch.is_grad_enabled():
        return F.linear(F.dropout(_linear_relu(x, first), dropout), second)
    output: Tensor = _ReLUFeedForward.apply(x, first, second, dropout)
    return output


class _ReLUFeedForward(torch.autograd.Function):
    """Saves x, the weights and the inner states after dropout.

    Inner states are positive where neither ReLU nor dropout stopped them, and only there a gradient
    passes.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, second: Tensor, dropout: float) -> Tensor:
        inner = F.dropout(_linear_relu(x, first), dropout)
        ctx.save_for_backward(x, first, second, inner)
        ctx.scale = 1 / (1 - dropout) if dropout < 1 else 0.0
        return F.linear(inner, second)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, first, second, inner = ctx.saved_tensors
        needs_x, needs_first, needs_second, _ = ctx.needs_input_grad
        d_x = d_first = d_second = None
        with _as_they_are(x):
            if torch.is_grad_enabled():  # for second derivatives, by what they are computed from
                inner = F.linear(x, first) * (inner > 0) * ctx.scale
            if needs_x or needs_first:
                d_inner = _product_where_positive(grad, second, inner, ctx.scale)
                d_x = d_inner.mm(first) if needs_x else None
                d_first = d_inner.t().mm(x) if needs_first else None
            if needs_second:
                d_second = grad.t().mm(inner)
        return d_x, d_first, d_second, None


def _linear_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Compute max(0, x · Wᵀ), in one kernel on a GPU."""
    # The compiler would separate the product from ReLU, were it not for the op, and fake tensors
    # need it. Elsewhere it would only take the host longer.
    is_plain = type(x) in (Tensor, nn.Parameter) and not torch.compiler.is_compiling()
    output: Tensor = (_product_relu if is_plain else _product_relu_op)(x, weight)
    return output


def _product_where_positive(x: Tensor, weight: Tensor, states: Tensor, scale: float) -> Tensor:
    """Compute scale · x · W where other states are positive, else 0: the gradient before ReLU."""
    # `beta` 0 leaves the states out of the sum.
    scaled = x.mm(weight) if scale == 1 else states.addmm(x, weight, beta=0, alpha=scale)
    gradient: Tensor = torch.ops.aten.threshold_backward(scaled, states, 0)
    return gradient


def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    # With zeros as a bias, PyTorch calls a kernel of cuBLASLt that ends in ReLU.
    return torch._addmm_activation(_zeros(weight), x, weight.t())


_product_relu_op = define_op(
    "linear_relu(Tensor x, Tensor weight) -> Tensor",
    fake=lambda x, weight: x.new_empty(len(x), len(weight)),
)(_product_relu)

_zeros_by_kind: dict[tuple[int, torch.device, torch.dtype, int], Tensor] = {}


def _zeros(weight: Tensor) -> Tensor:
    """A bias of zeros, kept for all layers of a kind; never dropped, since graphs read it."""
    key = len(weight), weight.device, weight.dtype, stream_id(weight.device)
    zeros = _zeros_by_kind.get(key)
    if zeros is None:
        with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
            zeros = torch.zeros(len(weight), device=weight.device, dtype=weight.dtype)
        if not (zeros.is_cuda and torch.cuda.is_current_stream_capturing()):  # else only recorded
            _zeros_by_kind[key] = zeros
    return zeros


def _as_they_are(x: Tensor) -> AbstractContextManager[object]:
    """Products of tensors as they are, should a backward pass run inside torch.autocast."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()
