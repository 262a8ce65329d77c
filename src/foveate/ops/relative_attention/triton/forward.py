# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries, or a part of its keys."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, padded_width

from .bounds import position_bounds
from .launch import COUNTS, Scoring, forward_options, parts_of_keys
from .tables import tiles
from .tile import (
    absorb,
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


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scoring: Scoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Outputs `(n, heads, head_dim)` and base-2 log-sum-exps `(heads, n)`, float32.

    The log-sum-exp of a query that sees no key is inf, which makes its weights 0.
    """
    n, heads, head_dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    if not n:
        return o, lse
    options = forward_options(q, max(q_lengths))
    queries, keys = options.pop("QUERIES"), options.pop("KEYS")
    table = tiles(q_lengths, k_lengths, queries, keys, q.device)
    bounds = None
    if scoring.placed:
        key_table = tiles(k_lengths, q_lengths, keys, queries, q.device)
        bounds = position_bounds(scoring.k_positions, key_table, keys)
    programs = len(table) * heads
    parts = parts_of_keys(programs, max(k_lengths), q.device)
    out, log_total = o, lse
    if parts > 1:
        out = torch.empty(parts, *q.shape, dtype=torch.float32, device=q.device)
        log_total = torch.empty(parts, *lse.shape, dtype=torch.float32, device=q.device)
    tensors = q, k, v, out, log_total, scoring.table, scoring.near, scoring.key_bias
    launch(
        *(_forward, (programs, parts)),
        (*tensors, scoring.q_positions, scoring.k_positions, bounds, table),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2]),
        (len(table), n, heads, scoring.reach, scoring.scale),
        (
            *(scoring.causal, scoring.placed, parts > 1, scoring.at_hand),
            *(head_dim, padded_width(head_dim), queries, keys),
        ),
        **options,
    )
    if parts > 1:
        width, rows = padded_width(head_dim), 16
        launch(
            *(_merge, (triton.cdiv(n, rows), heads), (out, log_total, o, lse), ()),
            *((n, parts, heads), (head_dim, width, rows)),
        )
    return o, lse


@triton.jit(do_not_specialize=(*COUNTS, "heads"))
def _forward(
    q,
    k,
    v,
    o,
    lse,
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
    n_tiles,
    n,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    SPLIT: tl.constexpr,
    AT_HAND: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = n_tiles - 1 - tl.program_id(0) % n_tiles  # if causal, the longest work comes first
    part, parts = tl.program_id(1), tl.num_programs(1)
    start, first, length, key_start, keys, key_tile = load_tile(tiles, tile)
    q += start * q_row + head * q_head
    k += key_start * k_row + head * k_head
    v += key_start * v_row + head * v_head
    o += ((tl.cast(part, tl.int64) * n + start) * heads + head) * HEAD_DIM
    lse += (part * heads + head) * n + start
    if table is not None:
        table += head
    if key_bias is not None:
        key_bias += key_start
    if q_positions is not None:
        q_positions += start
    if k_positions is not None:
        k_positions += key_start
    scale *= LOG2E

    query = first + tl.arange(0, QUERIES)
    queries = load_rows(q, first, length, q_row, QUERIES, HEAD_DIM, WIDTH)
    place = query
    if PLACED:
        q_place = load_places(q_positions, query, length)
        q_low, q_high = tl.min(q_place), tl.max(q_place)
        place = places_from(q_low, q_positions, query, length)
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH], tl.float32)

    before, after, whole, near, stop = key_spans(
        first, keys, reach, table is not None, CAUSAL, PLACED, QUERIES, KEYS
    )
    biases = load_biases(table, near_buckets, heads, reach, AT_HAND)
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    far = before + whole - after
    for t in range(far * part // parts, far * (part + 1) // parts):
        other = far_tile(t, before, after)
        constant = tl.where(t < before, bias_before, bias_after)
        keys_here = load_rows(k, other * KEYS, None, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, other * KEYS, None, v_row, KEYS, HEAD_DIM, WIDTH)
        products = dot(queries, keys_here.T)
        if key_bias is None:
            top, total, out = absorb(products, scale, constant, values, top, total, out)
        else:
            of_keys = load_key_bias(key_bias, other * KEYS, None, KEYS) + constant
            scores = products * scale + of_keys[None, :]
            top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)

    count = stop - near
    for t in range(near + count * part // parts, near + count * (part + 1) // parts):
        other = near_tile(t, after, whole)
        key = other * KEYS + tl.arange(0, KEYS)
        keys_here = load_rows(k, other * KEYS, keys, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, other * KEYS, keys, v_row, KEYS, HEAD_DIM, WIDTH)
        of_keys = load_key_bias(key_bias, other * KEYS, keys, KEYS)
        side = 0
        if PLACED:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            of_keys += far_bias(side, bias_before, bias_after)
        scores = dot(queries, keys_here.T) * scale + of_keys[None, :]
        if side == 0:
            k_place = key
            if PLACED:
                k_place = places_from(q_low, k_positions, key, keys)
            scores = pair_scores(
                scores,
                place[:, None],
                k_place[None, :],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
        top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)

    _put(o, lse, out, top, total, first, length, heads, SPLIT, HEAD_DIM, WIDTH, QUERIES)


@triton.jit
def _put(
    o,
    lse,
    out,
    top,
    total,
    first,
    rows,
    heads,
    PART: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Write means and log-sum-exps; that of nothing is inf, but -inf in a part."""
    seen = total > 0
    total = tl.where(seen, total, 1.0)
    store_rows(o, out / total[:, None], first, rows, heads * HEAD_DIM, SIZE, HEAD_DIM, WIDTH)
    of_nothing = float("-inf") if PART else float("inf")
    row = first + tl.arange(0, SIZE)
    tl.store(lse + row, tl.where(seen, top + tl.log2(total), of_nothing), mask=row < rows)


@triton.jit(do_not_specialize=(*COUNTS, "parts", "heads"))
def _merge(
    parts_o,
    parts_lse,
    o,
    lse,
    n,
    parts,
    heads,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Merge what parts of the keys gave to one head of some queries."""
    first, head = tl.program_id(0) * SIZE, tl.program_id(1).to(tl.int64)
    row = first + tl.arange(0, SIZE)
    step = heads * HEAD_DIM
    top = tl.full([SIZE], float("-inf"), tl.float32)
    total = tl.zeros([SIZE], tl.float32)
    out = tl.zeros([SIZE, WIDTH], tl.float32)
    for part in range(parts):
        log_total = tl.load(
            parts_lse + (part * heads + head) * n + row, mask=row < n, other=float("-inf")
        )
        source = parts_o + (tl.cast(part, tl.int64) * n * heads + head) * HEAD_DIM
        values = load_rows(source, first, n, step, SIZE, HEAD_DIM, WIDTH)
        new_top = tl.maximum(top, log_total)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        fade, weight = tl.exp2(top - shift), tl.exp2(log_total - shift)
        out = out * fade[:, None] + values * weight[:, None]
        top, total = new_top, total * fade + weight
    o, lse = o + head * HEAD_DIM, lse + head * n
    _put(o, lse, out, top, total, first, n, heads, False, HEAD_DIM, WIDTH, SIZE)
