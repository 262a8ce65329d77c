"""The definition of the gated GELU."""

import math

from torch import Tensor


def gated_gelu(a: Tensor, b: Tensor) -> Tensor:
    """Compute GELU(a) · b term by term; see `foveate.ops.gated_gelu`."""
    return a / 2 * (1 + (math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)).tanh()) * b
