# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the kernels of scores share: a tile of VIP tokens, one of candidates, weights of pairs."""

import triton
import triton.language as tl

from foveate.ops._triton.math import LOG2E, dot


@triton.jit
def program(tiles, heads, PARTS: tl.constexpr, VIPS: tl.constexpr):
    """What a program owns: part of the candidates, head, first VIP token, sequence."""
    number = tl.program_id(0)
    part, head = number % PARTS, number // PARTS % heads
    tile = number // (PARTS * heads)
    return part, head, tile % tiles * VIPS, tile // tiles


@triton.jit
def span(starts, counts, sequence):
    """First row of a sequence, and how many it has."""
    return tl.load(starts + sequence), tl.load(counts + sequence).to(tl.int32)


@triton.jit
def load_heads(
    x,
    start,
    first,
    rows,
    head,
    row_stride,
    head_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Rows of one head `(SIZE, WIDTH)`, zero beyond."""
    row, channel = first + tl.arange(0, SIZE), tl.arange(0, WIDTH)
    there = (row < rows)[:, None] & (channel < HEAD_DIM)[None, :]
    place = (start + row)[:, None] * row_stride + head * head_stride + channel[None, :]
    return tl.load(x + place, mask=there, other=0.0)


@triton.jit
def load_vips(x, start, first, rows, SIZE: tl.constexpr):
    """Positions of VIP tokens, or what they count for; 0 beyond."""
    row = first + tl.arange(0, SIZE)
    return tl.load(x + start + row, mask=row < rows, other=0)


@triton.jit
def load_candidates(positions, key_bias, start, first, rows, SIZE: tl.constexpr):
    """Positions of candidates, and their biases in base 2, -inf beyond."""
    row = first + tl.arange(0, SIZE)
    position = tl.load(positions + start + row, mask=row < rows, other=0)
    bias = tl.load(key_bias + start + row, mask=row < rows, other=float("-inf"))
    return position, bias.to(tl.float32) * LOG2E


@triton.jit
def distances(q_position, k_position, reach):
    """Places of the distances of all pairs in a row of biases."""
    distance = (k_position[None, :] - q_position[:, None]).to(tl.int32)
    return tl.minimum(tl.maximum(distance, -reach), reach) + reach


@triton.jit
def pair_scores(q, k, place, key_bias, bias, bias_stride, scale):
    """Base-2 scores `(VIPS, KEYS)`; `place` is of `distances`."""
    scores = dot(q, k.T) * (scale * LOG2E) + key_bias[None, :]
    if bias is not None:
        scores += tl.load(bias + place * bias_stride).to(tl.float32) * LOG2E
    return scores


@triton.jit
def load_totals(lse, row, head, heads, n_vips, there, PARTS: tl.constexpr):
    """Log-sum-exps of VIP tokens, from those of parts; inf, which makes weights 0, of nothing."""
    part = tl.arange(0, PARTS)
    place = (part[:, None] * heads + head) * n_vips + row[None, :]
    totals = tl.load(lse + place, mask=there[None, :], other=float("-inf"))
    top = tl.max(totals, 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tl.exp2(totals - shift[None, :]), 0)
    seen = total > 0
    return tl.where(seen, shift + tl.log2(tl.where(seen, total, 1.0)), float("inf"))


@triton.jit
def load_means(sums, row, head, heads, n_vips, there, PARTS: tl.constexpr):
    """Sums over parts, of VIP tokens."""
    part = tl.arange(0, PARTS)
    place = (part[:, None] * heads + head) * n_vips + row[None, :]
    return tl.sum(tl.load(sums + place, mask=there[None, :], other=0.0), 0)
