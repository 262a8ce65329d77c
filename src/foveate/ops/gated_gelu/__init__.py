"""The activation of gated feed-forward layers (GEGLU): GELU of one half times the other."""

from torch import Tensor

from foveate.ops.backends import choose

from . import eager as _eager
from . import reference as _reference

__all__ = ["gated_gelu"]


def gated_gelu(a: Tensor, b: Tensor, *, backend: str | None = None) -> Tensor:
    """Multiply GELU(a), in the tanh approximation, by b: T5's "gated-gelu".

        GELU(a) = a/2 · (1 + tanh(√(2/π) · (a + 0.044715·a³)))

    Only a and b are saved for the backward pass.

    Args:
        a: Any shape, any floating dtype.
        b: Same shape and dtype.
        backend: "triton" (a GPU kernel), "eager" (any device), "reference" (the definition), or
            "auto": "triton" where it can run, otherwise "eager". If None, the value of the
            environment variable FOVEATE_BACKEND, or "auto" if that is not set.

    Returns:
        A tensor of the shape and dtype of a.

    Raises:
        ValueError: If shapes, dtypes or devices differ, if the backend is unknown, or if it cannot
            run on these tensors.

    Example:
        >>> import torch
        >>> gated_gelu(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([2.0, 2.0, 2.0]))
        tensor([-0.3176,  0.0000,  1.6824])
    """
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        raise ValueError(
            "a and b must share shape, dtype and device, "
            f"got {tuple(a.shape)} {a.dtype} on {a.device} and "
            f"{tuple(b.shape)} {b.dtype} on {b.device}"
        )
    backend = choose(backend, a, widest=None)
    if backend == "reference":
        return _reference.gated_gelu(a, b)
    if backend == "triton":
        from . import triton as _triton

        return _triton.gated_gelu(a, b)
    return _eager.gated_gelu(a, b)
