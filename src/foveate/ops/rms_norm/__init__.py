"""RMSNorm, the division of each vector by its root mean square, with a fast gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops._triton.rows import MAX_CHANNELS
from foveate.ops.backends import choose

from . import reference as _reference

__all__ = ["MAX_CHANNELS", "residual_rms_norm", "rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, backend: str | None = None) -> Tensor:
    """Divide each vector by its root mean square, and multiply its channels by weights.

        out_i = weight_i · x_i / √(mean(x²) + eps)

    The kernel computes only the gradient. PyTorch has one kernel forward but two backward, which
    read x twice, and the one for the weight's gradient leaves most of the GPU idle.

    Args:
        x: `(..., channels)`, any floating dtype.
        weight: `(channels,)`, in the dtype of x.
        eps: Added to the mean square.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        ValueError: If x is not floating, if the weight does not match it, if the backend is
            unknown, or if it cannot run on these tensors.

    Example:
        >>> import torch
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), torch.ones(2), eps=0.0)
        tensor([[0.8485, 1.1314]])
    """
    backend = _choose(backend, x, weight)
    if backend == "reference":
        return _reference.rms_norm(x, weight, eps)
    if backend == "triton":
        from . import triton as _triton

        return _triton.rms_norm(x, weight, eps)
    return F.rms_norm(x, weight.shape, weight, eps)


def residual_rms_norm(
    x: Tensor,
    weight: Tensor,
    eps: float,
    *,
    update: Tensor | None = None,
    dtype: torch.dtype | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return x for a residual connection, and its `rms_norm` for the layer that this bypasses.

    The kernels add the output of the layer before, cast the norm, and add the gradients of the two
    outputs while they compute the norm and its gradient, which saves passes over memory.

    Args:
        x: See `rms_norm`.
        weight: See `rms_norm`.
        eps: See `rms_norm`.
        update: The output of the layer before, which is added to x first: of the shape of x;
            None for nothing.
        dtype: The dtype of the norm, such as that of the products in `torch.autocast`; None for
            that of x.
        backend: See `rms_norm`.

    Returns:
        x with its update, in the dtype of x, and its norm.

    Raises:
        ValueError: As `rms_norm` does, and if the update does not match x.

    Example:
        >>> import torch
        >>> x = torch.tensor([[3.0, 4.0]])
        >>> residual, normed = residual_rms_norm(x, torch.ones(2), eps=0.0)
        >>> residual, normed
        (tensor([[3., 4.]]), tensor([[0.8485, 1.1314]]))
    """
    if update is not None and (update.shape != x.shape or update.device != x.device):
        raise ValueError(
            f"update must be {tuple(x.shape)} on {x.device} to match x, "
            f"got {tuple(update.shape)} on {update.device}"
        )
    dtype = x.dtype if dtype is None else dtype
    if _choose(backend, x, weight) == "triton":
        from . import triton as _triton

        return _triton.residual_rms_norm(x, weight, eps, update, dtype)
    x = x if update is None else (x + update).to(x.dtype)
    return x, rms_norm(x, weight, eps, backend=backend).to(dtype)


def _choose(backend: str | None, x: Tensor, weight: Tensor) -> str:
    """Resolve the backend, and check that the weight matches x."""
    if not x.is_floating_point():
        raise ValueError(f"x must have a floating dtype, got {x.dtype}")
    if weight.shape != x.shape[-1:] or weight.dtype != x.dtype or weight.device != x.device:
        raise ValueError(
            f"weight must be {tuple(x.shape[-1:])} {x.dtype} on {x.device} to match x, "
            f"got {tuple(weight.shape)} {weight.dtype} on {weight.device}"
        )
    backend = choose(backend, x, widest=None)
    return "eager" if backend == "triton" and len(weight) > MAX_CHANNELS else backend
