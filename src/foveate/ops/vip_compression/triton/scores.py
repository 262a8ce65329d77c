# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Scores of candidates: softmax over them for each VIP token and head, then the mean of these."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import padded_width

from .tile import (
    distances,
    load_candidates,
    load_heads,
    load_totals,
    load_vips,
    pair_scores,
    program,
    span,
)

NUMBERS = ("n_vips", "heads", "tiles", "reach", "bias_head", "bias_place")
"""Numbers that kernels are not compiled for anew."""


class Pairs(NamedTuple):
    """Where VIP tokens and candidates stand, and what their scores have besides products."""

    q_positions: Tensor
    k_positions: Tensor
    shares: Tensor
    key_bias: Tensor
    bias: Tensor | None
    q_starts: Tensor
    q_counts: Tensor
    k_starts: Tensor
    k_counts: Tensor

    @property
    def reach(self) -> int:
        """Largest distance with a bias of its own."""
        return 0 if self.bias is None else self.bias.shape[1] // 2

    def numbers(self, q: Tensor, tiles: int, scale: float) -> tuple[float, ...]:
        """What kernels take besides tensors; their programs own so many tiles of a sequence."""
        strides = (0, 0) if self.bias is None else self.bias.stride()
        return *q.shape[:2], tiles, self.reach, *strides, scale


def sizes(q: Tensor, longest_vips: int) -> tuple[int, int, int]:
    """VIP tokens of a tile, and the width of a head: as it is, and padded."""
    vips = min(64, max(16, triton.next_power_of_2(longest_vips)))
    return vips, q.shape[2], padded_width(q.shape[2])


def parts_of(longest: int) -> int:
    """Programs that share the candidates of a VIP token, a power of 2: each gets 128 and more."""
    return int(min(16, triton.next_power_of_2(triton.cdiv(longest, 128))))


def forward(
    q: Tensor, k: Tensor, pairs: Pairs, longest_vips: int, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """Scores `(c,)` and log-sum-exps `(parts, heads, n_p)`, base 2, float32."""
    heads, parts, size = q.shape[1], parts_of(longest), sizes(q, longest_vips)
    scores = torch.empty(len(k), dtype=torch.float32, device=k.device)
    lse = torch.empty(parts, heads, len(q), dtype=torch.float32, device=k.device)
    if not len(k):
        return scores, lse
    sequences, tiles = len(pairs.k_counts), triton.cdiv(longest_vips, size[0])
    strides = *q.stride()[:2], *k.stride()[:2]
    launch(
        *(_totals, heads * parts * tiles * sequences, (q, k, *pairs, lse), strides),
        *(pairs.numbers(q, tiles, scale), (*size, parts, 64)),
    )
    tiles = triton.cdiv(longest, 32)
    launch(
        *(_scores, tiles * sequences, (q, k, *pairs, lse, scores), strides),
        *(pairs.numbers(q, tiles, scale), (*size, parts, 32)),
    )
    return scores, lse


@triton.jit(do_not_specialize=NUMBERS)
def _totals(
    q,
    k,
    q_positions,
    k_positions,
    shares,
    key_bias,
    bias,
    q_starts,
    q_counts,
    k_starts,
    k_counts,
    lse,
    q_row,
    q_head,
    k_row,
    k_head,
    n_vips,
    heads,
    tiles,
    reach,
    bias_head,
    bias_place,
    scale,
    VIPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Log-sum-exps of one head of some VIP tokens over one part of the candidates."""
    part, head, first, sequence = program(tiles, heads, PARTS, VIPS)
    q_start, vips = span(q_starts, q_counts, sequence)
    k_start, keys = span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * bias_head
    queries = load_heads(q, q_start, first, vips, head, q_row, q_head, VIPS, HEAD_DIM, WIDTH)
    q_position = load_vips(q_positions, q_start, first, vips, VIPS)
    top = tl.full([VIPS], float("-inf"), tl.float32)
    total = tl.zeros([VIPS], tl.float32)
    count = tl.cdiv(keys, KEYS)
    for tile in range(count * part // PARTS, count * (part + 1) // PARTS):
        some = load_heads(k, k_start, tile * KEYS, keys, head, k_row, k_head, KEYS, HEAD_DIM, WIDTH)
        k_position, weight = load_candidates(
            k_positions, key_bias, k_start, tile * KEYS, keys, KEYS
        )
        place = distances(q_position, k_position, reach)
        scores = pair_scores(queries, some, place, weight, bias, bias_place, scale)
        new_top = tl.maximum(top, tl.max(scores, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        total = total * tl.exp2(top - shift) + tl.sum(tl.exp2(scores - shift[:, None]), 1)
        top = new_top
    row = first + tl.arange(0, VIPS)
    seen = total > 0
    result = tl.where(seen, top + tl.log2(tl.where(seen, total, 1.0)), float("-inf"))
    tl.store(lse + (part * heads + head) * n_vips + q_start + row, result, mask=row < vips)


@triton.jit(do_not_specialize=NUMBERS)
def _scores(
    q,
    k,
    q_positions,
    k_positions,
    shares,
    key_bias,
    bias,
    q_starts,
    q_counts,
    k_starts,
    k_counts,
    lse,
    scores,
    q_row,
    q_head,
    k_row,
    k_head,
    n_vips,
    heads,
    tiles,
    reach,
    bias_head,
    bias_place,
    scale,
    VIPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Scores of some candidates: all heads of all VIP tokens."""
    key, sequence = tl.program_id(0) % tiles * KEYS, tl.program_id(0) // tiles
    q_start, vips = span(q_starts, q_counts, sequence)
    k_start, keys = span(k_starts, k_counts, sequence)
    if key < keys:
        k_position, weight = load_candidates(k_positions, key_bias, k_start, key, keys, KEYS)
        result = tl.zeros([KEYS], tl.float32)
        for first in range(0, vips, VIPS):
            row = first + tl.arange(0, VIPS)
            q_position = load_vips(q_positions, q_start, first, vips, VIPS)
            share = load_vips(shares, q_start, first, vips, VIPS)
            place = distances(q_position, k_position, reach)
            for head in range(heads):
                of_head = bias
                if bias is not None:
                    of_head = bias + head * bias_head
                some = load_heads(
                    q, q_start, first, vips, head, q_row, q_head, VIPS, HEAD_DIM, WIDTH
                )
                own = load_heads(k, k_start, key, keys, head, k_row, k_head, KEYS, HEAD_DIM, WIDTH)
                log_total = load_totals(lse, q_start + row, head, heads, n_vips, row < vips, PARTS)
                pairs = pair_scores(some, own, place, weight, of_head, bias_place, scale)
                result += tl.sum(tl.exp2(pairs - log_total[:, None]) * share[:, None], 0)
        column = key + tl.arange(0, KEYS)
        tl.store(scores + k_start + column, result / heads, mask=column < keys)
