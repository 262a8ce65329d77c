"""Comparison of tensors by relative norm, which NaN never passes."""

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of `expected`; infinite where `actual` is not finite."""
    assert actual.shape == expected.shape, f"{actual.shape} is not {expected.shape}"
    if not torch.isfinite(actual).all():
        return float("inf")
    actual, expected = actual.detach().double(), expected.detach().double()
    difference = (actual - expected).norm()
    return float(difference / expected.norm().clamp(min=1e-30))
