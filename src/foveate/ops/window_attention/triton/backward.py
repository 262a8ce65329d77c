# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803, N806
# mypy: disable-error-code=no-untyped-def
"""The backward kernels: one finishes tiles of queries, the other tiles of keys.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D):
dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO, and the bias's gradient is the sum of dS over the
pairs at a distance. A program owns the rows it writes and adds in a fixed order: gradients are
equal bit for bit from run to run.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, padded_width
from foveate.ops.relative_attention.triton.sums import add_by_diagonal
from foveate.ops.relative_attention.triton.tables import tiles
from foveate.ops.relative_attention.triton.tile import (
    brought_near,
    load_rows,
    load_tile,
    store_rows,
)

from .launch import COUNTS, SideRows, Windows, keys_options, queries_options, rows_of, strides_of
from .tables import CHUNK, key_tiles
from .tile import edge_scores, edge_tile, existing, load_hidden, meeting, side_scores


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    windows: Windows,
    lengths: Sequence[int],
    side: SideRows | None,
    begun: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of q, k, v, of the side rows and of the table of buckets, from the output's.

    Args:
        grad: gradient of the output.
        q: queries.
        k: keys.
        v: values.
        o: the output.
        lse: log-sum-exps, see `forward`.
        windows: how pairs score.
        lengths: rows of each sequence.
        side: side rows that `forward` attended.
        begun: what other keys give to the gradient of q, which is completed in place.

    Returns:
        dq, dk, dv; those of the side rows' keys and values, `(2, side_rows, heads, head_dim)`
        float32, and of the table, float64, each None if there is nothing that has it.
    """
    n, heads, head_dim = q.shape
    dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(2))
    dq = torch.empty_like(dk) if begun is None else begun
    delta = torch.empty_like(lse)
    strides = *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2]
    strides += strides_of(side)
    widths = head_dim, padded_width(head_dim)
    sizes, options = queries_options(q)
    others, size = (lengths, 0) if side is None else (side.lengths, side.size)
    table = tiles(lengths, others, *sizes, q.device)
    found, sums = windows.scoring.distances, None
    if found is not None:
        sums = torch.zeros(heads, len(table), 2 * found.reach + 1, device=q.device)
    launch(
        _queries,
        len(table) * heads,
        (q, k, v, o, grad, lse, delta, dq, sums, *rows_of(side), *windows.tensors, table),
        strides,
        (*windows.numbers, len(table), n, heads),
        (begun is not None, *widths, size, *sizes),
        **options,
    )
    sizes, options = keys_options(q)
    table = key_tiles(lengths, None if side is None else side.lengths, sizes[1], q.device)
    parts, n_side = None, 0
    if side is not None:
        chunks, n_side = triton.cdiv(max(lengths), CHUNK), len(side.k)
        parts = torch.zeros(chunks, 2, *side.k.shape, dtype=torch.float32, device=q.device)
    launch(
        _keys,
        len(table) * heads,
        (q, k, v, grad, lse, delta, dk, dv, parts, *rows_of(side), *windows.tensors, table),
        strides,
        (*windows.numbers, len(table), n, heads, n_side),
        (*widths, CHUNK, *sizes),
        **options,
    )
    d_side = None if parts is None else parts.sum(0)
    if found is None or sums is None:
        return dq, dk, dv, d_side, None
    # A product for each entry, since a matrix product of this shape takes seven times as long.
    return dq, dk, dv, d_side, (found.in_bucket[:, None] * sums.sum(1)).sum(-1)


