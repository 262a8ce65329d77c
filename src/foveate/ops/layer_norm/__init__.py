"""Layer norm of a sum, as it ends the layers of BERT, Longformer and LED."""

import torch.nn.functional as F
from torch import Tensor

from foveate.ops._triton.rows import MAX_CHANNELS
from foveate.ops.backends import choose
from foveate.ops.norms import check_update, check_vector

from . import reference as _reference

__all__ = ["add_layer_norm"]


def add_layer_norm(
    x: Tensor,
    update: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    *,
    backend: str | None = None,
) -> Tensor:
    """Add two tensors, and normalize each vector of the sum.

        s = x + update
        out_i = weight_i · (s_i - mean(s)) / √(var(s) + eps) + bias_i

    The kernels read and write each vector once. PyTorch adds, and normalizes in another pass; its
    backward pass takes three, of which the one for weight and bias leaves most of the GPU idle.

    Args:
        x: `(..., channels)`, any floating dtype: the input of a layer.
        update: The layer's output, of the shape of x.
        weight: `(channels,)`, in the dtype of x.
        bias: As the weight.
        eps: Added to the variance.
        backend: "triton" (GPU kernels), "eager" (any device), "reference" (the definition), or
            "auto": "triton" where it can run, otherwise "eager". If None, the value of the
            environment variable FOVEATE_BACKEND, or "auto" if that is not set.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        ValueError: If x is not floating, if the other tensors do not match it, if the backend is
            unknown, or if it cannot run on these tensors.

    Example:
        >>> import torch
        >>> x, update = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.0]])
        >>> add_layer_norm(x, update, torch.ones(2), torch.zeros(2), eps=0.0)
        tensor([[-1.,  1.]])
    """
    check_update(update, x)
    check_vector("weight", weight, x)
    check_vector("bias", bias, x)
    backend = choose(backend, x, widest=None)
    if backend == "reference":
        return _reference.add_layer_norm(x, update, weight, bias, eps)
    if backend == "triton" and len(weight) <= MAX_CHANNELS:
        from . import triton as _triton

        return _triton.add_layer_norm(x, update, weight, bias, eps)
    return F.layer_norm((x + update).to(x.dtype), weight.shape, weight, bias, eps).to(x.dtype)
