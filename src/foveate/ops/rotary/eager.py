"""Rotary positions in plain PyTorch."""

import torch
from torch import Tensor

from foveate.ops.precision import accumulation_dtype


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of channels; see `foveate.ops.rotary.rotate`."""
    dtype = accumulation_dtype(x.dtype)
    cos, sin = cos[:, None].to(dtype), sin[:, None].to(dtype)
    a, b = x.to(dtype).chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
