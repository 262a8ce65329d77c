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
    if not torch.is_grad_enabled():
        return _joint_product(x, weights, biases)
    outputs: tuple[Tensor, ...] = _JointLinear.apply(x, len(weights), *weights, *(biases or ()))
    return outputs


def linear_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Apply a layer and ReLU in one kernel; see `foveate.ops.linear`."""
    if not torch.is_grad_enabled():
        output: Tensor = _product_relu(x, weight)
    else:
        output = _LinearReLU.apply(x, weight)
    return output


def _joint_product(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    bias = torch.cat(list(biases)) if biases else None
    joint = F.linear(x, torch.cat(list(weights)), bias)
    outputs: tuple[Tensor, ...] = joint.split([len(weight) for weight in weights], -1)
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
            rows = grad.reshape(-1, len(weight))
            if needs_x:
                d_x = rows @ weight if d_x is None else d_x.addmm_(rows, weight)
            if needs[i]:
                d_weights[i] = rows.T @ x.reshape(-1, x.shape[-1])
            if d_biases and needs[len(weights) + i]:
                d_biases[i] = rows.sum(0)
        return None if d_x is None else d_x.view(x.shape), None, *d_weights, *d_biases


@define_op(
    "linear_relu(Tensor x, Tensor weight) -> Tensor",
    fake=lambda x, weight: x.new_empty(*x.shape[:-1], len(weight)),
)
def _product_relu(x: Tensor, weight: Tensor) -> Tensor:
    # Where a bias is added, PyTorch calls a kernel of cuBLASLt that ends in ReLU. This is an op of
    # its own because torch.compile would separate the two.
    bias = _zeros(len(weight), weight.device, weight.dtype)
    rows: Tensor = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.T)
    return rows.view(*x.shape[:-1], len(weight))


@cached_for_graphs(maxsize=64)
def _zeros(size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        return torch.zeros(size, device=device, dtype=dtype)


class _LinearReLU(torch.autograd.Function):
    """Saves x, the weight and the output, which says where ReLU let a gradient through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        output: Tensor = _product_relu(x, weight)
        ctx.save_for_backward(x, weight, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight, output = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        rows = torch.ops.aten.threshold_backward(grad, output, 0).reshape(-1, len(weight))
        d_x = (rows @ weight).view(x.shape) if needs_x else None
        return d_x, rows.T @ x.reshape(-1, x.shape[-1]) if needs_weight else None
