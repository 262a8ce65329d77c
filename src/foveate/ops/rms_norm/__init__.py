"""Rows divided by their root mean square (RMSNorm), with a fast gradient."""

import torch.nn.functional as F
from torch import Tensor

from foveate.ops.backends import choose

from . import reference as _reference

__all__ = ["WIDEST", "rms_norm"]

WIDEST = 8192
"""Channels up to which the kernel keeps rows in registers."""


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, backend: str | None = None) -> Tensor:
    """Divide rows by their root mean square, and multiply channels by weights.

        out_i = weight_i · x_i / √(mean(x²) + eps)

    The kernel is for the gradient alone: torch has one forward, but two backward, which read the
    rows twice, and the one that sums over them for the weights' gradient leaves most of a GPU idle.

    Args:
        x: `(..., channels)`, any floating dtype.
        weight: `(channels,)`, in the dtype of x.
        eps: what is added to the mean of squares.
        backend: "triton" (a kernel for the gradient, on GPUs), "eager" (any device), "reference"
            (the definition), or "auto": triton where it can run, torch elsewhere. If None, what the
            environment variable FOVEATE_BACKEND says, "auto" if nothing.

    Returns:
        Shape and dtype of x.

    Raises:
        ValueError: a weight that does not fit x, an unknown backend, or one that cannot run on
            these tensors.

    Example:
        >>> import torch
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), torch.ones(2), eps=0.0)
        tensor([[0.8485, 1.1314]])
    """
    if weight.shape != x.shape[-1:] or weight.dtype != x.dtype or weight.device != x.device:
        raise ValueError(
            f"weight must be {tuple(x.shape[-1:])} {x.dtype} on {x.device}, as x is, "
            f"got {tuple(weight.shape)} {weight.dtype} on {weight.device}"
        )
    backend = choose(backend, x, widest=None)
    if backend == "reference":
        return _reference.rms_norm(x, weight, eps)
    if backend == "triton" and len(weight) <= WIDEST:
        from .triton import rms_norm as with_fast_gradient

        return with_fast_gradient(x, weight, eps)
    return F.rms_norm(x, weight.shape, weight, eps)
