# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernel of the queries: a program finishes dQ of one head of a tile.

It also leaves D, which the kernel of the keys needs, and sums of dS by bucket; see `backward`.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, padded_width

from .bounds import position_bounds
from .launch import COUNTS, Scoring, power_of_two, queries_options
from .sums import add_by_bucket, store_by_bucket
from .tables import tiles
from .tile import (
    far_bias,
    far_biases,
    far_side,
    far_tile,
    key_spans,
    load_biases,
    load_bounds,
    load_key_bias,
    load_places,
    load_rows,
    load_tile,
    near_tile,
    pair_scores,
    places_from,
    store_rows,
)


def backward_queries(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    grad: Tensor,
    lse: Tensor,
    delta: Tensor,
    dq: Tensor,
    scoring: Scoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    of_table: bool,
) -> Tensor | None:
    """Write `dq` and `delta`, and return the gradient of the table of buckets if `of_table`."""
    n, heads, head_dim = q.shape
    options = queries_options(q, scoring.placed)
    queries, keys = options.pop("QUERIES"), options.pop("KEYS")
    table = tiles(q_lengths, k_lengths, queries, keys, q.device)
    found, sums, bounds = scoring.distances, None, None
    edges = ranks = order = None
    edge_count = buckets = edge_places = 1
    if scoring.table is not None and found is not None and of_table:
        edges, ranks, order = found.edges, found.ranks, found.order
        edge_count, buckets = len(edges), len(scoring.table)
        edge_places = power_of_two(edge_count)
        sums = torch.zeros(len(table), 2, buckets, heads, device=q.device)
    if scoring.placed:
        key_table = tiles(k_lengths, q_lengths, keys, queries, q.device)
        bounds = position_bounds(scoring.k_positions, key_table, keys)
    biases = scoring.table, scoring.near, scoring.key_bias
    launch(
        *(_queries, len(table) * heads),
        (
            *(q, k, v, o, grad, lse, delta, dq, sums, *biases),
            *(scoring.q_positions, scoring.k_positions, bounds, edges, ranks, order, table),
        ),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2]),
        (edge_count, len(table), n, heads, scoring.reach, scoring.scale),
        (
            *(scoring.causal, scoring.placed, scoring.at_hand, edge_places, buckets),
            *(head_dim, padded_width(head_dim), queries, keys),
        ),
        **options,
    )
    return None if sums is None else sums.sum((0, 1), dtype=torch.float64)


