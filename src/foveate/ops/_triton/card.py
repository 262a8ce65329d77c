"""What a GPU offers to the programs of a kernel, and tiles that fit.

The kernels' sizes were measured on an H200. Cards with less shared memory get fewer stages of
loads, or smaller tiles. Triton need not be installed here: ops ask before they choose a backend.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

_SMALLEST_TILE = 16
"""Rows of a tile that the tensor cores require."""


class Card(NamedTuple):
    """What a GPU offers.

    Attributes:
        capability: Its compute capability.
        shared_memory: Bytes of shared memory that a program can have.
    """

    capability: tuple[int, int]
    shared_memory: int


H200 = Card((9, 0), 232_448)


def capability_for(dtype: torch.dtype, multiplies: bool = False) -> tuple[int, int]:
    """Return the lowest compute capability of NVIDIA's GPUs on which kernels run, at least a T4's.

    Args:
        dtype: The dtype of their inputs.
        multiplies: Whether they multiply matrices: Triton compiles products for the tensor cores
            from 8.0 on. For a T4 it unrolls them, and a thread would spill kilobytes of registers.
    """
    return (8, 0) if multiplies or dtype == torch.bfloat16 else (7, 5)


@cache
def card_of(device: torch.device) -> Card:
    """Return what a device offers; interpreted kernels run as on an H200."""
    if device.type != "cuda":
        return H200
    properties = torch.cuda.get_device_properties(device)
    capability = properties.major, properties.minor
    shared_memory: int = properties.shared_memory_per_block_optin  # type: ignore[attr-defined]
    return Card(capability, shared_memory)


def padded_width(head_dim: int) -> int:
    """Return the channels of a tile: a power of two, at least 16, as the tensor cores require."""
    return max(16, 1 << (head_dim - 1).bit_length())


def row_bytes(x: Tensor) -> int:
    """Return the number of bytes of a row of a tile."""
    return padded_width(x.shape[-1]) * x.element_size()


def attention_bytes(
    x: Tensor, own: int, other: int, num_stages: int, num_own_tiles: int = 2
) -> int:
    """Return an upper bound of the shared memory of an attention kernel before Hopper.

    Args:
        x: Queries or keys `(n, heads, head_dim)`.
        own: Rows of the tiles that a program finishes.
        other: Rows of the pairs of tiles that it loops over.
        num_stages: Stages in which it loads these.
        num_own_tiles: Tiles that it keeps: of queries, or of keys and values.
    """
    tiles = num_own_tiles * own + 2 * max(1, num_stages - 1) * other
    size = tiles * row_bytes(x) + 4 * own * other
    return (size if x.element_size() < 4 else size * 5 // 4) + 1024


def shrink(
    sizes: tuple[int, int], needed: Callable[[int, int], int], limit: int
) -> tuple[int, int]:
    """Halve the larger of two sizes until what they need is within a limit, or both are least."""
    one, other = sizes
    while needed(one, other) > limit and max(one, other) > _SMALLEST_TILE:
        one, other = (one // 2, other) if one > other else (one, other // 2)
    return one, other
