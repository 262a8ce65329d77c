# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Scores of candidates: each VIP token's softmax over them, averaged over VIP tokens and heads."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import cdiv
from foveate.ops._triton.softmax import finite_top

from .score_tiles import (
    NOT_SPECIALIZED,
    ScoreInputs,
    bias_indices,
    load_candidates,
    load_head,
    load_lse,
    load_vips,
    num_parts,
    pair_scores,
    part_tiles,
    program_indices,
    score_candidates,
    sequence_span,
    tile_sizes,
)


def forward(
    q: Tensor, k: Tensor, inputs: ScoreInputs, max_vips: int, max_candidates: int, scale: float
) -> tuple[Tensor, Tensor]:
    """Compute the scores `(n_keys,)` and base-2 log-sum-exps `(parts, heads, n_vips)`, float32.

    Args:
        q: Queries of the VIP tokens, `(n_vips, heads, head_dim)`.
        k: Keys of the candidates, `(n_keys, heads, head_dim)`.
        inputs: Positions, packing and biases.
        max_vips: The most VIP tokens of a sequence.
        max_candidates: The most candidates of a sequence.
        scale: Factor on the products.
    """
    heads, parts = q.shape[1], num_parts(max_candidates)
    scores = torch.empty(len(k), dtype=torch.float32, device=k.device)
    lse = torch.empty(parts, heads, len(q), dtype=torch.float32, device=k.device)
    if not len(k):
        return scores, lse
    sequences = len(inputs.k_counts)
    strides = *q.stride()[:2], *k.stride()[:2]
    tensors = q, k, *inputs, lse
    sizes, keys = tile_sizes(q, max_vips, 64)
    tiles = cdiv(max_vips, sizes[0])
    programs, numbers = heads * parts * tiles * sequences, inputs.numbers(q, tiles, scale)
    launch(_log_sum_exps, programs, tensors, strides, numbers, (*sizes, parts, keys))
    sizes, keys = tile_sizes(q, max_vips, 32)
    tiles = cdiv(max_candidates, keys)
    programs, numbers = tiles * sequences, inputs.numbers(q, tiles, scale)
    launch(_scores, programs, (*tensors, scores), strides, numbers, (*sizes, parts, keys))
    return scores, lse


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _log_sum_exps(
    q,
    k,
    q_positions,
    k_positions,
    vip_weights,
    key_bias,
    bias,
    q_starts,
    q_counts,
    k_starts,
    k_counts,
    lse,
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    n_vips,
    heads,
    tiles,
    reach,
    stride_bh,
    stride_bd,
    scale,
    VIPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute the log-sum-exps of one head of some VIP tokens over one part of the candidates."""
    part, head, first, sequence = program_indices(tiles, heads, PARTS, VIPS)
    q_start, num_vips = sequence_span(q_starts, q_counts, sequence)
    k_start, num_keys = sequence_span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * stride_bh
    # (VIPS, WIDTH)
    queries = load_head(
        q, q_start, first, num_vips, head, stride_qn, stride_qh, VIPS, HEAD_DIM, WIDTH
    )
    q_position = load_vips(q_positions, q_start, first, num_vips, VIPS)
    top = tl.full([VIPS], float("-inf"), tl.float32)
    total = tl.zeros([VIPS], tl.float32)
    vips = queries, q_position
    candidates = k, k_positions, key_bias, k_start, num_keys, head, stride_kn, stride_kh
    first_tile, stop = part_tiles(num_keys, part, PARTS, KEYS)
    for tile in range(first_tile, stop):
        _, _, _, scores = score_candidates(
            vips, candidates, tile * KEYS, bias, stride_bd, reach, scale, KEYS, HEAD_DIM, WIDTH
        )
        new_top = tl.maximum(top, tl.max(scores, 1))
        shift = finite_top(new_top)
        total = total * tl.exp2(top - shift) + tl.sum(tl.exp2(scores - shift[:, None]), 1)
        top = new_top
    vip = first + tl.arange(0, VIPS)
    seen = total > 0
    result = tl.where(seen, top + tl.log2(tl.where(seen, total, 1.0)), float("-inf"))
    target = lse + (part * heads + head) * n_vips + q_start + vip
    tl.store(target, result, mask=vip < num_vips)


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _scores(
    q,
    k,
    q_positions,
    k_positions,
    vip_weights,
    key_bias,
    bias,
    q_starts,
    q_counts,
    k_starts,
    k_counts,
    lse,
    scores,
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    n_vips,
    heads,
    tiles,
    reach,
    stride_bh,
    stride_bd,
    scale,
    VIPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute the scores of some candidates, from all heads of all VIP tokens."""
    first_key, sequence = tl.program_id(0) % tiles * KEYS, tl.program_id(0) // tiles
    q_start, num_vips = sequence_span(q_starts, q_counts, sequence)
    k_start, num_keys = sequence_span(k_starts, k_counts, sequence)
    if first_key < num_keys:
        k_position, key_biases = load_candidates(
            k_positions, key_bias, k_start, first_key, num_keys, KEYS
        )
        result = tl.zeros([KEYS], tl.float32)
        for first in range(0, num_vips, VIPS):
            vip = first + tl.arange(0, VIPS)
            q_position = load_vips(q_positions, q_start, first, num_vips, VIPS)
            vip_weight = load_vips(vip_weights, q_start, first, num_vips, VIPS).to(tl.float32)
            bias_index = bias_indices(q_position, k_position, reach)
            for head in range(heads):
                # (VIPS, WIDTH)
                queries = load_head(
                    q, q_start, first, num_vips, head, stride_qn, stride_qh, VIPS, HEAD_DIM, WIDTH
                )
                # (KEYS, WIDTH)
                keys = load_head(
                    k,
                    k_start,
                    first_key,
                    num_keys,
                    head,
                    stride_kn,
                    stride_kh,
                    KEYS,
                    HEAD_DIM,
                    WIDTH,
                )
                log_total = load_lse(lse, q_start + vip, head, heads, n_vips, vip < num_vips, PARTS)
                head_bias = bias
                if bias is not None:
                    head_bias = bias + head * stride_bh
                pairs = pair_scores(
                    queries, keys, bias_index, key_biases, head_bias, stride_bd, scale
                )
                weights = tl.exp2(pairs - log_total[:, None])
                result += tl.sum(weights * vip_weight[:, None], 0)
        key = first_key + tl.arange(0, KEYS)
        tl.store(scores + k_start + key, result / heads, mask=key < num_keys)