@triton.jit(do_not_specialize=(*COUNTS, "heads"))
def _queries(
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
    ranks,
    order,
    tiles,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
    edge_count,
    n_tiles,
    n,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    AT_HAND: tl.constexpr,
    EDGES: tl.constexpr,
    BUCKETS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Queries' gradient and D, and a tile's sums of dS by bucket."""
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = n_tiles - 1 - tl.program_id(0) % n_tiles  # if causal, the longest work comes first
    start, first, length, key_start, keys, key_tile = load_tile(tiles, tile)
    o_row = heads * HEAD_DIM
    q += start * q_row + head * q_head
    k += key_start * k_row + head * k_head
    v += key_start * v_row + head * v_head
    o += start * o_row + head * HEAD_DIM
    dq += start * o_row + head * HEAD_DIM
    grad += start * grad_row + head * grad_head
    lse += head * n + start
    delta += head * n + start
    if table is not None:
        table += head
    if key_bias is not None:
        key_bias += key_start
    if q_positions is not None:
        q_positions += start
    if k_positions is not None:
        k_positions += key_start

    query = first + tl.arange(0, QUERIES)
    queries = load_rows(q, first, length, q_row, QUERIES, HEAD_DIM, WIDTH)
    grads = load_rows(grad, first, length, grad_row, QUERIES, HEAD_DIM, WIDTH)
    outs = load_rows(o, first, length, o_row, QUERIES, HEAD_DIM, WIDTH)
    place = tl.arange(0, QUERIES)  # counted from the lowest
    if PLACED:
        q_place = load_places(q_positions, query, length)
        q_low, q_high = tl.min(q_place), tl.max(q_place)
        place = places_from(q_low, q_positions, query, length)
    log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
    mean = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + query, mean, mask=query < length)
    dq_rows = tl.zeros([QUERIES, WIDTH], tl.float32)
    sum_before = tl.zeros([QUERIES], tl.float32)
    sum_after = tl.zeros([QUERIES], tl.float32)

    before, after, whole, near, stop = key_spans(
        first, keys, reach, table is not None, CAUSAL, PLACED, QUERIES, KEYS
    )
    if PLACED:  # this loop is faster: it meets all tiles, and lets the near ones weigh nothing
        before = whole
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    for t in range(before + whole - after):
        other = far_tile(t, before, after)
        side = tl.where(t < before, -1, 1)
        if PLACED:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
        constant = far_bias(side, bias_before, bias_after)
        constant = tl.where(side == 0, float("-inf"), constant)
        keys_here = load_rows(k, other * KEYS, None, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, other * KEYS, None, v_row, KEYS, HEAD_DIM, WIDTH)
        scores = dot(queries, keys_here.T) * (scale * LOG2E)
        if key_bias is not None:
            scores += load_key_bias(key_bias, other * KEYS, None, KEYS)[None, :]
        weights = tl.exp2(scores - (log_total - constant)[:, None])
        slopes = weights * (dot(grads, values.T) - mean[:, None])
        dq_rows = dot(slopes.to(keys_here.dtype), keys_here, dq_rows)
        if sums is not None:
            total = tl.sum(slopes, 1)
            sum_before += tl.where(side < 0, total, 0.0)
            sum_after += tl.where(side > 0, total, 0.0)

    biases = load_biases(table, near_buckets, heads, reach, AT_HAND)
    totals = tl.zeros([QUERIES // 16, EDGES], tl.float32)
    for t in range(near, stop):
        other = near_tile(t, after, whole)
        side = 0
        ahead = other * KEYS - first
        low, high = ahead - (QUERIES - 1), ahead + (KEYS - 1)
        if PLACED:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            side = tl.where(other < whole, side, 0)
            low, high = k_low - q_high, k_high - q_low
        if side == 0:
            key = other * KEYS + tl.arange(0, KEYS)
            keys_here = load_rows(k, other * KEYS, keys, k_row, KEYS, HEAD_DIM, WIDTH)
            values = load_rows(v, other * KEYS, keys, v_row, KEYS, HEAD_DIM, WIDTH)
            of_keys = load_key_bias(key_bias, other * KEYS, keys, KEYS)[None, :]
            k_place = ahead + tl.arange(0, KEYS)
            if PLACED:
                k_place = places_from(q_low, k_positions, key, keys)
            scores = pair_scores(
                dot(queries, keys_here.T) * (scale * LOG2E) + of_keys,
                place[:, None],
                k_place[None, :],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
            weights = tl.exp2(scores - log_total[:, None])
            slopes = weights * (dot(grads, values.T) - mean[:, None])
            dq_rows = dot(slopes.to(keys_here.dtype), keys_here, dq_rows)
            if sums is not None:
                distance = k_place.to(tl.float32)[None, :] - place.to(tl.float32)[:, None]
                totals = add_by_bucket(totals, slopes, distance, low, high, edges, ranks, reach)

    store_rows(dq, dq_rows * scale, first, length, o_row, QUERIES, HEAD_DIM, WIDTH)
    if sums is not None:
        sums += tile.to(tl.int64) * 2 * BUCKETS * heads + head
        sum_before, sum_after = tl.sum(sum_before), tl.sum(sum_after)
        store_by_bucket(sums, heads, totals, sum_before, sum_after, order, edge_count, BUCKETS)
