# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803, N806
# mypy: disable-error-code=no-untyped-def
"""The backward kernels: one finishes tiles of queries, the other tiles of keys.

With P, D and dS as in `_triton.softmax`: dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO, and the
gradient of the bias of a distance is the sum of dS over its pairs. A program owns the tokens whose
gradients it stores and adds in a fixed order, so gradients are equal bit for bit from run to run.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.bias import add_by_diagonal, within_margin
from foveate.ops._packed.triton.tables import load_sequence_tile, sequence_tiles
from foveate.ops._triton.card import padded_width
from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, cdiv, dot
from foveate.ops._triton.softmax import add_key_gradients, add_query_gradient, empty_gradients
from foveate.ops._triton.tiles import load_tile, store_tile

from .scoring import (
    NOT_SPECIALIZED,
    GlobalTokens,
    WindowScoring,
    global_strides,
    global_tensors,
    keys_options,
    queries_options,
)
from .tables import CHUNK, key_tiles
from .tile import (
    any_masked,
    edge_scores,
    edge_tile,
    global_scores,
    hide_masked,
    load_masked,
    query_edge_scores,
    window_spans,
)


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    scoring: WindowScoring,
    lengths: Sequence[int],
    global_tokens: GlobalTokens | None,
    other_dq: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of q, k, v, the global keys and values, and the table of buckets.

    Args:
        grad: Gradient of the output.
        q: Queries.
        k: Keys.
        v: Values.
        o: The output.
        lse: Log-sum-exps of `forward`.
        scoring: The terms that turn products into scores.
        lengths: The number of tokens in each sequence.
        global_tokens: Global keys and values that `forward` attended to.
        other_dq: Gradient of q by other keys, which is added to that of q.

    Returns:
        The gradients of q, k and v, `(n, 3, heads, head_dim)`; of the global keys and values,
        `(2, global_tokens, heads, head_dim)` float32; and of the table, float64, or None.
    """
    n, heads, head_dim = q.shape
    gradients = empty_gradients(q, 3)
    dq, dk, dv = gradients.unbind(1)
    delta = torch.empty_like(lse)
    strides = (
        *q.stride()[:2],
        *k.stride()[:2],
        *v.stride()[:2],
        *grad.stride()[:2],
        gradients.stride(0),
        *global_strides(global_tokens),
    )
    widths = head_dim, padded_width(head_dim)
    sizes, options = queries_options(q)
    global_lengths, global_size = lengths, 0
    if global_tokens is not None:
        global_lengths, global_size = global_tokens.lengths, global_tokens.tile_size(sizes[1])
    tiles = sequence_tiles(lengths, global_lengths, *sizes, q.device)
    buckets, sums = scoring.buckets, None
    if buckets is not None:
        sums = torch.zeros(heads, len(tiles), 2 * buckets.reach + 1, device=q.device)
    inputs = *global_tensors(global_tokens), *scoring.tensors
    launch(
        _queries_kernel,
        len(tiles) * heads,
        (q, k, v, o, grad, lse, delta, dq, other_dq, sums, *inputs, tiles),
        strides,
        (*scoring.numbers, len(tiles), n, heads),
        (*widths, global_size, *sizes),
        **options,
    )
    sizes, options = keys_options(q)
    tiles = key_tiles(
        lengths, None if global_tokens is None else global_tokens.lengths, sizes[1], q.device
    )
    chunk_sums, num_global = None, 0
    if global_tokens is not None:
        num_chunks, num_global = cdiv(max(lengths), CHUNK), len(global_tokens.k)
        shape = num_chunks, 2, *global_tokens.k.shape
        chunk_sums = torch.zeros(shape, dtype=torch.float32, device=q.device)
    launch(
        _keys_kernel,
        len(tiles) * heads,
        (q, k, v, grad, lse, delta, dk, dv, chunk_sums, *inputs, tiles),
        strides,
        (*scoring.numbers, len(tiles), n, heads, num_global),
        (*widths, CHUNK, *sizes),
        **options,
    )
    d_global = None if chunk_sums is None else chunk_sums.sum(0)
    d_bias = None if buckets is None or sums is None else buckets.sum_by_bucket(sums)
    return gradients, d_global, d_bias


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _queries_kernel(
    q,
    k,
    v,
    o,
    grad,
    lse,
    delta,
    dq,
    other_dq,
    sums,
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
    stride_gn,
    stride_gh,
    stride_dn,
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
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    GLOBAL: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute the gradient and D of a tile of queries, and its sums of dS by distance."""
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    tile = tl.program_id(0) % num_tiles
    start, first, length, global_start, num_global, _ = load_sequence_tile(tiles, tile)
    q += start * stride_qn + head * stride_qh
    k += start * stride_kn + head * stride_kh
    v += start * stride_vn + head * stride_vh
    stride_on = heads * HEAD_DIM
    o += start * stride_on + head * HEAD_DIM
    dq += start * stride_dn + head * HEAD_DIM
    grad += start * stride_gn + head * stride_gh
    lse += head * n + start
    delta += head * n + start
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
        sums += (head * num_tiles + tile) * (2 * reach + 1) + reach
    if masked_keys is not None:
        masked_keys += start

    query = first + tl.arange(0, QUERIES)
    # (QUERIES, WIDTH)
    queries = load_tile(q, first, length, stride_qn, QUERIES, HEAD_DIM, WIDTH)
    grads = load_tile(grad, first, length, stride_gn, QUERIES, HEAD_DIM, WIDTH)
    outs = load_tile(o, first, length, stride_on, QUERIES, HEAD_DIM, WIDTH)
    log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
    d = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + query, d, mask=query < length)
    dq_tile = tl.zeros([QUERIES, WIDTH], tl.float32)

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
            products = dot(queries, keys.T)
            scores = global_scores(products, t * GLOBAL, num_global, scale * LOG2E, GLOBAL)
            weights = tl.exp2(scores - log_total[:, None])
            d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)

    begin, stop, full, edge = window_spans(
        first, length, left, right, bias is not None, QUERIES, KEYS
    )
    some_masked = any_masked(masked_keys, begin * KEYS, tl.minimum(stop * KEYS, length))
    for t in range(full, edge):
        # (KEYS, WIDTH)
        keys = load_tile(k, t * KEYS, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_tile(v, t * KEYS, None, stride_vn, KEYS, HEAD_DIM, WIDTH)
        scores = dot(queries, keys.T) * (scale * LOG2E)
        scores = hide_masked(scores, masked_keys, some_masked, t * KEYS, length, KEYS)
        weights = tl.exp2(scores - log_total[:, None])
        d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
    before = tl.zeros([KEYS], tl.float32)
    after = tl.zeros([KEYS], tl.float32)
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
            scale * LOG2E,
            QUERIES,
            KEYS,
        )
        scores = hide_masked(scores, masked_keys, some_masked, other, length, KEYS)
        weights = tl.exp2(scores - log_total[:, None])
        d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
        if bias is not None:
            distance = within_margin(other, first, reach, QUERIES, KEYS) - first
            before, after = add_by_diagonal(
                sums, before, after, d_scores, distance, reach, QUERIES, KEYS
            )
    if bias is not None:
        tl.store(sums - reach, tl.sum(before))
        tl.store(sums + reach, tl.sum(after))

    dq_tile *= scale
    if other_dq is not None:
        other_dq += start * stride_on + head * HEAD_DIM
        # (QUERIES, WIDTH)
        other_tile = load_tile(other_dq, first, length, stride_on, QUERIES, HEAD_DIM, WIDTH)
        dq_tile += other_tile.to(tl.float32)
    store_tile(dq, dq_tile, first, length, stride_dn, QUERIES, HEAD_DIM, WIDTH)


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _keys_kernel(
    q,
    k,
    v,
    grad,
    lse,
    delta,
    dk,
    dv,
    chunk_sums,
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
    stride_gn,
    stride_gh,
    stride_dn,
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
    num_global,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute the gradients of a tile of keys and values; scores are transposed: keys down.

    Those of global keys and values are sums over a chunk of the queries.
    """
    head = (tl.program_id(0) // num_tiles).to(tl.int64)
    start, first, num_keys, k_start, length, chunk = load_sequence_tile(
        tiles, tl.program_id(0) % num_tiles
    )
    is_global = chunk >= 0
    q += start * stride_qn + head * stride_qh
    k += start * stride_kn + head * stride_kh
    v += start * stride_vn + head * stride_vh
    grad += start * stride_gn + head * stride_gh
    lse += head * n + start
    delta += head * n + start
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
    if masked_keys is not None:
        masked = load_masked(masked_keys + start, first, length, KEYS)[:, None]
        some_masked = tl.max(masked.to(tl.int32)) > 0

    key = first + tl.arange(0, KEYS)
    num_window_keys = tl.where(is_global, 0, num_keys)
    # (KEYS, WIDTH)
    keys = load_tile(k, first, num_window_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
    values = load_tile(v, first, num_window_keys, stride_vn, KEYS, HEAD_DIM, WIDTH)
    begin, stop, full, edge = window_spans(
        first, length, right, left, bias is not None, KEYS, QUERIES
    )
    if global_k is not None:
        global_k += k_start * stride_global_kn + head * stride_global_kh
        global_v += k_start * stride_global_vn + head * stride_global_vh
        if is_global:
            # (KEYS, WIDTH)
            keys = load_tile(global_k, first, num_keys, stride_global_kn, KEYS, HEAD_DIM, WIDTH)
            values = load_tile(global_v, first, num_keys, stride_global_vn, KEYS, HEAD_DIM, WIDTH)
            begin = chunk * (CHUNK // QUERIES)
            stop = tl.cdiv(tl.minimum((chunk + 1) * CHUNK, length), QUERIES)
            full, edge = begin, tl.minimum(stop, length // QUERIES)
        left, right = tl.where(is_global, 1 << 29, left), tl.where(is_global, 1 << 29, right)
        if masked_keys is not None:
            some_masked &= ~is_global
    dk_tile = tl.zeros([KEYS, WIDTH], tl.float32)
    dv_tile = tl.zeros([KEYS, WIDTH], tl.float32)

    for t in range(full, edge):
        query = t * QUERIES + tl.arange(0, QUERIES)
        # (QUERIES, WIDTH)
        queries = load_tile(q, t * QUERIES, None, stride_qn, QUERIES, HEAD_DIM, WIDTH)
        grads = load_tile(grad, t * QUERIES, None, stride_gn, QUERIES, HEAD_DIM, WIDTH)
        scores = dot(keys, queries.T) * (scale * LOG2E)
        if masked_keys is not None:  # noqa: SIM102, known when the kernel is compiled
            if some_masked:
                scores = tl.where(masked, float("-inf"), scores)
        weights = tl.exp2(scores - tl.load(lse + query)[None, :])
        d = tl.load(delta + query)
        _d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )
    STAGES: tl.constexpr = None if bias is None else 1  # with more, fewer programs fit
    for t in tl.range(begin, stop - (edge - full), num_stages=STAGES):
        other = edge_tile(t, full, edge) * QUERIES
        query = other + tl.arange(0, QUERIES)
        # (QUERIES, WIDTH)
        queries = load_tile(q, other, length, stride_qn, QUERIES, HEAD_DIM, WIDTH)
        grads = load_tile(grad, other, length, stride_gn, QUERIES, HEAD_DIM, WIDTH)
        log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
        d = tl.load(delta + query, mask=query < length, other=0.0)
        nearby = within_margin(other, first, reach, KEYS, QUERIES)
        scores = edge_scores(
            dot(keys, queries.T),
            query[None, :],
            key[:, None],
            key[:, None] - (nearby + tl.arange(0, QUERIES))[None, :],
            bias,
            left,
            right,
            scale * LOG2E,
        )
        if masked_keys is not None:  # noqa: SIM102, as above
            if some_masked:
                scores = tl.where(masked, float("-inf"), scores)
        weights = tl.exp2(scores - log_total[None, :])
        _d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )

    dk += start * stride_dn + head * HEAD_DIM
    dv += start * stride_dn + head * HEAD_DIM
    store_tile(dk, dk_tile * scale, first, num_window_keys, stride_dn, KEYS, HEAD_DIM, WIDTH)
    store_tile(dv, dv_tile, first, num_window_keys, stride_dn, KEYS, HEAD_DIM, WIDTH)
    if global_k is not None:  # noqa: SIM102, known when the kernel is compiled
        if is_global:
            stride_on = heads * HEAD_DIM
            chunk_row = 2 * chunk.to(tl.int64) * num_global + k_start
            chunk_sums += chunk_row * stride_on + head * HEAD_DIM
            store_tile(
                chunk_sums, dk_tile * scale, first, num_keys, stride_on, KEYS, HEAD_DIM, WIDTH
            )
            chunk_sums += num_global.to(tl.int64) * stride_on
            store_tile(chunk_sums, dv_tile, first, num_keys, stride_on, KEYS, HEAD_DIM, WIDTH)
