# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The inputs of the score kernels, and the scores of one tile of candidates.

The candidates of a sequence are divided into PARTS; for each VIP token and head, log-sum-exps and
other sums over the candidates are kept by part, `(PARTS, heads, n_vips)`.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.card import H200, card_of, padded_width, row_bytes, shrink
from foveate.ops._triton.math import LOG2E, cdiv, dot, next_power_of_2
from foveate.ops._triton.softmax import finite_top
from foveate.ops._triton.tiles import tile_mask

NOT_SPECIALIZED = ("n_vips", "heads", "tiles", "reach", "stride_bh", "stride_bd")
"""Arguments for which kernels are not recompiled."""


class ScoreInputs(NamedTuple):
    """Positions and packing of VIP tokens (queries) and candidates (keys), and their biases.

    Attributes:
        q_positions: Positions of the VIP tokens, `(n_vips,)`.
        k_positions: Positions of the candidates, `(n_keys,)`, distinct within a sequence.
        vip_weights: Weight of each VIP token in its sequence's mean, `(n_vips,)`.
        key_bias: Log multiplicities of the candidates, `(n_keys,)`.
        bias: T5's bias by distance, `(heads, 2·reach + 1)`, or None.
        q_starts: First VIP token of each sequence, `(sequences,)`.
        q_counts: Number of VIP tokens of each sequence.
        k_starts: First candidate of each sequence.
        k_counts: Number of candidates of each sequence.
    """

    q_positions: Tensor
    k_positions: Tensor
    vip_weights: Tensor
    key_bias: Tensor
    bias: Tensor | None
    q_starts: Tensor
    q_counts: Tensor
    k_starts: Tensor
    k_counts: Tensor

    @property
    def reach(self) -> int:
        """The largest distance that has a bias of its own."""
        return 0 if self.bias is None else self.bias.shape[1] // 2

    def numbers(self, q: Tensor, tiles: int, scale: float) -> tuple[float, ...]:
        """Return the kernels' numbers, if programs divide each sequence into `tiles` tiles."""
        strides = (0, 0) if self.bias is None else self.bias.stride()
        return *q.shape[:2], tiles, self.reach, *strides, scale


