"""Linear layers that share a matrix product, with gradients by the fewest kernels."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs
from foveate.ops._triton.library import define_op


def joint_linear(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Apply all layers in one product; see `foveate.ops.linear`."""
    if x.ndim != 2:
        products = joint_linear(x.reshape(-1, x.shape[-1]), weights, biases)
        return tuple(product.view(*x.shape[:-1], product.shape[1]) for product in products)
    if not torch.is_grad_enabled():
        return _joint_product(x, weights, biases)
    outputs: tuple[Tensor, ...] = _JointLinear.apply(x, len(weights), *weights, *(biases or ()))
    return outputs


def linear_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Apply a layer and ReLU in one kernel; see `foveate.ops.linear`."""
    if x.ndim != 2:
        rows = linear_relu(x.reshape(-1, x.shape[-1]), weight)
        return rows.view(*x.shape[:-1], len(weight))
    run = _LinearReLU.apply if torch.is_grad_enabled() else _product_relu
    output: Tensor = run(x, weight)
    return output


def _joint_product(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    bias = torch.cat(list(biases)) if biases else None
    joint = F.linear(x, torch.cat(list(weights)), bias)
    outputs: tuple[Tensor, ...] = joint.split([len(weight) for weight in weights], 1)
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
        for i, (grad, weight) in enumerate(zip(grads, weights, strict=True)):
            if grad is None:
                continue
            if needs_x:
                d_x = grad.mm(weight) if d_x is None else d_x.addmm_(grad, weight)
            if needs[i]:
                d_weights[i] = grad.t().mm(x)
            if d_biases and needs[len(weights) + i]:
                d_biases[i] = grad.sum(0)
        return d_x, None, *d_weights, *d_biases


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
        d_x = grad.mm(weight) if needs_x else None
        return d_x, grad.t().mm(x) if needs_weight else None


def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    # torch.compile would separate the product from ReLU, were it not for the op; outside of it, the
    # op would only take the host longer.
    run = _linear_relu if torch.compiler.is_compiling() else _add_product_relu
    output: Tensor = run(x, weight)
    return output


def _add_product_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Where a bias is added, PyTorch calls a kernel of cuBLASLt that ends in ReLU; so zeros are."""
    zeros = _zeros(len(weight), weight.device, weight.dtype)
    output: Tensor = torch._addmm_activation(zeros, x, weight.t())
    return output


_linear_relu = define_op(
    "linear_relu(Tensor x, Tensor weight) -> Tensor",
    fake=lambda x, weight: x.new_empty(len(x), len(weight)),
)(_add_product_relu)


@cached_for_graphs(maxsize=64)
def _zeros(size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        return torch.zeros(size, device=device, dtype=dtype)
