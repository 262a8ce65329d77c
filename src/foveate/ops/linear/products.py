"""Matrix products of linear layers, by the library that takes the least time.

That is cuBLAS, which PyTorch calls, or in CUDA graphs on Hopper GPUs QuACK, if it is installed; see
`quack.py`. Outside of graphs, launching QuACK costs the host more time than it saves the GPU.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import local
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.ops._triton.cache import stream_id
from foveate.ops._triton.library import define_op

FEWEST_ROWS = 4096
"""The fewest rows for which QuACK is used; with fewer, it has not been measured."""

_thread_local = local()


@contextmanager
def for_graphs() -> Iterator[None]:
    """Choose kernels for a CUDA graph, in this thread: for what is captured, and a run before.

    `foveate.models.speed_ups.capture` does this by itself. Where graphs are captured by other
    means, the function has to run in this context at least once before it is captured in it, since
    kernels may have to be compiled.
    """
    before = chooses_for_graphs()
    _thread_local.for_graphs = True
    try:
        yield
    finally:
        _thread_local.for_graphs = before


def chooses_for_graphs() -> bool:
    """Return whether this thread is within `for_graphs`; the compiler never is."""
    return not torch.compiler.is_compiling() and getattr(_thread_local, "for_graphs", False)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x · Wᵀ + bias.

    Args:
        x: `(rows, in_features)`.
        weight: `(out_features, in_features)`, which may be the transpose of a tensor.
        bias: `(out_features,)`, or None.

    Returns:
        `(rows, out_features)`.
    """
    # QuACK is the faster one where there are no more features to add up than to store.
    fits = chooses_for_graphs() and weight.shape[1] <= weight.shape[0]
    fits = fits and (bias is None or _is_aligned(bias, x))
    if fits and (quack := _quack_for(x, weight)) is not None:
        output: Tensor = quack.product(x, weight, bias)
        return output
    return F.linear(x, weight, bias)


def product_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Compute max(0, x · Wᵀ) in one kernel on a GPU; see `product`."""
    # The compiler would separate the product from ReLU, were it not for the op, and fake tensors
    # need it. Elsewhere it would only take the host longer.
    is_plain = _is_plain(x) and not torch.compiler.is_compiling()
    output: Tensor = (_product_relu if is_plain else _linear_relu)(x, weight)
    return output


def product_where_positive(x: Tensor, weight: Tensor, states: Tensor, scale: float) -> Tensor:
    """Compute scale · x · Wᵀ where other states `(rows, out_features)` are positive, else 0.

    This is the gradient of what is followed by ReLU.
    """
    if (quack := _quack_for(x, weight, states)) is not None:
        gradient: Tensor = quack.product_where_positive(x, weight, states, scale)
        return gradient
    # `beta` 0 leaves the states out of the sum.
    scaled = F.linear(x, weight) if scale == 1 else states.addmm(x, weight.t(), beta=0, alpha=scale)
    gradient = torch.ops.aten.threshold_backward(scaled, states, 0)
    return gradient


def can_defer_norms(x: Tensor, *weights: Tensor) -> bool:
    """Return whether `add_product` and `deferred_product` can multiply by weights.

    Args:
        x: A tensor with as many rows as those to come, and of their dtype and device. These have to
            be contiguous.
        weights: The weights, `(out_features, in_features)` each.
    """
    return all(_quack_for(x, weight) is not None for weight in weights)


def add_product(residual: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Compute s = residual + x · Wᵀ, and what RMSNorm scales its rows by, in one kernel.

    Only where `can_defer_norms`.

    Args:
        residual: `(rows, out_features)`.
        x: `(rows, in_features)`.
        weight: `(out_features, in_features)`.
        eps: Added to the mean of the squares of a row.

    Returns:
        s `(rows, out_features)`, and 1 / √(mean(s²) + eps), `(rows,)` float32.
    """
    quack = _quack_for(x, weight, residual)
    assert quack is not None
    outputs: tuple[Tensor, Tensor] = quack.add_product(residual, x, weight, eps)
    return outputs


def deferred_product(x: Tensor, scales: Tensor, weight: Tensor, *, relu: bool = False) -> Tensor:
    """Compute scales · (x · Wᵀ), the product with rows that RMSNorm scales, and ReLU of it.

    Only where `can_defer_norms`.

    Args:
        x: `(rows, in_features)`, not normalized.
        scales: What each row is scaled by, `(rows,)` float32; see `add_product`.
        weight: `(out_features, in_features)`, multiplied by the norm's weight.
        relu: Whether ReLU follows.

    Returns:
        `(rows, out_features)`.
    """
    quack = _quack_for(x, weight)
    assert quack is not None
    output: Tensor = quack.deferred_product(x, scales, weight, "relu" if relu else None)
    return output


def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    if (quack := _quack_for(x, weight)) is not None:
        output: Tensor = quack.product_relu(x, weight)
        return output
    # With zeros as a bias, PyTorch calls a kernel of cuBLASLt that ends in ReLU.
    output = torch._addmm_activation(_zeros(weight), x, weight.t())
    return output


_linear_relu = define_op(
    "linear_relu(Tensor x, Tensor weight) -> Tensor",
    fake=lambda x, weight: x.new_empty(len(x), len(weight)),
)(_product_relu)


def _quack_for(x: Tensor, weight: Tensor, *others: Tensor) -> ModuleType | None:
    """Return the kernels of QuACK if they can compute a product, whose gradient nobody needs."""
    if not chooses_for_graphs() or torch.is_grad_enabled():
        return None
    if not x.is_cuda or x.dtype not in (torch.bfloat16, torch.float16) or len(x) < FEWEST_ROWS:
        return None
    rows = weight if weight.stride(1) == 1 else weight.t()
    if any(size % 8 for size in weight.shape) or not all(
        _is_aligned(matrix, x) for matrix in (x, rows, *others)
    ):
        return None
    return _quack(x.device)


def _is_aligned(operand: Tensor, x: Tensor) -> bool:
    """Return whether a matrix or vector is a plain one like x, with rows at multiples of 16 bytes.

    Rows must not overlap.
    """
    if not _is_plain(operand) or operand.dtype != x.dtype or operand.device != x.device:
        return False
    width = operand.shape[-1]
    row_stride = operand.stride(0) if operand.ndim == 2 else width
    begin = operand.data_ptr() // x.element_size()
    is_dense = operand.stride(-1) == 1 and row_stride >= width
    return is_dense and begin % 8 == 0 and row_stride % 8 == 0


def _is_plain(x: Tensor) -> bool:
    return type(x) in (Tensor, nn.Parameter)


@cache
def _quack(device: torch.device) -> ModuleType | None:
    """Return the kernels of QuACK for a device, or None if it has none or they are not there."""
    if torch.cuda.get_device_capability(device)[0] != 9 or find_spec("quack") is None:
        return None
    try:
        from . import quack
    except Exception as error:  # another version may have other functions
        message = f"{type(error).__name__}: {error}"
        warnings.warn(f"QuACK cannot be used, cuBLAS is used instead: {message}", stacklevel=2)
        return None
    return quack


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
