# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Gradients of scores; the softmax weights are recomputed from log-sum-exps.

With the weights w of a VIP token in one of H heads, the VIP token's weight m in its sequence's mean
and the gradient g of the scores, the gradient of the score of a pair is m/H · w · (g - Σ w·g).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import cdiv, dot

from .score_tiles import (
    NOT_SPECIALIZED,
    ScoreInputs,
    bias_indices,
    load_candidates,
    load_head,
    load_lse,
    load_sum,
    load_vips,
    pair_scores,
    part_tiles,
    program_indices,
    score_candidates,
    sequence_span,
    tile_sizes,
)

_KEYS = 32  # with 64, the gradients of queries would not fit in registers


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    lse: Tensor,
    inputs: ScoreInputs,
    max_vips: int,
    max_candidates: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of queries, keys and, if there is one, the bias by distance."""
    heads, parts = q.shape[1], len(lse)
    sizes, keys = tile_sizes(q, max_vips, _KEYS)
    dk = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    near = far = None
    if inputs.bias is not None:
        near = lse.new_zeros(heads, len(q), 2 * inputs.reach + 1)
        far = lse.new_zeros(2, parts, heads, len(q))
    if not len(k):
        return torch.zeros_like(q), dk, _bias_gradient(near, far)
    sums, dq = torch.empty_like(lse), lse.new_empty(parts, *q.shape)
    sequences, tiles = len(inputs.k_counts), cdiv(max_vips, sizes[0])
    tensors, strides = (q, k, grad, *inputs, lse), (*q.stride()[:2], *k.stride()[:2])
    constants = *sizes, parts, keys
    numbers, programs = inputs.numbers(q, tiles, scale), heads * parts * tiles * sequences
    launch(_weighted_gradients, programs, (*tensors, sums), strides, numbers, constants)
    outputs = sums, dq, near, far
    launch(
        _query_gradients, programs, (*tensors, *outputs), strides, numbers, constants, num_stages=2
    )
    tiles = cdiv(max_candidates, keys)
    numbers, programs = inputs.numbers(q, tiles, scale), heads * tiles * sequences
    launch(
        _key_gradients, programs, (*tensors, sums, dk), strides, numbers, constants, num_stages=2
    )
    return dq.sum(0).to(q.dtype), dk, _bias_gradient(near, far)


def _bias_gradient(near: Tensor | None, far: Tensor | None) -> Tensor | None:
    """Sum the gradient of the bias over VIP tokens, and add that of the farthest distances."""
    if near is None or far is None:
        return None
    result = near.sum(1)
    before, after = far.sum((1, 3))
    result[:, 0] += before
    result[:, -1] += after
    return result


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _weighted_gradients(
    q,
    k,
    grad,
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
    sums,
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
    """Σ w·g over one part of the candidates."""
    part, head, first, sequence = program_indices(tiles, heads, PARTS, VIPS)
    q_start, num_vips = sequence_span(q_starts, q_counts, sequence)
    k_start, num_keys = sequence_span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * stride_bh
    vip = first + tl.arange(0, VIPS)
    # (VIPS, WIDTH)
    queries = load_head(
        q, q_start, first, num_vips, head, stride_qn, stride_qh, VIPS, HEAD_DIM, WIDTH
    )
    q_position = load_vips(q_positions, q_start, first, num_vips, VIPS)
    log_total = load_lse(lse, q_start + vip, head, heads, n_vips, vip < num_vips, PARTS)
    result = tl.zeros([VIPS], tl.float32)
    vips = queries, q_position
    candidates = k, k_positions, key_bias, k_start, num_keys, head, stride_kn, stride_kh
    first_tile, stop = part_tiles(num_keys, part, PARTS, KEYS)
    for tile in range(first_tile, stop):
        key = tile * KEYS + tl.arange(0, KEYS)
        _, _, _, scores = score_candidates(
            vips, candidates, tile * KEYS, bias, stride_bd, reach, scale, KEYS, HEAD_DIM, WIDTH
        )
        g = tl.load(grad + k_start + key, mask=key < num_keys, other=0.0)
        result += tl.sum(tl.exp2(scores - log_total[:, None]) * g[None, :], 1)
    target = sums + (part * heads + head) * n_vips + q_start + vip
    tl.store(target, result, mask=vip < num_vips)


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _query_gradients(
    q,
    k,
    grad,
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
    sums,
    dq,
    near,
    far,
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
    """Compute the gradients of queries and biases from one part of the candidates.

    The positions of a sequence's candidates are distinct, so a VIP token meets every distance once,
    except those that share the bias of the farthest. Each element of `near` is therefore written
    once, and every sum has a fixed order.
    """
    part, head, first, sequence = program_indices(tiles, heads, PARTS, VIPS)
    q_start, num_vips = sequence_span(q_starts, q_counts, sequence)
    k_start, num_keys = sequence_span(k_starts, k_counts, sequence)
    if bias is not None:
        bias += head * stride_bh
    vip = first + tl.arange(0, VIPS)
    exists = vip < num_vips
    # (VIPS, WIDTH)
    queries = load_head(
        q, q_start, first, num_vips, head, stride_qn, stride_qh, VIPS, HEAD_DIM, WIDTH
    )
    q_position = load_vips(q_positions, q_start, first, num_vips, VIPS)
    vip_weight = load_vips(vip_weights, q_start, first, num_vips, VIPS).to(tl.float32) / heads
    log_total = load_lse(lse, q_start + vip, head, heads, n_vips, exists, PARTS)
    mean = load_sum(sums, q_start + vip, head, heads, n_vips, exists, PARTS)
    result = tl.zeros([VIPS, WIDTH], tl.float32)
    before, after = tl.zeros([VIPS], tl.float32), tl.zeros([VIPS], tl.float32)
    near_offset = (tl.cast(head, tl.int64) * n_vips + q_start + vip) * (2 * reach + 1)
    vips = queries, q_position
    candidates = k, k_positions, key_bias, k_start, num_keys, head, stride_kn, stride_kh
    first_tile, stop = part_tiles(num_keys, part, PARTS, KEYS)
    for tile in range(first_tile, stop):
        key = tile * KEYS + tl.arange(0, KEYS)
        keys, bias_index, key_biases, scores = score_candidates(
            vips, candidates, tile * KEYS, bias, stride_bd, reach, scale, KEYS, HEAD_DIM, WIDTH
        )
        g = tl.load(grad + k_start + key, mask=key < num_keys, other=0.0)
        d_scores = _score_gradients(scores, log_total, g, mean, vip_weight)
        result = dot(d_scores, keys.to(tl.float32), result)
        if bias is not None:
            real = exists[:, None] & (key_biases > float("-inf"))[None, :]
            is_near = real & (bias_index > 0) & (bias_index < 2 * reach)
            tl.store(near + near_offset[:, None] + bias_index, d_scores, mask=is_near)
            before += tl.sum(tl.where(bias_index == 0, d_scores, 0.0), 1)
            after += tl.sum(tl.where(bias_index == 2 * reach, d_scores, 0.0), 1)
    channel = tl.arange(0, WIDTH)
    target = ((tl.cast(part, tl.int64) * n_vips + q_start + vip) * heads + head) * HEAD_DIM
    mask = exists[:, None] & (channel < HEAD_DIM)[None, :]
    tl.store(dq + target[:, None] + channel[None, :], result * scale, mask=mask)
    if bias is not None:
        target = far + (part * heads + head) * n_vips + q_start + vip
        tl.store(target, before, mask=exists)
        tl.store(target + PARTS * heads * n_vips, after, mask=exists)


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _key_gradients(
    q,
    k,
    grad,
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
    sums,
    dk,
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
    """Compute the gradients of the keys of one head of some candidates."""
    first_key, sequence = tl.program_id(0) % tiles * KEYS, tl.program_id(0) // (tiles * heads)
    head = tl.program_id(0) // tiles % heads
    q_start, num_vips = sequence_span(q_starts, q_counts, sequence)
    k_start, num_keys = sequence_span(k_starts, k_counts, sequence)
    if first_key < num_keys:
        key = first_key + tl.arange(0, KEYS)
        head_bias = bias
        if bias is not None:
            head_bias = bias + head * stride_bh
        # (KEYS, WIDTH)
        keys = load_head(
            k, k_start, first_key, num_keys, head, stride_kn, stride_kh, KEYS, HEAD_DIM, WIDTH
        )
        k_position, key_biases = load_candidates(
            k_positions, key_bias, k_start, first_key, num_keys, KEYS
        )
        g = tl.load(grad + k_start + key, mask=key < num_keys, other=0.0)
        result = tl.zeros([KEYS, WIDTH], tl.float32)
        for first in range(0, num_vips, VIPS):
            vip = first + tl.arange(0, VIPS)
            exists = vip < num_vips
            # (VIPS, WIDTH)
            queries = load_head(
                q, q_start, first, num_vips, head, stride_qn, stride_qh, VIPS, HEAD_DIM, WIDTH
            )
            q_position = load_vips(q_positions, q_start, first, num_vips, VIPS)
            vip_weight = (
                load_vips(vip_weights, q_start, first, num_vips, VIPS).to(tl.float32) / heads
            )
            log_total = load_lse(lse, q_start + vip, head, heads, n_vips, exists, PARTS)
            mean = load_sum(sums, q_start + vip, head, heads, n_vips, exists, PARTS)
            bias_index = bias_indices(q_position, k_position, reach)
            scores = pair_scores(queries, keys, bias_index, key_biases, head_bias, stride_bd, scale)
            d_scores = _score_gradients(scores, log_total, g, mean, vip_weight)
            result = dot(d_scores.T, queries.to(tl.float32), result)
        channel = tl.arange(0, WIDTH)
        target = ((k_start + key) * heads + head) * HEAD_DIM
        mask = (key < num_keys)[:, None] & (channel < HEAD_DIM)[None, :]
        values = (result * scale).to(dk.dtype.element_ty)
        tl.store(dk + target[:, None] + channel[None, :], values, mask=mask)


@triton.jit
def _score_gradients(scores, log_total, g, mean, vip_weight):
    """Compute the gradients of the scores of pairs `(VIPS, KEYS)`."""
    d_scores = tl.exp2(scores - log_total[:, None]) * (g[None, :] - mean[:, None])
    return d_scores * vip_weight[:, None]
