# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries, over all keys or a share.

Where few tiles of queries would leave the GPU idle, several programs share the keys of each, and a
second kernel merges what they computed.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.tables import load_sequence_tile, sequence_tiles
from foveate.ops._triton.card import padded_width
from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, cdiv, dot
from foveate.ops._triton.softmax import (
    begin_softmax,
    empty_outputs,
    finish_softmax,
    finite_top,
    update_softmax,
)
from foveate.ops._triton.tiles import load_tile, store_tile

from .positions import far_side, load_bounds, load_positions, position_bounds, relative_positions
from .scoring import RelativeScoring, forward_options, num_key_splits
from .tile import (
    far_bias,
    far_biases,
    far_tile,
    key_spans,
    load_biases,
    load_key_bias,
    near_scores,
    near_tile,
)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scoring: RelativeScoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Return outputs `(tokens, heads, head_dim)`, base-2 log-sum-exps `(heads, tokens)` float32.

    The log-sum-exp of a query that sees no key is inf, which makes its weights 0.
    """
    n, heads, head_dim = q.shape
    o, lse = empty_outputs(q)
    if not n:
        return o, lse
    (queries, keys), options = forward_options(q, max(q_lengths))
    tiles = sequence_tiles(q_lengths, k_lengths, queries, keys, q.device)
    bounds = None
    if scoring.has_positions:
        key_tiles = sequence_tiles(k_lengths, q_lengths, keys, queries, q.device)
        bounds = position_bounds(scoring.k_positions, key_tiles, keys)
    programs = len(tiles) * heads
    splits = num_key_splits(programs, max(k_lengths), q.device)
    split_o, split_lse = o, lse
    if splits > 1:
        split_o = torch.empty(splits, *q.shape, dtype=torch.float32, device=q.device)
        split_lse = torch.empty(splits, *lse.shape, dtype=torch.float32, device=q.device)
    width = padded_width(head_dim)
    launch(
        _forward_kernel,
        (programs, splits),
        (
            q,
            k,
            v,
            split_o,
            split_lse,
            scoring.table,
            scoring.near_buckets,
            scoring.key_bias,
            scoring.q_positions,
            scoring.k_positions,
            bounds,
            tiles,
        ),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2]),
        (len(tiles), n, heads, scoring.reach, scoring.scale),
        (
            scoring.causal,
            scoring.has_positions,
            splits > 1,
            scoring.num_cached,
            head_dim,
            width,
            queries,
            keys,
        ),
        **options,
    )
    if splits > 1:
        size = 16
        launch(
            _merge_kernel,
            (cdiv(n, size), heads),
            (split_o, split_lse, o, lse),
            (),
            (n, splits, heads),
            (head_dim, width, size),
        )
    return o, lse


@triton.jit(do_not_specialize=("n", "num_tiles", "reach", "heads"))
def _forward_kernel(
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
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    num_tiles,
    n,
    heads,
    reach,
    scale,
    CAUSAL: tl.constexpr,
    HAS_POSITIONS: tl.constexpr,
    SPLIT: tl.constexpr,
    NUM_CACHED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    tile = num_tiles - 1 - tl.program_id(0) % num_tiles  # if causal, the longest work comes first
    split, splits = tl.program_id(1), tl.num_programs(1)
    start, first, num_queries, k_start, num_keys, key_tile = load_sequence_tile(tiles, tile)
    q += start * stride_qn + head * stride_qh
    k += k_start * stride_kn + head * stride_kh
    v += k_start * stride_vn + head * stride_vh
    o += ((tl.cast(split, tl.int64) * n + start) * heads + head) * HEAD_DIM
    lse += (split * heads + head) * n + start
    if table is not None:
        table += head
    if key_bias is not None:
        key_bias += k_start
    if q_positions is not None:
        q_positions += start
    if k_positions is not None:
        k_positions += k_start
    scale *= LOG2E

    query = first + tl.arange(0, QUERIES)
    # (QUERIES, WIDTH)
    queries = load_tile(q, first, num_queries, stride_qn, QUERIES, HEAD_DIM, WIDTH)
    q_position = query
    if HAS_POSITIONS:
        absolute = load_positions(q_positions, query, num_queries)
        q_low, q_high = tl.min(absolute), tl.max(absolute)
        q_position = relative_positions(q_low, q_positions, query, num_queries)
    top, total, out = begin_softmax(QUERIES, WIDTH)

    before, after, full, near, stop = key_spans(
        first, num_keys, reach, table is not None, CAUSAL, HAS_POSITIONS, QUERIES, KEYS
    )
    biases = load_biases(table, near_buckets, heads, reach, NUM_CACHED)
    bias_before, bias_after = far_biases(table, near_buckets, heads, reach, CAUSAL)
    far = before + full - after
    for t in range(far * split // splits, far * (split + 1) // splits):
        other = far_tile(t, before, after)
        constant = tl.where(t < before, bias_before, bias_after)
        # (KEYS, WIDTH)
        keys = load_tile(k, other * KEYS, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, other * KEYS, None, stride_vn, KEYS, HEAD_DIM, WIDTH)
        products = dot(queries, keys.T)
        if key_bias is None:
            top, total, out = update_softmax(products, scale, constant, values, top, total, out)
        else:
            key_biases = load_key_bias(key_bias, other * KEYS, None, KEYS) + constant
            scores = products * scale + key_biases[None, :]
            top, total, out = update_softmax(scores, 1.0, 0.0, values, top, total, out)

    count = stop - near
    for t in range(near + count * split // splits, near + count * (split + 1) // splits):
        other = near_tile(t, after, full)
        key = other * KEYS + tl.arange(0, KEYS)
        # (KEYS, WIDTH)
        keys = load_tile(k, other * KEYS, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, other * KEYS, num_keys, stride_vn, KEYS, HEAD_DIM, WIDTH)
        key_biases = load_key_bias(key_bias, other * KEYS, num_keys, KEYS)
        side = 0
        if HAS_POSITIONS:
            k_low, k_high = load_bounds(bounds, key_tile + other)
            side = far_side(q_low, q_high, k_low, k_high, reach, CAUSAL)
            key_biases += far_bias(side, bias_before, bias_after)
        scores = dot(queries, keys.T) * scale + key_biases[None, :]
        if side == 0:
            k_position = key
            if HAS_POSITIONS:
                k_position = relative_positions(q_low, k_positions, key, num_keys)
            scores = near_scores(
                scores,
                q_position[:, None],
                k_position[None, :],
                biases,
                table,
                near_buckets,
                heads,
                reach,
                CAUSAL,
            )
        top, total, out = update_softmax(scores, 1.0, 0.0, values, top, total, out)

    empty_lse = float("-inf") if SPLIT else float("inf")
    out, log_total = finish_softmax(top, total, out, empty_lse)
    store_tile(o, out, first, num_queries, heads * HEAD_DIM, QUERIES, HEAD_DIM, WIDTH)
    tl.store(lse + query, log_total, mask=query < num_queries)


@triton.jit(do_not_specialize=("n", "splits", "heads"))
def _merge_kernel(
    split_o,
    split_lse,
    o,
    lse,
    n,
    splits,
    heads,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Merge the outputs of one head of some queries over shares of the keys."""
    first, head = tl.program_id(0) * SIZE, tl.program_id(1).to(tl.int64)
    query = first + tl.arange(0, SIZE)
    stride_on = heads * HEAD_DIM
    top, _lanes, out = begin_softmax(SIZE, WIDTH)
    total = tl.zeros([SIZE], tl.float32)
    for split in range(splits):
        log_total = tl.load(
            split_lse + (split * heads + head) * n + query, mask=query < n, other=float("-inf")
        )
        source = split_o + (tl.cast(split, tl.int64) * n * heads + head) * HEAD_DIM
        # (SIZE, WIDTH)
        share = load_tile(source, first, n, stride_on, SIZE, HEAD_DIM, WIDTH)
        new_top = tl.maximum(top, log_total)
        shift = finite_top(new_top)
        decay, weight = tl.exp2(top - shift), tl.exp2(log_total - shift)
        out = out * decay[:, None] + share * weight[:, None]
        top, total = new_top, total * decay + weight
    out, log_total = finish_softmax(top, total[:, None], out, float("inf"))
    store_tile(o + head * HEAD_DIM, out, first, n, stride_on, SIZE, HEAD_DIM, WIDTH)
    tl.store(lse + head * n + query, log_total, mask=query < n)
