# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Arbitrary positions, for which the bounds of each tile show which tiles are far."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.tables import load_sequence_tile
from foveate.ops._triton.launch import launch


def position_bounds(positions: Tensor | None, tiles: Tensor, size: int) -> Tensor:
    """Return the lowest and highest position in each tile of `size` tokens, `(tiles, 2)` int64."""
    bounds = torch.empty(len(tiles), 2, dtype=torch.int64, device=tiles.device)
    launch(_bounds_kernel, len(tiles), (tiles, positions, bounds), (), (), (size,))
    return bounds


@triton.jit
def _bounds_kernel(tiles, positions, bounds, SIZE: tl.constexpr):
    tile = tl.program_id(0)
    start, first, length, _, _, _ = load_sequence_tile(tiles, tile)
    if positions is not None:
        positions += start
    position = load_positions(positions, first + tl.arange(0, SIZE), length)
    tl.store(bounds + 2 * tile, tl.min(position))
    tl.store(bounds + 2 * tile + 1, tl.max(position))


@triton.jit
def load_positions(positions, token, length):
    """Load positions of tokens, int64: their numbers if None; from `length` on, the last one's."""
    token = tl.minimum(token, length - 1)
    return (token if positions is None else tl.load(positions + token)).to(tl.int64)


@triton.jit
def relative_positions(base, positions, token, length):
    """Return the positions counted from `base`, int32, clamped to ±2^30."""
    position = load_positions(positions, token, length) - base
    return tl.minimum(tl.maximum(position, -(1 << 30)), 1 << 30).to(tl.int32)


@triton.jit
def load_bounds(bounds, tile):
    """Load the lowest and highest position of a tile."""
    return tl.load(bounds + 2 * tile), tl.load(bounds + 2 * tile + 1)


@triton.jit
def far_side(q_low, q_high, k_low, k_high, reach, CAUSAL: tl.constexpr):
    """-1 if all keys are far before the queries by their bounds, 1 if far after them, else 0."""
    before = k_high - q_low <= -reach
    after = k_low - q_high >= (1 if CAUSAL else reach)
    return after.to(tl.int32) - before.to(tl.int32)
