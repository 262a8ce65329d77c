"""How kernels that read each row of a matrix once, such as norms, share the rows.

Triton need not be installed here: ops read `MAX_CHANNELS` to choose their backend.
"""

import torch
from torch import Tensor

MAX_CHANNELS = 8192
"""The largest number of channels of a row that a program keeps in registers."""

_TILE, _PROGRAMS_PER_PROCESSOR = 1024, 8
"""Elements that a program computes at once, and how many programs run on a multiprocessor."""


def as_rows(x: Tensor, width: int) -> Tensor:
    """Return x as adjacent rows of a width."""
    return x if x.ndim == 2 and x.is_contiguous() else x.reshape(-1, width).contiguous()


def row_tile(width: int) -> tuple[int, int, int]:
    """Return the channels and rows that a program computes at once, and its warps."""
    block = 1 << (width - 1).bit_length()
    return block, max(1, _TILE // block), 4 if block <= 2 * _TILE else 8


def consecutive_rows(n: int, tile_rows: int, device: torch.device) -> tuple[int, int]:
    """Share `n` rows among as many programs as run at once.

    Returns:
        The number of programs, and how many consecutive rows each computes, in whole tiles.
    """
    tiles = -(-n // tile_rows)
    programs = min(tiles, _PROGRAMS_PER_PROCESSOR * _num_processors(device))
    return programs, tile_rows * -(-tiles // programs) if programs else 0


def _num_processors(device: torch.device) -> int:
    """Return the number of multiprocessors of the GPU, 1 on other devices, for tests."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
