"""Linear layers that share a matrix product, with gradients from as few kernels as possible."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.ops._triton.cache import stream_id
from foveate.ops._triton.library import define_op
from foveate.ops.backends import autocasts
from foveate.ops.differentiation import is_transformed


def joint_linear(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Apply all layers in one product; see `foveate.ops.linear`."""
    if x.ndim != 2:
        products = joint_linear(x.reshape(-1, x.shape[-1]), weights, biases)
        return tuple(product.view(*x.shape[:-1], product.shape[1]) for product in products)
    if is_transformed():
        return tuple(map(F.linear, repeat(x), weights, biases or repeat(None)))
    if not torch.is_grad_enabled():
        return _joint_product(x, weights, biases)
    outputs: tuple[Tensor, ...] = _JointLinear.apply(x, len(weights), *weights, *(biases or ()))
    return outputs


def linear_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Apply a layer and ReLU in one kernel; see `foveate.ops.linear`."""
    if x.ndim != 2:
        rows = linear_relu(x.reshape(-1, x.shape[-1]), weight)
        return rows.view(*x.shape[:-1], len(weight))
    if is_transformed():
        return F.linear(x, weight).relu()
    run = _LinearReLU.apply if torch.is_grad_enabled() else _product_relu
    output: Tensor = run(x, weight)
    return output


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along their first dimension; without a copy if they are side by side.

    Args:
        parts: At least one tensor, all of one dtype and with the same other dimensions. None of
            them gets gradients from the result.

    Returns:
        The concatenation, which may share memory with the parts.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if not _are_side_by_side(parts):
        return torch.cat(list(parts))
    return first.as_strided((sum(x.shape[0] for x in parts), *first.shape[1:]), first.stride())


def _are_side_by_side(parts: Sequence[Tensor]) -> bool:
    """Return whether tensors lie one after the other in the memory of the first."""
    # The compiler and fake tensors know no addresses, and a trace would keep them.
    if torch.compiler.is_compiling() or _jit.is_tracing():
        return False
    if any(type(x) not in (Tensor, nn.Parameter) for x in parts):
        return False
    end = parts[0].data_ptr()
    for part in parts:
        if part.data_ptr() != end or not part.is_contiguous():
            return False
        end += part.nbytes
    memory = parts[0].untyped_storage()
    return end <= memory.data_ptr() + memory.nbytes()


def lay_side_by_side(parts: Sequence[Tensor]) -> None:
    """Move tensors to memory of their own, one after the other, for `concatenate`; in place.

    Args:
        parts: At least one tensor, of one dtype and device and with the same dimensions but for the
            first.
    """
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        joint = torch.cat([part.detach() for part in parts])
        places = joint.split([len(part) for part in parts])
    for part, moved in zip(parts, places, strict=True):
        part.data = moved


def _joint_product(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    joint = F.linear(x, concatenate(weights), concatenate(biases) if biases else None)
    outputs: tuple[Tensor, ...] = joint.split_with_sizes([w.shape[0] for w in weights], 1)
    return outputs


class _JointLinear(torch.autograd.Function):
    """Saves x and the weights, each by itself, since the gradients come one by one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, num_weights: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, biases = parameters[:num_weights], parameters[num_weights:]
        ctx.save_for_backward(x, *weights)
        ctx.set_materialize_grads(False)
        return _joint_product(x, weights, biases)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        needs_x, _, *needs = ctx.needs_input_grad
        d_weights: list[Tensor | None] = [None] * len(weights)
        d_biases: list[Tensor | None] = [None] * (len(needs) - len(weights))
        d_x: Tensor | None = None
        with _as_they_are(x):
            for i, (grad, weight) in enumerate(zip(grads, weights, strict=True)):
                if grad is None:
                    continue
                if needs_x:
                    d_x = grad.mm(weight) if d_x is None else d_x.addmm_(grad, weight)
                if needs[i]:
                    d_weights[i] = grad.t().mm(x)
                if d_biases and needs[len(weights) + i]:
                    d_biases[i] = _sum_of_rows(grad)
        return d_x, None, *d_weights, *d_biases


def _sum_of_rows(grad: Tensor) -> Tensor:
    """Add rows; in half precision on a GPU by a product with ones, in half the time of a sum.

    Both add in float32, but products in float32 might be allowed to round to TF32.
    """
    if not grad.is_cuda or grad.dtype == torch.float32:
        return grad.sum(0)
    return grad.new_ones(1, len(grad)).mm(grad)[0]


class _LinearReLU(torch.autograd.Function):
    """Saves x, the weight and the output, which says where ReLU let a gradient through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        output = _product_relu(x, weight)
        ctx.save_for_backward(x, weight, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight, output = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        grad = torch.ops.aten.threshold_backward(grad, output, 0)
        with _as_they_are(x):
            d_x = grad.mm(weight) if needs_x else None
            return d_x, grad.t().mm(x) if needs_weight else None


def _as_they_are(x: Tensor) -> AbstractContextManager[object]:
    """Products of tensors as they are, should a backward pass run inside torch.autocast."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    # The compiler would separate the product from ReLU, were it not for the op, and fake tensors
    # need it. Elsewhere it would only take the host longer.
    is_plain = type(x) in (Tensor, nn.Parameter) and not torch.compiler.is_compiling()
    output: Tensor = (_add_product_relu if is_plain else _linear_relu)(x, weight)
    return output


def _add_product_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Add zeros as a bias, because PyTorch then calls a kernel of cuBLASLt that ends in ReLU."""
    output: Tensor = torch._addmm_activation(_zeros(weight), x, weight.t())
    return output


_linear_relu = define_op(
    "linear_relu(Tensor x, Tensor weight) -> Tensor",
    fake=lambda x, weight: x.new_empty(len(x), len(weight)),
)(_add_product_relu)

_jit: Any = torch.jit  # which does not declare is_tracing as exported
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
