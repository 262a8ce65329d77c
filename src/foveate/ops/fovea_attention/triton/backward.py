# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernels: one finishes tiles of queries, the other tiles of windows.

With P, D and dS as in `_triton.softmax`: dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO, and the
gradient of the bias of a distance is the sum of dS at that distance. Every sum is one program's, in
a fixed order, so gradients are equal bit for bit from run to run.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.bias import add_by_diagonal
from foveate.ops._triton.card import padded_width
from foveate.ops._triton.math import LOG2E, dot
from foveate.ops._triton.softmax import add_key_gradients, add_query_gradient
from foveate.ops._triton.tiles import load_six, load_strided_tile, store_strided_tile

from .pyramid import spread_gradients
from .schedule import Schedule
from .tile import far_biases, keys_options, load_log_sizes, near_scores, queries_options


def backward(
    grad: Tensor,
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    log_sizes: Tensor | None,
    o: Tensor,
    lse: Tensor,
    schedule: Schedule,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of q, of k and v, and of the table of biases, if there is one.

    `o` and `lse` are what `forward` returned; the other arguments are as there. The gradients of k
    and v are one tensor `(n, 2, heads, head_dim)`.
    """
    n, heads, head_dim = q.shape
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    d_rows = q.new_empty(schedule.gradient_ends[-1], 2, heads, head_dim)
    d_windows = d_rows.transpose(0, 1)
    delta = torch.empty_like(lse)
    tiles, entries = schedule.keys_of_queries
    buckets, sums = schedule.buckets, None
    if buckets is not None:
        sums = torch.zeros(heads, len(tiles), 2 * buckets.reach + 1, device=q.device)
    inputs = q, windows, bias, log_sizes, grad, lse, delta
    farthest = 0 if bias is None else bias.shape[1] // 2
    numbers = n, heads, schedule.reach, farthest, scale
    strides = *q.stride()[:2], *windows.stride()[:3], *grad.stride()[:2]
    sizes = head_dim, padded_width(head_dim), *schedule.sizes
    _queries_kernel[(len(tiles) * heads,)](
        *inputs,
        o,
        dq,
        sums,
        tiles,
        entries,
        *numbers,
        *strides,
        *o.stride()[:2],
        *sizes,
        **queries_options(q, schedule.sizes),
    )
    tiles, entries = schedule.queries_of_keys
    _keys_kernel[(len(tiles) * heads,)](
        *inputs,
        d_windows,
        tiles,
        entries,
        schedule.gradient_rows,
        *numbers,
        *strides,
        *d_windows.stride()[:2],
        *sizes,
        **keys_options(q, schedule.sizes),
    )
    spread_gradients(d_windows, schedule)
    d_bias = None if buckets is None or sums is None else buckets.sum_by_bucket(sums)
    return dq, d_rows[:n], d_bias


@triton.jit
def _queries_kernel(
    q,
    windows,
    bias,
    log_sizes,
    grad,
    lse,
    delta,
    o,
    dq,
    sums,
    tiles,
    entries,
    n,
    heads,
    reach,
    farthest,
    scale,
    stride_qn,
    stride_qh,
    kv_stride,
    stride_kn,
    stride_kh,
    stride_gn,
    stride_gh,
    stride_on,
    stride_oh,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute dQ and D of a tile of queries, and its sums of dS by distance."""
    head = (tl.program_id(0) % heads).to(tl.int64)
    tile = tl.program_id(0) // heads
    first, _, count, begin, near_end, end = load_six(tiles, tile)
    k = windows + head * stride_kh
    v = k + kv_stride
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
        sums += (head * (tl.num_programs(0) // heads) + tile) * (2 * reach + 1) + reach
    q += head * stride_qh
    grad += head * stride_gh
    o += head * stride_oh
    # (QUERIES, WIDTH)
    queries = load_strided_tile(q, first, 1, count, stride_qn, QUERIES, HEAD_DIM, WIDTH)
    grads = load_strided_tile(grad, first, 1, count, stride_gn, QUERIES, HEAD_DIM, WIDTH)
    outs = load_strided_tile(o, first, 1, count, stride_on, QUERIES, HEAD_DIM, WIDTH)
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    index = head * n + first + query
    log_total = tl.load(lse + index, mask=query < count, other=float("inf"))
    d = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + index, d, mask=query < count)
    dq_tile = tl.zeros([QUERIES, WIDTH], tl.float32)
    sum_before = tl.zeros([QUERIES], tl.float32)
    sum_after = tl.zeros([QUERIES], tl.float32)

    before, after = far_biases(bias, reach)
    first_key, step, _, distance, _, _ = load_six(entries, tl.minimum(near_end, end - 1))
    for t in range(near_end, end):
        # (KEYS, WIDTH)
        keys = load_strided_tile(k, first_key, step, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_strided_tile(v, first_key, step, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        sizes = load_log_sizes(log_sizes, first_key, step, KEYS, KEYS)
        side = distance
        first_key, step, _, distance, _, _ = load_six(entries, tl.minimum(t + 1, end - 1))
        shift = log_total - tl.where(side < 0, before, after)
        scores = dot(queries, keys.T) * (scale * LOG2E) - shift[:, None]
        if log_sizes is not None:
            scores += sizes[None, :]
        weights = tl.exp2(scores)
        d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
        if bias is not None:
            total = tl.sum(d_scores, 1)
            sum_before += tl.where(side < 0, total, 0.0)
            sum_after += tl.where(side > 0, total, 0.0)

    near_before = tl.zeros([KEYS], tl.float32)
    near_after = tl.zeros([KEYS], tl.float32)
    for t in range(begin, near_end):
        first_key, step, num_keys, distance, _, _ = load_six(entries, t)
        # (KEYS, WIDTH)
        keys = load_strided_tile(k, first_key, step, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_strided_tile(v, first_key, step, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
        distances = distance + key[None, :] - query[:, None]
        products = dot(queries, keys.T)
        scores = near_scores(products, distances, (key < num_keys)[None, :], bias, scale * LOG2E)
        if log_sizes is not None:
            scores += load_log_sizes(log_sizes, first_key, step, num_keys, KEYS)[None, :]
        weights = tl.exp2(scores - log_total[:, None])
        d_scores, dq_tile = add_query_gradient(weights, grads, values, d, keys, dq_tile)
        if bias is not None:
            near_before, near_after = add_by_diagonal(
                sums, near_before, near_after, d_scores, distance, reach, QUERIES, KEYS
            )

    store_strided_tile(
        dq + head * stride_oh, dq_tile * scale, first, 1, count, stride_on, QUERIES, HEAD_DIM, WIDTH
    )
    if bias is not None:
        tl.store(sums - reach, tl.sum(sum_before) + tl.sum(near_before))
        tl.store(sums + reach, tl.sum(sum_after) + tl.sum(near_after))


@triton.jit
def _keys_kernel(
    q,
    windows,
    bias,
    log_sizes,
    grad,
    lse,
    delta,
    d_windows,
    tiles,
    entries,
    gradient_rows,
    n,
    heads,
    reach,
    farthest,
    scale,
    stride_qn,
    stride_qh,
    kv_stride,
    stride_kn,
    stride_kh,
    stride_gn,
    stride_gh,
    d_kv_stride,
    stride_dn,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Compute dK and dV of a tile of windows; scores are transposed: keys down.

    Tiles of queries are loaded in parts of `ROWS` rows.
    """
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, step, count, begin, near_end, end = load_six(tiles, tl.program_id(0) // heads)
    windows += head * stride_kh
    # (KEYS, WIDTH)
    keys = load_strided_tile(windows, first, step, count, stride_kn, KEYS, HEAD_DIM, WIDTH)
    windows += kv_stride
    # (KEYS, WIDTH)
    values = load_strided_tile(windows, first, step, count, stride_kn, KEYS, HEAD_DIM, WIDTH)
    sizes = load_log_sizes(log_sizes, first, step, count, KEYS)
    q += head * stride_qh
    grad += head * stride_gh
    lse += head * n
    delta += head * n
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
    parts: tl.constexpr = QUERIES // ROWS
    query, key = tl.arange(0, ROWS), tl.arange(0, KEYS)
    dk_tile = tl.zeros([KEYS, WIDTH], tl.float32)
    dv_tile = tl.zeros([KEYS, WIDTH], tl.float32)

    before, after = far_biases(bias, reach)
    first_query, _, num_queries, distance, met_from, met_to = load_six(
        entries, tl.minimum(near_end, end - 1)
    )
    for t in range(near_end * parts, end * parts):
        part = t % parts * ROWS
        row = part + query
        # (ROWS, WIDTH)
        queries = load_strided_tile(
            q, first_query + part, 1, num_queries - part, stride_qn, ROWS, HEAD_DIM, WIDTH
        )
        grads = load_strided_tile(
            grad, first_query + part, 1, num_queries - part, stride_gn, ROWS, HEAD_DIM, WIDTH
        )
        log_total = tl.load(lse + first_query + row, mask=row < num_queries, other=float("inf"))
        d = tl.load(delta + first_query + row, mask=row < num_queries, other=0.0)
        shift = log_total - tl.where(distance < 0, before, after)
        met = (key >= met_from) & (key < met_to)
        next_entry = tl.minimum((t + 1) // parts, end - 1)
        first_query, _, num_queries, distance, met_from, met_to = load_six(entries, next_entry)
        scores = dot(keys, queries.T) * (scale * LOG2E) - shift[None, :]
        if log_sizes is not None:
            scores += sizes[:, None]
        weights = tl.exp2(scores)
        weights = tl.where(met[:, None], weights, 0.0)
        _d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )

    for t in tl.range(
        begin * parts, near_end * parts, num_stages=1
    ):  # with more, fewer programs fit
        first_query, _, num_queries, distance, met_from, met_to = load_six(entries, t // parts)
        part = t % parts * ROWS
        row = part + query
        # (ROWS, WIDTH)
        queries = load_strided_tile(
            q, first_query + part, 1, num_queries - part, stride_qn, ROWS, HEAD_DIM, WIDTH
        )
        grads = load_strided_tile(
            grad, first_query + part, 1, num_queries - part, stride_gn, ROWS, HEAD_DIM, WIDTH
        )
        log_total = tl.load(lse + first_query + row, mask=row < num_queries, other=float("inf"))
        d = tl.load(delta + first_query + row, mask=row < num_queries, other=0.0)
        met = (key >= met_from) & (key < met_to)
        distances = distance + key[:, None] - row[None, :]
        scores = near_scores(dot(keys, queries.T), distances, met[:, None], bias, scale * LOG2E)
        if log_sizes is not None:
            scores += sizes[:, None]
        weights = tl.exp2(scores - log_total[None, :])
        _d_scores, dk_tile, dv_tile = add_key_gradients(
            weights, grads, values, d, queries, dk_tile, dv_tile
        )

    dk_tile *= scale
    d_windows += head * stride_kh
    gradient_rows += tl.program_id(0) // heads * 2
    first, step = tl.load(gradient_rows), tl.load(gradient_rows + 1)
    store_strided_tile(d_windows, dk_tile, first, step, count, stride_dn, KEYS, HEAD_DIM, WIDTH)
    d_windows += d_kv_stride
    store_strided_tile(d_windows, dv_tile, first, step, count, stride_dn, KEYS, HEAD_DIM, WIDTH)
