# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Bounds of the positions in every tile: where positions are given, they tell what is far."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

from .tile import load_places, load_tile


def position_bounds(positions: Tensor | None, tiles: Tensor, size: int) -> Tensor:
    """Bounds `(tiles, 2)`, int64, of positions in tiles of `size` rows; see `tables.tiles`."""
    bounds = torch.empty(len(tiles), 2, dtype=torch.int64, device=tiles.device)
    launch(_bounds, len(tiles), (tiles, positions, bounds), (), (), (size,))
    return bounds


@triton.jit
def _bounds(tiles, positions, bounds, SIZE: tl.constexpr):
    tile = tl.program_id(0)
    start, first, rows, _, _, _ = load_tile(tiles, tile)
    if positions is not None:
        positions += start
    place = load_places(positions, first + tl.arange(0, SIZE), rows)
    tl.store(bounds + 2 * tile, tl.min(place))
    tl.store(bounds + 2 * tile + 1, tl.max(place))
