"""The definitions of linear layers that share a matrix product."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor


def joint_linear(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Apply each layer by itself; see `foveate.ops.linear`."""
    products = [x @ weight.T for weight in weights]
    if biases is None:
        return tuple(products)
    return tuple(product + bias for product, bias in zip(products, biases, strict=True))


def linear_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Apply the layer, then ReLU; see `foveate.ops.linear`."""
    return (x @ weight.T).clamp(min=0)


def relu_feed_forward(x: Tensor, first: Tensor, second: Tensor, dropout: float = 0.0) -> Tensor:
    """Apply the layers one after the other; see `foveate.ops.linear`."""
    return F.dropout(linear_relu(x, first), dropout) @ second.T
