"""Linear layers that share a matrix product, with gradients from as few kernels as possible."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.ops.backends import autocasts
from foveate.ops.differentiation import is_transformed

from .products import product_relu, product_where_positive


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
    run = _LinearReLU.apply if torch.is_grad_enabled() else product_relu
    output: Tensor = run(x, weight)
    return output


def relu_feed_forward(x: Tensor, first: Tensor, second: Tensor, dropout: float) -> Tensor:
    """Apply both layers; see `foveate.ops.linear`."""
    if x.ndim != 2:
        rows = relu_feed_forward(x.reshape(-1, x.shape[-1]), first, second, dropout)
        return rows.view(*x.shape[:-1], len(second))
    if is_transformed():
        return F.linear(F.dropout(F.linear(x, first).relu(), dropout), second)
    if not torch.is_grad_enabled():
        return F.linear(F.dropout(product_relu(x, first), dropout), second)
    output: Tensor = _ReLUFeedForward.apply(x, first, second, dropout)
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


_jit: Any = torch.jit  # which does not declare is_tracing as exported


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
    if len(weights) == 1:
        return (joint,)
    outputs: tuple[Tensor, ...] = joint.split_with_sizes([w.shape[0] for w in weights], 1)
    return outputs


class _JointLinear(torch.autograd.Function):
    """Saves x and the weights, each by itself, since the gradients can come one by one."""

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
        needs_weight, needs_bias = needs[: len(weights)], needs[len(weights) :]
        kinds = [*zip(needs_weight, needs_bias or needs_weight, strict=True)]
        with _as_they_are(x):
            for first, stop, grad in _joint_gradients(grads, kinds):
                widths = [len(weight) for weight in weights[first:stop]]
                if needs_x:
                    joint = concatenate(weights[first:stop])
                    d_x = F.linear(grad, joint.t()) if d_x is None else d_x.addmm_(grad, joint)
                if needs_weight[first]:
                    d_weights[first:stop] = grad.t().mm(x).split_with_sizes(widths)
                if needs_bias and needs_bias[first]:
                    d_biases[first:stop] = _sum_of_rows(grad).split_with_sizes(widths)
        return d_x, None, *d_weights, *d_biases


def _joint_gradients(
    grads: Sequence[Tensor | None], kinds: Sequence[Hashable]
) -> Iterator[tuple[int, int, Tensor]]:
    """Join gradients that are side by side in memory, as those of attention are.

    Args:
        grads: The gradients of the outputs, `(rows, out_features)` each.
        kinds: One for each; only gradients of one kind are joined.

    Yields:
        The first and the end of a range of outputs, and their gradient.
    """
    first = 0
    while first < len(grads):
        stop, grad = first + 1, grads[first]
        if grad is not None:
            while stop < len(grads) and kinds[stop] == kinds[first]:
                joined = _join_columns(grad, grads[stop])
                if joined is None:
                    break
                stop, grad = stop + 1, joined
            yield first, stop, grad
        first = stop


def _join_columns(left: Tensor, right: Tensor | None) -> Tensor | None:
    """Return two matrices as one, without a copy, if every row of one continues in the other."""
    if right is None or torch.compiler.is_compiling():
        return None
    if torch.is_grad_enabled():  # second derivatives would not see the right one
        return None
    if not (torch._C._has_storage(left) and torch._C._has_storage(right)):  # as in a vmap
        return None
    rows, width = left.shape[0], left.shape[1] + right.shape[1]
    ends = left.data_ptr() + left.shape[1] * left.element_size()
    if {type(left), type(right)} != {Tensor} or not rows or right.data_ptr() != ends:
        return None
    strides = left.stride(0), 1
    if left.stride() != strides or right.stride() != strides or strides[0] < width:
        return None
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr():
        return None
    return left.as_strided((rows, width), strides)


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
        output = product_relu(x, weight)
        ctx.save_for_backward(x, weight, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight, output = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        grad = torch.ops.aten.threshold_backward(grad, output, 0)
        with _as_they_are(x):
            d_x = F.linear(grad, weight.t()) if needs_x else None
            return d_x, grad.t().mm(x) if needs_weight else None


class _ReLUFeedForward(torch.autograd.Function):
    """Saves x, the weights and the inner states after dropout.

    Inner states are positive where neither ReLU nor dropout stopped them, and only there a gradient
    passes.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, second: Tensor, dropout: float) -> Tensor:
        inner = F.dropout(product_relu(x, first), dropout)
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
                d_inner = product_where_positive(grad, second.t(), inner, ctx.scale)
                d_x = F.linear(d_inner, first.t()) if needs_x else None
                d_first = d_inner.t().mm(x) if needs_first else None
            if needs_second:
                d_second = grad.t().mm(inner)
        return d_x, d_first, d_second, None


def _as_they_are(x: Tensor) -> AbstractContextManager[object]:
    """Products of tensors as they are, should a backward pass run inside torch.autocast."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()
