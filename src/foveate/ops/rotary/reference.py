"""The definition of rotary positions: products with complex numbers of length 1."""

import torch
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of channels; see `foveate.ops.rotary.rotate`."""
    real, imaginary = x.double().chunk(2, dim=-1)
    turn = torch.complex(cos.double(), sin.double())[:, None]
    turned = torch.complex(real, imaginary) * turn
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)
