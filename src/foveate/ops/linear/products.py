"""Matrix products followed by ReLU, or by its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.ops._triton.cache import stream_id
from foveate.ops._triton.library import define_op


def product_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Compute max(0, x · Wᵀ) in one kernel on a GPU.

    Args:
        x: `(rows, in_features)`.
        weight: `(out_features, in_features)`.

    Returns:
        `(rows, out_features)`.
    """
    # The compiler would separate the product from ReLU, were it not for the op, and fake tensors
    # need it. Elsewhere it would only take the host longer.
    is_plain = type(x) in (Tensor, nn.Parameter) and not torch.compiler.is_compiling()
    output: Tensor = (_product_relu if is_plain else _linear_relu)(x, weight)
    return output


def product_where_positive(x: Tensor, weight: Tensor, states: Tensor, scale: float) -> Tensor:
    """Compute scale · x · Wᵀ where other states `(rows, out_features)` are positive, else 0.

    This is the gradient of what is followed by ReLU.
    """
    # `beta` 0 leaves the states out of the sum.
    scaled = F.linear(x, weight) if scale == 1 else states.addmm(x, weight.t(), beta=0, alpha=scale)
    gradient: Tensor = torch.ops.aten.threshold_backward(scaled, states, 0)
    return gradient


def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    # With zeros as a bias, PyTorch calls a kernel of cuBLASLt that ends in ReLU.
    return torch._addmm_activation(_zeros(weight), x, weight.t())


_linear_relu = define_op(
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
