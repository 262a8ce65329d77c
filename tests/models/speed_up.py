"""How sped-up models are compared with those of transformers, in float64."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from foveate.models.speed_ups import restore, speed_up
from tests.numerics import relative_error


@contextmanager
def float64_throughout():
    """Keep transformers from bringing scores to float32, where 1e-10 could not be seen."""
    softmax, to_float32 = nn.functional.softmax, torch.Tensor.float

    def precise_softmax(x, dim, dtype=None):
        return softmax(x, dim, dtype=None if x.dtype == torch.float64 else dtype)

    def precise_float(x):
        return x if x.dtype == torch.float64 else to_float32(x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "softmax", precise_softmax)
        patch.setattr(torch.Tensor, "float", precise_float)
        yield


def check(model, run, real=None):
    """Outputs and gradients of `run(model)` before and after speed_up, where they are real."""

    def outputs():
        model.zero_grad()
        out = run(model)
        out = out if real is None else out[real.bool()]
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(7), dtype=out.dtype)
        (out * weight).sum().backward()
        return out, {
            name: torch.zeros_like(x) if x.grad is None else x.grad
            for name, x in model.named_parameters()
        }

    with float64_throughout():
        expected, expected_gradients = outputs()
        speed_up(model)
        actual, gradients = outputs()
    assert relative_error(actual, expected) < 1e-10
    # Gradients of keys' biases are zero but for rounding, hence the common norm.
    size = max(gradient.norm() for gradient in expected_gradients.values())
    for name, gradient in gradients.items():
        truth = expected_gradients[name]
        assert torch.isfinite(gradient).all(), name
        assert (gradient - truth).norm() < 1e-10 * max(truth.norm(), 1e-3 * size), name
    restore(model)


MASKS = ["none", "right", "left", "gaps", "empty"]
"""Where padding may stand; `empty` is a sequence of nothing else."""


def mask(padding, batch, length):
    """Attention mask `(batch, length)`, with more padding in later sequences."""
    real = torch.ones(batch, length, dtype=torch.long)
    column = torch.arange(length)
    for row in range(batch):
        most = min(4 * row, length - 1)
        if padding == "right":
            real[row] = column < length - most
        elif padding == "left":
            real[row] = column >= most
        elif padding == "gaps":
            real[row] = column * (row + 2) % 5 != 4
    if padding == "empty":
        real[0] = 0
    return real
