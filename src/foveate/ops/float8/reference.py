"""The definition of linear layers in 8-bit floating point."""

import torch
from torch import Tensor

LARGEST = torch.finfo(torch.float8_e4m3fn).max
SMALLEST_SCALE = torch.finfo(torch.float32).tiny
"""The inverses of smaller scales may be infinite."""


def quantize_rows(x: Tensor, relu: bool) -> tuple[Tensor, Tensor]:
    """Scale and round rows; see `foveate.ops.float8`."""
    x = x.clamp(min=0) if relu else x
    scales = x.abs().amax(1).float() / LARGEST
    scales = torch.where(scales < SMALLEST_SCALE, 0, scales)
    factors = torch.where(scales == 0, 0, 1 / scales)
    return (x.float() * factors[:, None]).to(torch.float8_e4m3fn), scales


def float8_linear(
    x: tuple[Tensor, Tensor], weight: tuple[Tensor, Tensor], bias: Tensor | None
) -> Tensor:
    """Multiply the dequantized rows in float32; see `foveate.ops.float8`."""
    rows, matrix = (values.float() * scales[:, None] for values, scales in (x, weight))
    with torch.autocast(rows.device.type, enabled=False):
        product = rows @ matrix.T
    return product if bias is None else product + bias.float()
