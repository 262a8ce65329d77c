"""A feed-forward layer with ReLU, in fewer kernels on a GPU."""

from torch import Tensor

from foveate.ops.backends import autocast

from . import fused as _fused

__all__ = ["relu_feed_forward"]


def relu_feed_forward(x: Tensor, first: Tensor, second: Tensor, dropout: float = 0.0) -> Tensor:
    """Apply two linear layers without biases, with ReLU and dropout between them.

        out = dropout(max(0, x · W₁ᵀ)) · W₂ᵀ

    On a GPU, ReLU is computed by the first product. Of the inner states, only those after dropout
    are kept for the backward pass: they are positive exactly where a gradient passes.

    Args:
        x: `(..., in_features)`, any floating dtype.
        first: W₁ `(inner_features, in_features)`, in the dtype of x. Inside `torch.autocast` all
            are cast to its dtype.
        second: W₂ `(out_features, inner_features)`.
        dropout: The probability with which an inner state is dropped.

    Returns:
        `(..., out_features)`.

    Raises:
        ValueError: If `dropout` is not between 0 and 1.

    Example:
        >>> import torch
        >>> relu_feed_forward(torch.tensor([[1.0, -2.0]]), torch.eye(2), 3 * torch.eye(2))
        tensor([[3., 0.]])
    """
    rows = x.reshape(-1, x.shape[-1])
    out = _fused.relu_feed_forward(autocast(rows), autocast(first), autocast(second), dropout)
    return out.view(*x.shape[:-1], len(second))