@triton.jit(do_not_specialize=COUNTS)
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
    side_k,
    side_v,
    bias,
    hidden,
    tiles,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
    side_k_row,
    side_k_head,
    side_v_row,
    side_v_head,
    left,
    right,
    reach,
    middle,
    scale,
    n_tiles,
    n,
    heads,
    BEGUN: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Queries' gradient and D, and a tile's sums of dS by distance."""
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    start, first, length, side_start, side_rows, _ = load_tile(tiles, tile)
    q += start * q_row + head * q_head
    k += start * k_row + head * k_head
    v += start * v_row + head * v_head
    o_row = heads * HEAD_DIM
    o += start * o_row + head * HEAD_DIM
    dq += start * o_row + head * HEAD_DIM
    grad += start * grad_row + head * grad_head
    lse += head * n + start
    delta += head * n + start
    if bias is not None:
        bias += head * (2 * middle + 1) + middle
        sums += (head * n_tiles + tile) * (2 * reach + 1) + reach
    if hidden is not None:
        hidden += start

    query = first + tl.arange(0, QUERIES)
    queries = load_rows(q, first, length, q_row, QUERIES, HEAD_DIM, WIDTH)
    grads = load_rows(grad, first, length, grad_row, QUERIES, HEAD_DIM, WIDTH)
    outs = load_rows(o, first, length, o_row, QUERIES, HEAD_DIM, WIDTH)
    log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
    mean = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + query, mean, mask=query < length)
    dq_rows = tl.zeros([QUERIES, WIDTH], tl.float32)

    if side_k is not None:
        side_k += side_start * side_k_row + head * side_k_head
        side_v += side_start * side_v_row + head * side_v_head
        for t in tl.range(0, tl.cdiv(side_rows, SIDE), num_stages=1):
            keys = load_rows(side_k, t * SIDE, side_rows, side_k_row, SIDE, HEAD_DIM, WIDTH)
            values = load_rows(side_v, t * SIDE, side_rows, side_v_row, SIDE, HEAD_DIM, WIDTH)
            products = dot(queries, keys.T)
            scores = side_scores(products, t * SIDE, side_rows, scale * LOG2E, SIDE)
            weights = tl.exp2(scores - log_total[:, None])
            slopes = weights * (dot(grads, values.T) - mean[:, None])
            dq_rows = dot(slopes.to(keys.dtype), keys, dq_rows)

    begin, stop, whole, edge = meeting(first, length, left, right, bias is not None, QUERIES, KEYS)
    for t in range(whole, edge):
        keys = load_rows(k, t * KEYS, None, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, t * KEYS, None, v_row, KEYS, HEAD_DIM, WIDTH)
        scores = dot(queries, keys.T) * (scale * LOG2E)
        if hidden is not None:
            scores += load_hidden(hidden, t * KEYS, length, KEYS)[None, :]
        weights = tl.exp2(scores - log_total[:, None])
        slopes = weights * (dot(grads, values.T) - mean[:, None])
        dq_rows = dot(slopes.to(keys.dtype), keys, dq_rows)
    before = tl.zeros([KEYS], tl.float32)
    after = tl.zeros([KEYS], tl.float32)
    for t in range(begin, stop - (edge - whole)):
        other = edge_tile(t, whole, edge) * KEYS
        key = other + tl.arange(0, KEYS)
        keys = load_rows(k, other, length, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, other, length, v_row, KEYS, HEAD_DIM, WIDTH)
        nearby = brought_near(other, first, reach, QUERIES, KEYS)
        of_keys = None
        if hidden is not None:
            of_keys = load_hidden(hidden, other, length, KEYS)[None, :]
        scores = edge_scores(
            dot(queries, keys.T),
            query[:, None],
            existing(key, length)[None, :],
            (nearby + tl.arange(0, KEYS))[None, :] - query[:, None],
            of_keys,
            bias,
            left,
            right,
            scale * LOG2E,
        )
        weights = tl.exp2(scores - log_total[:, None])
        slopes = weights * (dot(grads, values.T) - mean[:, None])
        dq_rows = dot(slopes.to(keys.dtype), keys, dq_rows)
        if bias is not None:
            before, after = add_by_diagonal(
                sums, before, after, slopes, nearby - first, reach, QUERIES, KEYS
            )
    if bias is not None:
        tl.store(sums - reach, tl.sum(before))
        tl.store(sums + reach, tl.sum(after))

    dq_rows *= scale
    if BEGUN:
        dq_rows += load_rows(dq, first, length, o_row, QUERIES, HEAD_DIM, WIDTH).to(tl.float32)
    store_rows(dq, dq_rows, first, length, o_row, QUERIES, HEAD_DIM, WIDTH)


@triton.jit(do_not_specialize=COUNTS)
def _keys(
    q,
    k,
    v,
    grad,
    lse,
    delta,
    dk,
    dv,
    parts,
    side_k,
    side_v,
    bias,
    hidden,
    tiles,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
    side_k_row,
    side_k_head,
    side_v_row,
    side_v_head,
    left,
    right,
    reach,
    middle,
    scale,
    n_tiles,
    n,
    heads,
    n_side,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Gradients of a tile of keys and values. Scores are transposed: keys down, queries across.

    Those of side rows are sums over a chunk of the queries.
    """
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    start, first, n_keys, key_start, length, chunk = load_tile(tiles, tl.program_id(0) % n_tiles)
    of_side = chunk >= 0
    q += start * q_row + head * q_head
    k += start * k_row + head * k_head
    v += start * v_row + head * v_head
    grad += start * grad_row + head * grad_head
    lse += head * n + start
    delta += head * n + start
    if bias is not None:
        bias += head * (2 * middle + 1) + middle
    of_keys = None
    if hidden is not None:
        of_keys = load_hidden(hidden + start, first, length, KEYS)[:, None]

    key = first + tl.arange(0, KEYS)
    in_sequence = tl.where(of_side, 0, n_keys)
    keys = load_rows(k, first, in_sequence, k_row, KEYS, HEAD_DIM, WIDTH)
    values = load_rows(v, first, in_sequence, v_row, KEYS, HEAD_DIM, WIDTH)
    begin, stop, whole, edge = meeting(first, length, right, left, bias is not None, KEYS, QUERIES)
    if side_k is not None:
        side_k += key_start * side_k_row + head * side_k_head
        side_v += key_start * side_v_row + head * side_v_head
        if of_side:
            keys = load_rows(side_k, first, n_keys, side_k_row, KEYS, HEAD_DIM, WIDTH)
            values = load_rows(side_v, first, n_keys, side_v_row, KEYS, HEAD_DIM, WIDTH)
            begin = chunk * (CHUNK // QUERIES)
            stop = tl.cdiv(tl.minimum((chunk + 1) * CHUNK, length), QUERIES)
            whole, edge = begin, tl.minimum(stop, length // QUERIES)
        left, right = tl.where(of_side, 1 << 29, left), tl.where(of_side, 1 << 29, right)
        if hidden is not None:
            of_keys = tl.where(of_side, 0.0, of_keys)
    dk_rows = tl.zeros([KEYS, WIDTH], tl.float32)
    dv_rows = tl.zeros([KEYS, WIDTH], tl.float32)

    for t in range(whole, edge):
        query = t * QUERIES + tl.arange(0, QUERIES)
        queries = load_rows(q, t * QUERIES, None, q_row, QUERIES, HEAD_DIM, WIDTH)
        grads = load_rows(grad, t * QUERIES, None, grad_row, QUERIES, HEAD_DIM, WIDTH)
        scores = dot(keys, queries.T) * (scale * LOG2E)
        if hidden is not None:
            scores += of_keys
        weights = tl.exp2(scores - tl.load(lse + query)[None, :])
        dv_rows = dot(weights.to(grads.dtype), grads, dv_rows)
        slopes = weights * (dot(values, grads.T) - tl.load(delta + query)[None, :])
        dk_rows = dot(slopes.to(queries.dtype), queries, dk_rows)
    STAGES: tl.constexpr = None if bias is None else 1  # more would take room of programs
    for t in tl.range(begin, stop - (edge - whole), num_stages=STAGES):
        other = edge_tile(t, whole, edge) * QUERIES
        query = other + tl.arange(0, QUERIES)
        queries = load_rows(q, other, length, q_row, QUERIES, HEAD_DIM, WIDTH)
        grads = load_rows(grad, other, length, grad_row, QUERIES, HEAD_DIM, WIDTH)
        log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
        mean = tl.load(delta + query, mask=query < length, other=0.0)
        nearby = brought_near(other, first, reach, KEYS, QUERIES)
        scores = edge_scores(
            dot(keys, queries.T),
            query[None, :],
            key[:, None],
            key[:, None] - (nearby + tl.arange(0, QUERIES))[None, :],
            of_keys,
            bias,
            left,
            right,
            scale * LOG2E,
        )
        weights = tl.exp2(scores - log_total[None, :])
        dv_rows = dot(weights.to(grads.dtype), grads, dv_rows)
        slopes = weights * (dot(values, grads.T) - mean[None, :])
        dk_rows = dot(slopes.to(queries.dtype), queries, dk_rows)

    o_row = heads * HEAD_DIM
    dk += start * o_row + head * HEAD_DIM
    dv += start * o_row + head * HEAD_DIM
    store_rows(dk, dk_rows * scale, first, in_sequence, o_row, KEYS, HEAD_DIM, WIDTH)
    store_rows(dv, dv_rows, first, in_sequence, o_row, KEYS, HEAD_DIM, WIDTH)
    if side_k is not None:  # noqa: SIM102, known when the kernel is compiled
        if of_side:
            parts += (2 * chunk.to(tl.int64) * n_side + key_start) * o_row + head * HEAD_DIM
            store_rows(parts, dk_rows * scale, first, n_keys, o_row, KEYS, HEAD_DIM, WIDTH)
            parts += n_side.to(tl.int64) * o_row
            store_rows(parts, dv_rows, first, n_keys, o_row, KEYS, HEAD_DIM, WIDTH)
