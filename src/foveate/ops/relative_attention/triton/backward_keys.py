# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernel of the keys: a program finishes dK and dV of one head of a tile.

Scores are transposed: keys down, queries across.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, padded_width

from .bounds import position_bounds
from .launch import COUNTS, Scoring, keys_options
from .tables import tiles
from .tile import (
    far_bias,
    far_biases,
    far_side,
    far_tile,
    load_biases,
    load_bounds,
    load_key_bias,
    load_places,
    load_rows,
    load_tile,
    near_tile,
    pair_scores,
    places_from,
    query_spans,
    store_rows,
)


def backward_keys(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    lse: Tensor,
    delta: Tensor,
    dk: Tensor,
    dv: Tensor,
    scoring: Scoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    of_key_bias: bool,
) -> Tensor | None:
    """Write `dk` and `dv`, and return the gradient of the key biases if `of_key_bias`."""
    n, heads, head_dim = k.shape
    options = keys_options(q)
    queries, keys = options.pop("QUERIES"), options.pop("KEYS")
    table = tiles(k_lengths, q_lengths, keys, queries, q.device)
    d_key_bias = bounds = None
    if scoring.key_bias is not None and of_key_bias:
        d_key_bias = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    if scoring.placed:
        query_table = tiles(q_lengths, k_lengths, queries, keys, q.device)
        bounds = position_bounds(scoring.q_positions, query_table, queries)
    biases = scoring.table, scoring.near, scoring.key_bias
    launch(
        *(_keys, len(table) * heads),
        (
            *(q, k, v, grad, lse, delta, dk, dv, d_key_bias, *biases),
            *(scoring.q_positions, scoring.k_positions, bounds, table),
        ),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2]),
        (len(table), q.shape[0], n, heads, scoring.reach, scoring.scale),
        (
            *(scoring.causal, scoring.placed, scoring.at_hand),
            *(head_dim, padded_width(head_dim), queries, keys),
        ),
        **options,
    )
    return None if d_key_bias is None else d_key_bias.sum(0)


@triton.jit(do_not_specialize=(*COUNTS, "heads"))
def _keys(
    q,
    k,
    v,
    grad,
    lse,
    delta,
    dk,
    dv,
    d_key_bias,
    table,
    near_buckets,
    key_bias,
    q_positions,
    k_positions,
    bounds,
    tiles,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
    n_tiles,
    n,
    n_keys,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    AT_HAND: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Gradients of a tile of keys and values, and a head's share in the key biases'."""
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    start, first, keys, q_start, length, q_tile = load_tile(tiles, tile)
    dk_row = heads * HEAD_DIM
    q += q_start * q_row + head * q_head
    k += start * k_row + head * k_head
    v += start * v_row + head * v_head
    dk += start * dk_row + head * HEAD_DIM
    dv += start * dk_row + head * HEAD_DIM
    grad += q_start * grad_row + head * grad_head
    lse += head * n + q_start
    delta += head * n + q_start
    if table is not None:
        table += head
    if q_positions is not None:
        q_positions += q_start
    if k_positions is not None:
        k_positions += start

    key = first + tl.arange(0, KEYS)
    keys_here = load_rows(k, first, keys, k_row, KEYS, HEAD_DIM, WIDTH)
    values = load_rows(v, first, keys, v_row, KEYS, HEAD_DIM, WIDTH)
    place = key
    if PLACED:
        k_place = load_places(k_positions, key, keys)
        k_low, k_high = tl.min(k_place), tl.max(k_place)
        place = places_from(k_low, k_positions, key, keys)
    of_keys = None
    if key_bias is not None:
        of_keys = load_key_bias(key_bias + start, first, keys, KEYS)[:, None]
    dk_rows = tl.zeros([KEYS, WIDTH], tl.float32)
    dv_rows = tl.zeros([KEYS, WIDTH], tl.float32)
    total = tl.zeros([KEYS], tl.float32)

    before, after, whole, near, stop = query_spans(
        first, length, reach, table is not None, CAUSAL, PLACED, QUERIES, KEYS
    )
    biases = load_biases(table, near_buckets, heads, reach, AT_HAND)
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    for t in range(before + whole - after):
        other = far_tile(t, before, after)
        constant = tl.where(t < before, bias_after, bias_before)  # keys after queries before them
        query = other * QUERIES + tl.arange(0, QUERIES)
        queries = load_rows(q, other * QUERIES, None, q_row, QUERIES, HEAD_DIM, WIDTH)
        grads = load_rows(grad, other * QUERIES, None, grad_row, QUERIES, HEAD_DIM, WIDTH)
        log_total, mean = tl.load(lse + query), tl.load(delta + query)
        scores = dot(keys_here, queries.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += of_keys
        weights = tl.exp2(scores - (log_total - constant)[None, :])
        dv_rows = dot(weights.to(grads.dtype), grads, dv_rows)
        slopes = weights * (dot(values, grads.T) - mean[None, :])
        dk_rows = dot(slopes.to(queries.dtype), queries, dk_rows)
        if d_key_bias is not None:
            total += tl.sum(slopes, 1)

    for t in range(near, stop):
        other = near_tile(t, after, whole)
        query = other * QUERIES + tl.arange(0, QUERIES)
        queries = load_rows(q, other * QUERIES, length, q_row, QUERIES, HEAD_DIM, WIDTH)
        grads = load_rows(grad, other * QUERIES, length, grad_row, QUERIES, HEAD_DIM, WIDTH)
        log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
        mean = tl.load(delta + query, mask=query < length, other=0.0)
        side = 0
        if PLACED:
            q_low, q_high = load_bounds(bounds, q_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            log_total -= far_bias(side, bias_before, bias_after)
        scores = dot(keys_here, queries.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += of_keys
        if side == 0:
            q_place = query
            if PLACED:
                q_place = places_from(k_low, q_positions, query, length)
            scores = pair_scores(
                scores,
                q_place[None, :],
                place[:, None],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
        weights = tl.exp2(scores - log_total[None, :])
        dv_rows = dot(weights.to(grads.dtype), grads, dv_rows)
        slopes = weights * (dot(values, grads.T) - mean[None, :])
        dk_rows = dot(slopes.to(queries.dtype), queries, dk_rows)
        if d_key_bias is not None:
            total += tl.sum(slopes, 1)

    store_rows(dk, dk_rows * scale, first, keys, dk_row, KEYS, HEAD_DIM, WIDTH)
    store_rows(dv, dv_rows, first, keys, dk_row, KEYS, HEAD_DIM, WIDTH)
    if d_key_bias is not None:
        tl.store(d_key_bias + head * n_keys + start + key, total, mask=key < keys)
