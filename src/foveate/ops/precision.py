"""The dtypes in which sums are accumulated, and those that a GPU has."""

import warnings

import torch
from torch import Tensor

from ._triton.card import capability_for, card_of


def supported_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype, or float16 in place of bfloat16 on a GPU without it.

    Warns:
        UserWarning: It is float16 in place of bfloat16.
    """
    if torch.version.hip is None and card_of(device).capability < capability_for(dtype):
        warnings.warn(
            f"this GPU has no {dtype}, which compute capability 8.0 brought: float16 is used",
            stacklevel=3,
        )
        return torch.float16
    return dtype


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which to compute with tensors of a dtype: float32 or wider."""
    return torch.promote_types(dtype, torch.float32)


def widened(x: Tensor) -> Tensor:
    """Convert x to the dtype in which sums are accumulated."""
    return x.to(accumulation_dtype(x.dtype))


def zero_gradient(x: Tensor) -> Tensor:
    """Return zeros in which the gradient of x is accumulated."""
    return torch.zeros(x.shape, dtype=accumulation_dtype(x.dtype), device=x.device)
