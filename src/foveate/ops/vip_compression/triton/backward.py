# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Gradients of scores: weights are computed again, from log-sum-exps.

With weights w of VIP token p, of share s, in one of H heads, and the gradient g of the scores, that
of the score of a pair is s/H · w · (g - Σ w·g).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import dot

from .scores import NUMBERS, Pairs, sizes
from .tile import (
    distances,
    load_candidates,
    load_heads,
    load_means,
    load_totals,
    load_vips,
    pair_scores,
    program,
    span,
)

KEYS = 32  # of 64, gradients of queries would not fit in registers


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    lse: Tensor,
    pairs: Pairs,
    longest_vips: int,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of queries, of keys and of the biases by distance, if there are any."""
    heads, parts, size = q.shape[1], len(lse), sizes(q, longest_vips)
    dk = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    bins = ends = None
    if pairs.bias is not None:
        bins = lse.new_zeros(heads, len(q), 2 * pairs.reach + 1)
        ends = lse.new_zeros(2, parts, heads, len(q))
    if not len(k):
        return torch.zeros_like(q), dk, _of_bias(bins, ends)
    sums, dq = torch.empty_like(lse), lse.new_empty(parts, *q.shape)
    sequences, tiles = len(pairs.k_counts), triton.cdiv(longest_vips, size[0])
    inputs, strides = (q, k, grad, *pairs, lse), (*q.stride()[:2], *k.stride()[:2])
    constants = *size, parts, KEYS
    common, programs = pairs.numbers(q, tiles, scale), heads * parts * tiles * sequences
    launch(_means, programs, (*inputs, sums), strides, common, constants)
    outputs = sums, dq, bins, ends
    launch(_of_queries, programs, (*inputs, *outputs), strides, common, constants, num_stages=2)
    tiles = triton.cdiv(longest, KEYS)
    common, programs = pairs.numbers(q, tiles, scale), heads * tiles * sequences
    launch(_of_keys, programs, (*inputs, sums, dk), strides, common, constants, num_stages=2)
    return dq.sum(0).to(q.dtype), dk, _of_bias(bins, ends)


def _of_bias(bins: Tensor | None, ends: Tensor | None) -> Tensor | None:
    """Sum over VIP tokens; the farthest distances come by parts of the candidates."""
    if bins is None or ends is None:
        return None
    result = bins.sum(1)
    before, after = ends.sum((1, 3))
    result[:, 0] += before
    result[:, -1] += after
    return result


@triton.jit(do_not_specialize=NUMBERS)
def _means(
    q,
    k,
    grad,
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
    sums,
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
    """Σ w·g over one part of the candidates."""
    part, head, first, sequence = program(tiles, heads, PARTS, VIPS)
    q_start, vips = span(q_starts, q_counts, sequence)
    k_start, keys = span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * bias_head
    row = first + tl.arange(0, VIPS)
    queries = load_heads(q, q_start, first, vips, head, q_row, q_head, VIPS, HEAD_DIM, WIDTH)
    q_position = load_vips(q_positions, q_start, first, vips, VIPS)
    log_total = load_totals(lse, q_start + row, head, heads, n_vips, row < vips, PARTS)
    result = tl.zeros([VIPS], tl.float32)
    count = tl.cdiv(keys, KEYS)
    for tile in range(count * part // PARTS, count * (part + 1) // PARTS):
        key = tile * KEYS + tl.arange(0, KEYS)
        some = load_heads(k, k_start, tile * KEYS, keys, head, k_row, k_head, KEYS, HEAD_DIM, WIDTH)
        k_position, weight = load_candidates(
            k_positions, key_bias, k_start, tile * KEYS, keys, KEYS
        )
        place = distances(q_position, k_position, reach)
        scores = pair_scores(queries, some, place, weight, bias, bias_place, scale)
        g = tl.load(grad + k_start + key, mask=key < keys, other=0.0)
        result += tl.sum(tl.exp2(scores - log_total[:, None]) * g[None, :], 1)
    tl.store(sums + (part * heads + head) * n_vips + q_start + row, result, mask=row < vips)


@triton.jit(do_not_specialize=NUMBERS)
def _of_queries(
    q,
    k,
    grad,
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
    sums,
    dq,
    bins,
    ends,
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
    """Gradient of queries and biases by one part of the candidates.

    Candidates have different positions, so that a VIP token meets each distance once, but for those
    that share the bias of the farthest: a bin is written once, and every sum has its order.
    """
    part, head, first, sequence = program(tiles, heads, PARTS, VIPS)
    q_start, vips = span(q_starts, q_counts, sequence)
    k_start, keys = span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * bias_head
    row = first + tl.arange(0, VIPS)
    queries = load_heads(q, q_start, first, vips, head, q_row, q_head, VIPS, HEAD_DIM, WIDTH)
    q_position = load_vips(q_positions, q_start, first, vips, VIPS)
    share = load_vips(shares, q_start, first, vips, VIPS) / heads
    log_total = load_totals(lse, q_start + row, head, heads, n_vips, row < vips, PARTS)
    mean = load_means(sums, q_start + row, head, heads, n_vips, row < vips, PARTS)
    result = tl.zeros([VIPS, WIDTH], tl.float32)
    before, after = tl.zeros([VIPS], tl.float32), tl.zeros([VIPS], tl.float32)
    of_distances = (tl.cast(head, tl.int64) * n_vips + q_start + row) * (2 * reach + 1)
    count = tl.cdiv(keys, KEYS)
    for tile in range(count * part // PARTS, count * (part + 1) // PARTS):
        key = tile * KEYS + tl.arange(0, KEYS)
        some = load_heads(k, k_start, tile * KEYS, keys, head, k_row, k_head, KEYS, HEAD_DIM, WIDTH)
        k_position, weight = load_candidates(
            k_positions, key_bias, k_start, tile * KEYS, keys, KEYS
        )
        place = distances(q_position, k_position, reach)
        scores = pair_scores(queries, some, place, weight, bias, bias_place, scale)
        g = tl.load(grad + k_start + key, mask=key < keys, other=0.0)
        of_pairs = tl.exp2(scores - log_total[:, None]) * (g[None, :] - mean[:, None])
        of_pairs *= share[:, None]
        result = dot(of_pairs, some.to(tl.float32), result)
        if bias is not None:
            there = (row < vips)[:, None] & (weight > float("-inf"))[None, :]
            near = there & (place > 0) & (place < 2 * reach)
            tl.store(bins + of_distances[:, None] + place, of_pairs, mask=near)
            before += tl.sum(tl.where(place == 0, of_pairs, 0.0), 1)
            after += tl.sum(tl.where(place == 2 * reach, of_pairs, 0.0), 1)
    channel = tl.arange(0, WIDTH)
    target = ((tl.cast(part, tl.int64) * n_vips + q_start + row) * heads + head) * HEAD_DIM
    there = (row < vips)[:, None] & (channel < HEAD_DIM)[None, :]
    tl.store(dq + target[:, None] + channel[None, :], result * scale, mask=there)
    if bias is not None:
        target = ends + (part * heads + head) * n_vips + q_start + row
        tl.store(target, before, mask=row < vips)
        tl.store(target + PARTS * heads * n_vips, after, mask=row < vips)


@triton.jit(do_not_specialize=NUMBERS)
def _of_keys(
    q,
    k,
    grad,
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
    sums,
    dk,
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
    """Gradient of the keys of one head of some candidates."""
    key, sequence = tl.program_id(0) % tiles * KEYS, tl.program_id(0) // (tiles * heads)
    head = tl.program_id(0) // tiles % heads
    q_start, vips = span(q_starts, q_counts, sequence)
    k_start, keys = span(k_starts, k_counts, sequence)
    if key < keys:
        if bias is not None:
            bias += head * bias_head
        column = key + tl.arange(0, KEYS)
        own = load_heads(k, k_start, key, keys, head, k_row, k_head, KEYS, HEAD_DIM, WIDTH)
        k_position, weight = load_candidates(k_positions, key_bias, k_start, key, keys, KEYS)
        g = tl.load(grad + k_start + column, mask=column < keys, other=0.0)
        result = tl.zeros([KEYS, WIDTH], tl.float32)
        for first in range(0, vips, VIPS):
            row = first + tl.arange(0, VIPS)
            some = load_heads(q, q_start, first, vips, head, q_row, q_head, VIPS, HEAD_DIM, WIDTH)
            q_position = load_vips(q_positions, q_start, first, vips, VIPS)
            share = load_vips(shares, q_start, first, vips, VIPS) / heads
            log_total = load_totals(lse, q_start + row, head, heads, n_vips, row < vips, PARTS)
            mean = load_means(sums, q_start + row, head, heads, n_vips, row < vips, PARTS)
            place = distances(q_position, k_position, reach)
            scores = pair_scores(some, own, place, weight, bias, bias_place, scale)
            of_pairs = tl.exp2(scores - log_total[:, None]) * (g[None, :] - mean[:, None])
            of_pairs *= share[:, None]
            result = dot(of_pairs.T, some.to(tl.float32), result)
        channel = tl.arange(0, WIDTH)
        target = ((k_start + column) * heads + head) * HEAD_DIM
        there = (column < keys)[:, None] & (channel < HEAD_DIM)[None, :]
        values = (result * scale).to(dk.dtype.element_ty)
        tl.store(dk + target[:, None] + channel[None, :], values, mask=there)
