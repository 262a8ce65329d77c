# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries."""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.tables import load_sequence_tile, sequence_tiles
from foveate.ops._triton.card import padded_width
from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot
from foveate.ops._triton.softmax import (
    LANES,
    begin_softmax,
    empty_outputs,
    finish_softmax,
    update_softmax,
)
from foveate.ops._triton.tiles import load_tile, store_tile

from .scoring import (
    NOT_SPECIALIZED,
    GlobalTokens,
    WindowScoring,
    forward_options,
    global_strides,
    global_tensors,
)
from .tile import (
    any_masked,
    edge_tile,
    global_scores,
    hide_masked,
    query_edge_scores,
    window_spans,
)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scoring: WindowScoring,
    lengths: Sequence[int],
    global_tokens: GlobalTokens | None,
    outputs: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor]:
    """Return outputs `(tokens, heads, head_dim)`, base-2 log-sum-exps `(heads, tokens)` float32.

    The log-sum-exp of a query that sees no key is inf, which makes its weights 0.

    Args:
        q: Queries.
        k: Keys.
        v: Values.
        scoring: The terms that turn products into scores.
        lengths: The number of tokens in each sequence.
        global_tokens: Global keys and values to attend to as well.
        outputs: Outputs and log-sum-exps over other keys, which are completed in place.
    """
    n, heads, head_dim = q.shape
    o, lse = empty_outputs(q) if outputs is None else outputs
    sizes, options = forward_options(q)
    global_lengths, global_size = lengths, 0
    if global_tokens is not None:
        global_lengths, global_size = global_tokens.lengths, global_tokens.tile_size(sizes[1])
    tiles = sequence_tiles(lengths, global_lengths, *sizes, q.device)
    launch(
        _forward_kernel,
        len(tiles) * heads,
        (q, k, v, o, lse, *global_tensors(global_tokens), *scoring.tensors, tiles),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *global_strides(global_tokens)),
        (*scoring.numbers, len(tiles), n, heads),
        (outputs is not None, head_dim, padded_width(head_dim), global_size, *sizes),
        **options,
    )
    return o, lse


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _forward_kernel(
    q,
    k,
    v,
    o,
    lse,
    global_k,
    global_v,
    bias,
    masked_keys,
    tiles,
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    stride_global_kn,
    stride_global_kh,
    stride_global_vn,
    stride_global_vh,
    left,
    right,
    reach,
    farthest,
    scale,
    num_tiles,
    n,
    heads,
    HAS_OUTPUTS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    GLOBAL: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    start, first, length, global_start, num_global, _ = load_sequence_tile(
        tiles, tl.program_id(0) % num_tiles
    )
    q += start * stride_qn + head * stride_qh
    k += start * stride_kn + head * stride_kh
    v += start * stride_vn + head * stride_vh
    stride_on = heads * HEAD_DIM
    o += start * stride_on + head * HEAD_DIM
    lse += head * n + start
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
    if masked_keys is not None:
        masked_keys += start
    scale *= LOG2E

    query = first + tl.arange(0, QUERIES)
    # (QUERIES, WIDTH)
    queries = load_tile(q, first, length, stride_qn, QUERIES, HEAD_DIM, WIDTH)
    top, total, out = begin_softmax(QUERIES, WIDTH)
    if HAS_OUTPUTS:
        log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
        seen = log_total < float("inf")
        top = tl.where(seen, log_total, top)
        total += seen.to(tl.float32)[:, None] / LANES
        # (QUERIES, WIDTH)
        out = load_tile(o, first, length, stride_on, QUERIES, HEAD_DIM, WIDTH).to(tl.float32)

    if global_k is not None:
        global_k += global_start * stride_global_kn + head * stride_global_kh
        global_v += global_start * stride_global_vn + head * stride_global_vh
        for t in tl.range(0, tl.cdiv(num_global, GLOBAL), num_stages=1):
            # (GLOBAL, WIDTH)
            keys = load_tile(
                global_k, t * GLOBAL, num_global, stride_global_kn, GLOBAL, HEAD_DIM, WIDTH
            )
            values = load_tile(
                global_v, t * GLOBAL, num_global, stride_global_vn, GLOBAL, HEAD_DIM, WIDTH
            )
            scores = global_scores(dot(queries, keys.T), t * GLOBAL, num_global, scale, GLOBAL)
            top, total, out = update_softmax(scores, 1.0, 0.0, values, top, total, out)

    begin, stop, full, edge = window_spans(
        first, length, left, right, bias is not None, QUERIES, KEYS
    )
    some_masked = any_masked(masked_keys, begin * KEYS, tl.minimum(stop * KEYS, length))
    for t in range(full, edge):
        # (KEYS, WIDTH)
        keys = load_tile(k, t * KEYS, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, t * KEYS, None, stride_vn, KEYS, HEAD_DIM, WIDTH)
        products = dot(queries, keys.T)
        products = hide_masked(products, masked_keys, some_masked, t * KEYS, length, KEYS)
        top, total, out = update_softmax(products, scale, 0.0, values, top, total, out)
    for t in range(begin, stop - (edge - full)):
        other = edge_tile(t, full, edge) * KEYS
        # (KEYS, WIDTH)
        keys = load_tile(k, other, length, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, other, length, stride_vn, KEYS, HEAD_DIM, WIDTH)
        scores = query_edge_scores(
            dot(queries, keys.T),
            query,
            first,
            other,
            length,
            reach,
            bias,
            left,
            right,
            scale,
            QUERIES,
            KEYS,
        )
        scores = hide_masked(scores, masked_keys, some_masked, other, length, KEYS)
        top, total, out = update_softmax(scores, 1.0, 0.0, values, top, total, out)

    out, log_total = finish_softmax(top, total, out, float("inf"))
    store_tile(o, out, first, length, stride_on, QUERIES, HEAD_DIM, WIDTH)
    tl.store(lse + query, log_total, mask=query < length)
