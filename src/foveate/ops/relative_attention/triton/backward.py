# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernels: one finishes tiles of queries, the other tiles of keys.

With P, D and dS as in `_triton.softmax`: dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO. The
gradients of the biases are sums of dS, over the pairs at a distance and over the queries and heads
of a key. A program owns the tokens whose gradients it stores and adds in a fixed order, so
gradients are equal bit for bit from run to run.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.tables import load_sequence_tile, sequence_tiles
from foveate.ops._triton.card import padded_width
from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, next_power_of_2
from foveate.ops._triton.softmax import add_key_gradients, add_query_gradient, empty_gradients
from foveate.ops._triton.tiles import load_tile, store_tile

from .bucket_sums import add_by_bucket, store_by_bucket
from .positions import far_side, load_bounds, load_positions, position_bounds, relative_positions
from .scoring import RelativeScoring, keys_options, queries_options
from .tile import (
    far_bias,
    far_biases,
    far_tile,
    key_spans,
    load_biases,
    load_key_bias,
    near_scores,
    near_tile,
    query_spans,
)

_GROUP = 16
"""Tiles of queries whose sums for the bias's gradient are added in float32."""


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    scoring: RelativeScoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    needs_bias: bool,
    needs_key_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of q, of k and v, of the table of buckets and of the key biases.

    `o` and `lse` are what `forward` returned. The gradients of k and v are one tensor
    `(n, 2, heads, head_dim)`; those of the biases are float64 and float32, None if they are not
    needed.
    """
    dq, d_kv = torch.empty(q.shape, dtype=q.dtype, device=q.device), empty_gradients(k, 2)
    delta = torch.empty_like(lse)
    d_bias = _backward_queries(
        q, k, v, o, grad, lse, delta, dq, scoring, q_lengths, k_lengths, needs_bias
    )
    d_key_bias = _backward_keys(
        q, k, v, grad, lse, delta, d_kv, scoring, q_lengths, k_lengths, needs_key_bias
    )
    return dq, d_kv, d_bias, d_key_bias


def _backward_queries(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    grad: Tensor,
    lse: Tensor,
    delta: Tensor,
    dq: Tensor,
    scoring: RelativeScoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    needs_bias: bool,
) -> Tensor | None:
    """Write `dq` and `delta`, and return the gradient of the table of buckets if needed."""
    n, heads, head_dim = q.shape
    (queries, keys), options = queries_options(q, scoring.buckets is not None)
    tiles = sequence_tiles(q_lengths, k_lengths, queries, keys, q.device)
    sums = edges = last_edge = edge_buckets = bounds = None
    num_edges = num_buckets = edge_width = 1
    if scoring.table is not None and scoring.buckets is not None and needs_bias:
        _, _, _, _, edges, edge_buckets, last_edge = scoring.buckets
        num_edges, num_buckets = len(edges), len(scoring.table)
        edge_width = next_power_of_2(num_edges)
        padded = -(-len(tiles) // _GROUP) * _GROUP
        sums = torch.zeros(padded, 2, num_buckets, heads, device=q.device)
    if scoring.has_positions:
        key_tiles = sequence_tiles(k_lengths, q_lengths, keys, queries, q.device)
        bounds = position_bounds(scoring.k_positions, key_tiles, keys)
    launch(
        _queries_kernel,
        len(tiles) * heads,
        (
            q,
            k,
            v,
            o,
            grad,
            lse,
            delta,
            dq,
            sums,
            scoring.table,
            scoring.near_buckets,
            scoring.key_bias,
            scoring.q_positions,
            scoring.k_positions,
            bounds,
            edges,
            last_edge,
            edge_buckets,
            tiles,
        ),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2]),
        (num_edges, len(tiles), n, heads, scoring.reach, scoring.scale),
        (
            scoring.causal,
            scoring.has_positions,
            scoring.num_cached,
            edge_width,
            num_buckets,
            head_dim,
            padded_width(head_dim),
            queries,
            keys,
        ),
        **options,
    )
    if sums is None:
        return None
    # A sum in float64 begins with a copy, which is small after the first sum.
    return sums.view(-1, 2 * _GROUP, num_buckets, heads).sum(1).sum(0, dtype=torch.float64)


@triton.jit(do_not_specialize=("num_edges", "num_tiles", "n", "heads", "reach"))
def _queries_kernel(
    q,
    k,
    v,
    o,
    grad,
    lse,
    delta,
    dq,
    sums,
    table,
    near_buckets,
    key_bias,
    q_positions,
    k_positions,
    bounds,
    edges,
    last_edge,
    edge_buckets,
    tiles,
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    stride_gn,
    stride_gh,
    num_edges,
    num_tiles,
    n,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    HAS_POSITIONS: tl.constexpr,
    NUM_CACHED: tl.constexpr,
    EDGES: tl.constexpr,
    BUCKETS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute the gradient and D of a tile of queries, and its sums of dS by bucket."""
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    tile = num_tiles - 1 - tl.program_id(0) % num_tiles  # if causal, the longest work comes first
    start, first, num_queries, k_start, num_keys, key_tile = load_sequence_tile(tiles, tile)
    stride_on = heads * HEAD_DIM
    q += start * stride_qn + head * stride_qh
    k += k_start * stride_kn + head * stride_kh
    v += k_start * stride_vn + head * stride_vh
    o += start * stride_on + head * HEAD_DIM
    dq += start * stride_on + head * HEAD_DIM
    grad += start * stride_gn + head * stride_gh
    lse += head * n + start
    delta += head * n + start
    if table is not None:
        table += head
    if key_bias is not None:
        key_bias += k_start
    if q_positions is not None:
        q_positions += start
    if k_positions is not None:
        k_positions += k_start

    query = first + tl.arange(0, QUERIES)
    # (QUERIES, WIDTH)
    queries = load_tile(q, first, num_queries, stride_qn, QUERIES, HEAD_DIM, WIDTH)
    grads = load_tile(grad, first, num_queries, stride_gn, QUERIES, HEAD_DIM, WIDTH)
    outs = load_tile(o, first, num_queries, stride_on, QUERIES, HEAD_DIM, WIDTH)
    q_position = tl.arange(0, QUERIES)  # counted from the lowest
    if HAS_POSITIONS:
        absolute = load_positions(q_positions, query, num_queries)
        q_low, q_high = tl.min(absolute), tl.max(absolute)
        q_position = relative_positions(q_low, q_positions, query, num_queries)
    log_total = tl.load(lse + query, mask=query < num_queries, other=float("inf"))
    d = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + query, d, mask=query < num_queries)
    dq_tile = tl.zeros([QUERIES, WIDTH], tl.float32)
    sum_before = tl.zeros([QUERIES], tl.float32)
    sum_after = tl.zeros([QUERIES], tl.float32)

    before, after, full, near, stop = key_spans(
        first, num_keys, reach, table is not None, CAUSAL, HAS_POSITIONS, QUERIES, KEYS
    )
    if HAS_POSITIONS:  # this loop is the faster one: it takes all tiles, near ones without weight
        before = full
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    for t in range(before + full - after):
        other = far_tile(t, before, after)
        side = tl.where(t < before, -1, 1)
        if HAS_POSITIONS:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
        constant = far_bias(side, bias_before, bias_after)
        constant = tl.where(side == 0, float("-inf"), constant)
        # (KEYS, WIDTH)
        keys = load_tile(k, other * KEYS, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, other * KEYS, None, stride_vn, KEYS, HEAD_DIM, WIDTH)
        scores = dot(queries, keys.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += load_key_bias(key_bias, other * KEYS, None, KEYS)[None, :]
        weights = tl.exp2(scores - (log_total - constant)[:, None])
        d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
        if sums is not None:
            total = tl.sum(d_scores, 1)
            sum_before += tl.where(side < 0, total, 0.0)
            sum_after += tl.where(side > 0, total, 0.0)

    biases = load_biases(table, near_buckets, heads, reach, NUM_CACHED)
    totals = tl.zeros([QUERIES // 16, EDGES], tl.float32)
    for t in range(near, stop):
        other = near_tile(t, after, full)
        side = 0
        ahead = other * KEYS - first
        low, high = ahead - (QUERIES - 1), ahead + (KEYS - 1)
        if HAS_POSITIONS:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            side = tl.where(other < full, side, 0)
            low, high = k_low - q_high, k_high - q_low
        if side == 0:
            key = other * KEYS + tl.arange(0, KEYS)
            # (KEYS, WIDTH)
            keys = load_tile(k, other * KEYS, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
            values = load_tile(v, other * KEYS, num_keys, stride_vn, KEYS, HEAD_DIM, WIDTH)
            key_biases = load_key_bias(key_bias, other * KEYS, num_keys, KEYS)[None, :]
            k_position = ahead + tl.arange(0, KEYS)
            if HAS_POSITIONS:
                k_position = relative_positions(q_low, k_positions, key, num_keys)
            scores = near_scores(
                dot(queries, keys.T) * (scale * LOG2E) + key_biases,
                q_position[:, None],
                k_position[None, :],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
            weights = tl.exp2(scores - log_total[:, None])
            d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
            if sums is not None:
                distance = k_position.to(tl.float32)[None, :] - q_position.to(tl.float32)[:, None]
                totals = add_by_bucket(
                    totals, d_scores, distance, low, high, edges, last_edge, reach
                )

    store_tile(dq, dq_tile * scale, first, num_queries, stride_on, QUERIES, HEAD_DIM, WIDTH)
    if sums is not None:
        sums += tile.to(tl.int64) * 2 * BUCKETS * heads + head
        sum_before, sum_after = tl.sum(sum_before), tl.sum(sum_after)
        store_by_bucket(
            sums, heads, totals, sum_before, sum_after, edge_buckets, num_edges, BUCKETS
        )


def _backward_keys(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    lse: Tensor,
    delta: Tensor,
    d_kv: Tensor,
    scoring: RelativeScoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    needs_key_bias: bool,
) -> Tensor | None:
    """Write the gradients of k and v, and return the gradient of the key biases if needed."""
    n, heads, head_dim = k.shape
    (queries, keys), options = keys_options(q)
    tiles = sequence_tiles(k_lengths, q_lengths, keys, queries, q.device)
    d_key_bias = bounds = None
    if scoring.key_bias is not None and needs_key_bias:
        d_key_bias = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    if scoring.has_positions:
        query_tiles = sequence_tiles(q_lengths, k_lengths, queries, keys, q.device)
        bounds = position_bounds(scoring.q_positions, query_tiles, queries)
    launch(
        _keys_kernel,
        len(tiles) * heads,
        (
            q,
            k,
            v,
            grad,
            lse,
            delta,
            *d_kv.unbind(1),
            d_key_bias,
            scoring.table,
            scoring.near_buckets,
            scoring.key_bias,
            scoring.q_positions,
            scoring.k_positions,
            bounds,
            tiles,
        ),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2], d_kv.stride(0)),
        (len(tiles), q.shape[0], n, heads, scoring.reach, scoring.scale),
        (
            scoring.causal,
            scoring.has_positions,
            scoring.num_cached,
            head_dim,
            padded_width(head_dim),
            queries,
            keys,
        ),
        **options,
    )
    return None if d_key_bias is None else d_key_bias.sum(0)


@triton.jit(do_not_specialize=("num_tiles", "n", "n_keys", "heads", "reach"))
def _keys_kernel(
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
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    stride_gn,
    stride_gh,
    stride_dkn,
    num_tiles,
    n,
    n_keys,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    HAS_POSITIONS: tl.constexpr,
    NUM_CACHED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Gradients of a tile of keys and values, and a head's share in the key biases' gradient.

    Scores are transposed: keys down, queries across.
    """
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    tile = tl.program_id(0) % num_tiles
    start, first, num_keys, q_start, num_queries, query_tile = load_sequence_tile(tiles, tile)
    q += q_start * stride_qn + head * stride_qh
    k += start * stride_kn + head * stride_kh
    v += start * stride_vn + head * stride_vh
    dk += start * stride_dkn + head * HEAD_DIM
    dv += start * stride_dkn + head * HEAD_DIM
    grad += q_start * stride_gn + head * stride_gh
    lse += head * n + q_start
    delta += head * n + q_start
    if table is not None:
        table += head
    if q_positions is not None:
        q_positions += q_start
    if k_positions is not None:
        k_positions += start

    key = first + tl.arange(0, KEYS)
    # (KEYS, WIDTH)
    keys = load_tile(k, first, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
    values = load_tile(v, first, num_keys, stride_vn, KEYS, HEAD_DIM, WIDTH)
    k_position = key
    if HAS_POSITIONS:
        absolute = load_positions(k_positions, key, num_keys)
        k_low, k_high = tl.min(absolute), tl.max(absolute)
        k_position = relative_positions(k_low, k_positions, key, num_keys)
    key_biases = None
    if key_bias is not None:
        key_biases = load_key_bias(key_bias + start, first, num_keys, KEYS)[:, None]
    dk_tile = tl.zeros([KEYS, WIDTH], tl.float32)
    dv_tile = tl.zeros([KEYS, WIDTH], tl.float32)
    total = tl.zeros([KEYS], tl.float32)

    before, after, full, near, stop = query_spans(
        first, num_queries, reach, table is not None, CAUSAL, HAS_POSITIONS, QUERIES, KEYS
    )
    biases = load_biases(table, near_buckets, heads, reach, NUM_CACHED)
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    for t in range(before + full - after):
        other = far_tile(t, before, after)
        constant = tl.where(t < before, bias_after, bias_before)  # keys after queries before them
        query = other * QUERIES + tl.arange(0, QUERIES)
        # (QUERIES, WIDTH)
        queries = load_tile(q, other * QUERIES, None, stride_qn, QUERIES, HEAD_DIM, WIDTH)
        grads = load_tile(grad, other * QUERIES, None, stride_gn, QUERIES, HEAD_DIM, WIDTH)
        log_total, d = tl.load(lse + query), tl.load(delta + query)
        scores = dot(keys, queries.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += key_biases
        weights = tl.exp2(scores - (log_total - constant)[None, :])
        d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )
        if d_key_bias is not None:
            total += tl.sum(d_scores, 1)

    for t in range(near, stop):
        other = near_tile(t, after, full)
        query = other * QUERIES + tl.arange(0, QUERIES)
        # (QUERIES, WIDTH)
        queries = load_tile(q, other * QUERIES, num_queries, stride_qn, QUERIES, HEAD_DIM, WIDTH)
        grads = load_tile(grad, other * QUERIES, num_queries, stride_gn, QUERIES, HEAD_DIM, WIDTH)
        log_total = tl.load(lse + query, mask=query < num_queries, other=float("inf"))
        d = tl.load(delta + query, mask=query < num_queries, other=0.0)
        side = 0
        if HAS_POSITIONS:
            q_low, q_high = load_bounds(bounds, query_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            log_total -= far_bias(side, bias_before, bias_after)
        scores = dot(keys, queries.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += key_biases
        if side == 0:
            q_position = query
            if HAS_POSITIONS:
                q_position = relative_positions(k_low, q_positions, query, num_queries)
            scores = near_scores(
                scores,
                q_position[None, :],
                k_position[:, None],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
        weights = tl.exp2(scores - log_total[None, :])
        d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )
        if d_key_bias is not None:
            total += tl.sum(d_scores, 1)

    store_tile(dk, dk_tile * scale, first, num_keys, stride_dkn, KEYS, HEAD_DIM, WIDTH)
    store_tile(dv, dv_tile, first, num_keys, stride_dkn, KEYS, HEAD_DIM, WIDTH)
    if d_key_bias is not None:
        tl.store(d_key_bias + head * n_keys + start + key, total, mask=key < num_keys)
