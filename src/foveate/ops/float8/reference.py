"""The definition of linear layers in 8-bit floating point."""

import torch
from torch import Tensor

LARGEST = torch.finfo(torch.float8_e4m3fn).max


def quantize_rows(x: Tensor, relu: bool) -> tuple[Tensor, Tensor]:
    """Scale and round rows; see `foveate.ops.float8`."""
    x = x.clamp(min=0) if relu else x
    scales = x.abs().amax(1).float() / LARGEST
    factors = torch.where(scales > 0, 1 / scales, 0)
    return (x.float() * factors[:, None]).to(torch.float8_e4m3fn), scales


def float8_linear(
    x: tuple[Tensor, Tensor], weight: tuple[Tensor, Tensor], bias: Tensor | None
) -> Tensor:
    """Multiply what the rows stand for, in float32; see `foveate.ops.float8`."""
    rows, matrix = (values.float() * scales[:, None] for values, scales in (x, weight))
    product = rows @ matrix.T
    return product if bias is None else product + bias.float()