def tile_sizes(q: Tensor, max_vips: int, keys: int) -> tuple[tuple[int, int, int], int]:
    """Fit a tile into the card's shared memory.

    Args:
        q: Queries `(n_vips, heads, head_dim)`.
        max_vips: The most VIP tokens of a sequence.
        keys: Candidates of a tile on an H200.

    Returns:
        The VIP tokens of a tile and the width of a head as it is and padded, and the candidates.
    """
    vips, width = min(64, max(16, next_power_of_2(max_vips))), padded_width(q.shape[2])
    limit = card_of(q.device).shared_memory

    def needed(vips: int, keys: int) -> int:
        larger = max(vips, keys)
        size = (vips + keys + larger) * row_bytes(q) + 4 * (vips * keys + larger * width)
        return (size if q.element_size() < 4 else size * 5 // 4) + 1024

    if limit < H200.shared_memory:
        vips, keys = shrink((vips, keys), needed, limit)
    return (vips, q.shape[2], width), keys


def num_parts(max_candidates: int) -> int:
    """Return the number of parts of the candidates, a power of 2; each gets 128 or more."""
    return int(min(16, next_power_of_2(cdiv(max_candidates, 128))))


@triton.jit
def program_indices(tiles, heads, PARTS: tl.constexpr, VIPS: tl.constexpr):
    """Part of the candidates, head, first VIP token and sequence of a program."""
    index = tl.program_id(0)
    part, head = index % PARTS, index // PARTS % heads
    tile = index // (PARTS * heads)
    return part, head, tile % tiles * VIPS, tile // tiles


@triton.jit
def part_tiles(num_keys, part, PARTS: tl.constexpr, KEYS: tl.constexpr):
    """Return the first tile of a part of the candidates, and the end of its tiles."""
    count = tl.cdiv(num_keys, KEYS)
    return count * part // PARTS, count * (part + 1) // PARTS


@triton.jit
def sequence_span(starts, counts, sequence):
    """Return the first packed token of a sequence, and how many it has."""
    return tl.load(starts + sequence), tl.load(counts + sequence).to(tl.int32)


@triton.jit
def load_head(
    x,
    start,
    first,
    count,
    head,
    token_stride,
    head_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Load one head of a sequence's tokens from `first` on, zero beyond: `(SIZE, WIDTH)`."""
    token = first + tl.arange(0, SIZE)
    offset = (start + token)[:, None] * token_stride + head * head_stride
    pointers = x + (offset + tl.arange(0, WIDTH)[None, :])
    return tl.load(pointers, mask=tile_mask(token < count, HEAD_DIM, WIDTH), other=0.0)


@triton.jit
def load_vips(x, start, first, count, SIZE: tl.constexpr):
    """Load positions or weights of VIP tokens, 0 beyond."""
    vip = first + tl.arange(0, SIZE)
    return tl.load(x + start + vip, mask=vip < count, other=0)


@triton.jit
def load_candidates(positions, key_bias, start, first, count, SIZE: tl.constexpr):
    """Load positions of candidates and their base-2 biases, which are -inf beyond."""
    key = first + tl.arange(0, SIZE)
    position = tl.load(positions + start + key, mask=key < count, other=0)
    bias = tl.load(key_bias + start + key, mask=key < count, other=float("-inf"))
    return position, bias.to(tl.float32) * LOG2E


@triton.jit
def bias_indices(q_position, k_position, reach):
    """Return the indices of the biases of all pairs: clamped distances, counted from -reach."""
    distance = (k_position[None, :] - q_position[:, None]).to(tl.int32)
    return tl.minimum(tl.maximum(distance, -reach), reach) + reach


@triton.jit
def pair_scores(q, k, bias_index, key_bias, bias, bias_stride, scale):
    """Compute base-2 scores `(VIPS, KEYS)`."""
    scores = dot(q, k.T) * (scale * LOG2E) + key_bias[None, :]
    if bias is not None:
        scores += tl.load(bias + bias_index * bias_stride).to(tl.float32) * LOG2E
    return scores


@triton.jit
def score_candidates(
    vips,
    candidates,
    first,
    bias,
    bias_stride,
    reach,
    scale,
    KEYS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Load a tile of a sequence's candidates from `first` on, and score it.

    Args:
        vips: Queries of a tile of VIP tokens, and their positions.
        candidates: The keys, their positions and biases, the first packed candidate of the sequence
            and how many it has, the head, and the strides of the keys.
        first: First candidate of the tile.
        bias: Biases of the head by distance, or None.
        bias_stride: Stride of the biases.
        reach: The largest distance with a bias of its own.
        scale: Factor on the products.
        KEYS: Candidates in a tile.
        HEAD_DIM: Channels of a head.
        WIDTH: Channels of a tile, `HEAD_DIM` padded to a power of two.

    Returns:
        The keys, the indices of the pairs' biases, the keys' biases, and the scores.
    """
    queries, q_position = vips
    k, k_positions, key_bias, k_start, num_keys, head, stride_kn, stride_kh = candidates
    # (KEYS, WIDTH)
    keys = load_head(k, k_start, first, num_keys, head, stride_kn, stride_kh, KEYS, HEAD_DIM, WIDTH)
    k_position, key_biases = load_candidates(k_positions, key_bias, k_start, first, num_keys, KEYS)
    bias_index = bias_indices(q_position, k_position, reach)
    scores = pair_scores(queries, keys, bias_index, key_biases, bias, bias_stride, scale)
    return keys, bias_index, key_biases, scores


@triton.jit
def part_pointers(x, vip, head, heads, n_vips, PARTS: tl.constexpr):
    """Return pointers `(PARTS, VIPS)` to one head's values of each part and VIP token."""
    part = tl.arange(0, PARTS)
    return x + ((part[:, None] * heads + head) * n_vips + vip[None, :])


@triton.jit
def load_lse(lse, vip, head, heads, n_vips, exists, PARTS: tl.constexpr):
    """Combine the log-sum-exps of all parts; inf, for weights of 0, if no key is seen."""
    pointers = part_pointers(lse, vip, head, heads, n_vips, PARTS)
    parts = tl.load(pointers, mask=exists[None, :], other=float("-inf"))
    shift = finite_top(tl.max(parts, 0))
    total = tl.sum(tl.exp2(parts - shift[None, :]), 0)
    seen = total > 0
    return tl.where(seen, shift + tl.log2(tl.where(seen, total, 1.0)), float("inf"))


@triton.jit
def load_sum(sums, vip, head, heads, n_vips, exists, PARTS: tl.constexpr):
    """Add the sums of all parts."""
    pointers = part_pointers(sums, vip, head, heads, n_vips, PARTS)
    return tl.sum(tl.load(pointers, mask=exists[None, :], other=0.0), 0)
