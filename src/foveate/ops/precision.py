"""The dtypes in which sums are accumulated."""

import torch
from torch import Tensor


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which to compute with tensors of a dtype: float32 or wider."""
    return torch.promote_types(dtype, torch.float32)


def widened(x: Tensor) -> Tensor:
    """Convert x to the dtype in which sums are accumulated."""
    return x.to(accumulation_dtype(x.dtype))


def zero_gradient(x: Tensor) -> Tensor:
    """Return zeros in which the gradient of x is accumulated."""
    return torch.zeros(x.shape, dtype=accumulation_dtype(x.dtype), device=x.device)
