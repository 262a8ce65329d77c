# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernels.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D): dQ = scale · dS K,
dK = scale · dSᵀ Q, dV = Pᵀ dO, and the bias of a distance gets the sum of dS at that distance.
Every sum is one program's, in a fixed order: gradients are equal bit for bit from run to run.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.math import LOG2E, dot, padded_width
from foveate.ops.relative_attention.triton.sums import add_by_diagonal

from .launch import keys_options, queries_options
from .pyramid import spread
from .tables import Tables
from .tile import (
    far_biases,
    load_rows,
    load_six,
    near_scores,
    store_rows,
)


def backward(
    grad: Tensor,
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    o: Tensor,
    lse: Tensor,
    tables: Tables,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and the table of biases; other arguments as of `forward`."""
    n, heads, head_dim = q.shape
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    d_windows = windows.new_empty(2, tables.target_ends[-1], heads, head_dim)
    delta = torch.empty_like(lse)
    tiles, entries = tables.keys
    found, sums = tables.distances, None
    if found is not None:
        sums = torch.zeros(heads, len(tiles), 2 * tables.reach + 1, device=q.device)
    inputs = (q, windows, bias, grad, lse, delta)
    sizes = (n, heads, tables.reach, tables.furthest, scale)
    strides = (*q.stride()[:2], *windows.stride()[:3], *grad.stride()[:2])
    shape = (head_dim, padded_width(head_dim), *tables.tiles)
    _of_queries[(len(tiles) * heads,)](
        *(*inputs, o, dq, sums, tiles, entries, *sizes, *strides, *o.stride()[:2], *shape),
        **queries_options(q),
    )
    tiles, entries = tables.queries
    _of_keys[(len(tiles) * heads,)](
        *(*inputs, d_windows, tiles, entries, tables.targets, *sizes, *strides),
        *(d_windows.stride(0), *shape),
        **keys_options(q, tables.tiles.queries),
    )
    spread(d_windows, tables)
    d_bias = None if found is None or sums is None else found.by_bucket(sums)
    return dq, d_windows[0, :n], d_windows[1, :n], d_bias


@triton.jit
def _of_queries(
    q,
    windows,
    bias,
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
    furthest,
    scale,
    q_row,
    q_head,
    part_stride,
    k_row,
    k_head,
    grad_row,
    grad_head,
    o_row,
    o_head,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """DQ and D of a tile of queries, and its sums of dS by distance."""
    head = (tl.program_id(0) % heads).to(tl.int64)
    tile = tl.program_id(0) // heads
    first, _, count, begin, plain, end = load_six(tiles, tile)
    k = windows + head * k_head
    v = k + part_stride
    if bias is not None:
        bias += head * (2 * furthest + 1) + furthest
        sums += (head * (tl.num_programs(0) // heads) + tile) * (2 * reach + 1) + reach
    q += head * q_head
    grad += head * grad_head
    o += head * o_head
    queries = load_rows(q, first, 1, count, q_row, HEAD_DIM, WIDTH, QUERIES)
    grads = load_rows(grad, first, 1, count, grad_row, HEAD_DIM, WIDTH, QUERIES)
    outs = load_rows(o, first, 1, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    of_row = head * n + first + query
    log_total = tl.load(lse + of_row, mask=query < count, other=float("inf"))
    d = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + of_row, d, mask=query < count)
    dqs = tl.zeros([QUERIES, WIDTH], tl.float32)
    sum_before = tl.zeros([QUERIES], tl.float32)
    sum_after = tl.zeros([QUERIES], tl.float32)

    before, after = far_biases(bias, reach)
    place, step, _, distance, _, _ = load_six(entries, tl.minimum(plain, end - 1))
    for t in range(plain, end):
        keys = load_rows(k, place, step, None, k_row, HEAD_DIM, WIDTH, KEYS)
        values = load_rows(v, place, step, None, k_row, HEAD_DIM, WIDTH, KEYS)
        side = distance
        place, step, _, distance, _, _ = load_six(entries, tl.minimum(t + 1, end - 1))
        shift = log_total - tl.where(side < 0, before, after)
        weights = tl.exp2(dot(queries, keys.T) * (scale * LOG2E) - shift[:, None])
        slopes = weights * (dot(grads, values.T) - d[:, None])
        dqs = dot(slopes.to(keys.dtype), keys, dqs)
        if bias is not None:
            of_rows = tl.sum(slopes, 1)
            sum_before += tl.where(side < 0, of_rows, 0.0)
            sum_after += tl.where(side > 0, of_rows, 0.0)

    near_before = tl.zeros([KEYS], tl.float32)
    near_after = tl.zeros([KEYS], tl.float32)
    for t in range(begin, plain):
        place, step, met, distance, _, _ = load_six(entries, t)
        keys = load_rows(k, place, step, met, k_row, HEAD_DIM, WIDTH, KEYS)
        values = load_rows(v, place, step, met, k_row, HEAD_DIM, WIDTH, KEYS)
        between = distance + key[None, :] - query[:, None]
        products = dot(queries, keys.T)
        scores = near_scores(products, between, (key < met)[None, :], bias, scale * LOG2E)
        weights = tl.exp2(scores - log_total[:, None])
        slopes = weights * (dot(grads, values.T) - d[:, None])
        dqs = dot(slopes.to(keys.dtype), keys, dqs)
        if bias is not None:
            near_before, near_after = add_by_diagonal(
                sums, near_before, near_after, slopes, distance, reach, QUERIES, KEYS
            )

    store_rows(dq + head * o_head, dqs * scale, first, 1, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    if bias is not None:
        tl.store(sums - reach, tl.sum(sum_before) + tl.sum(near_before))
        tl.store(sums + reach, tl.sum(sum_after) + tl.sum(near_after))


@triton.jit
def _of_keys(
    q,
    windows,
    bias,
    grad,
    lse,
    delta,
    d_windows,
    tiles,
    entries,
    targets,
    n,
    heads,
    reach,
    furthest,
    scale,
    q_row,
    q_head,
    part_stride,
    k_row,
    k_head,
    grad_row,
    grad_head,
    d_part_stride,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """DK and dV of a tile of tokens or windows; scores are transposed: keys down.

    Tiles of queries are taken in parts, `ROWS` rows at a time.
    """
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, step, count, begin, plain, end = load_six(tiles, tl.program_id(0) // heads)
    windows += head * k_head
    keys = load_rows(windows, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)
    windows += part_stride
    values = load_rows(windows, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)
    q += head * q_head
    grad += head * grad_head
    lse += head * n
    delta += head * n
    if bias is not None:
        bias += head * (2 * furthest + 1) + furthest
    parts: tl.constexpr = QUERIES // ROWS
    query, key = tl.arange(0, ROWS), tl.arange(0, KEYS)
    dks = tl.zeros([KEYS, WIDTH], tl.float32)
    dvs = tl.zeros([KEYS, WIDTH], tl.float32)

    before, after = far_biases(bias, reach)
    place, _, there, distance, met_from, met_to = load_six(entries, tl.minimum(plain, end - 1))
    for t in range(plain * parts, end * parts):
        part = t % parts * ROWS
        here = part + query
        queries = load_rows(q, place + part, 1, there - part, q_row, HEAD_DIM, WIDTH, ROWS)
        grads = load_rows(grad, place + part, 1, there - part, grad_row, HEAD_DIM, WIDTH, ROWS)
        log_total = tl.load(lse + place + here, mask=here < there, other=float("inf"))
        d = tl.load(delta + place + here, mask=here < there, other=0.0)
        shift = log_total - tl.where(distance < 0, before, after)
        met = (key >= met_from) & (key < met_to)
        following = tl.minimum((t + 1) // parts, end - 1)
        place, _, there, distance, met_from, met_to = load_six(entries, following)
        weights = tl.exp2(dot(keys, queries.T) * (scale * LOG2E) - shift[None, :])
        weights = tl.where(met[:, None], weights, 0.0)
        dvs = dot(weights.to(grads.dtype), grads, dvs)
        slopes = weights * (dot(values, grads.T) - d[None, :])
        dks = dot(slopes.to(queries.dtype), queries, dks)

    for t in tl.range(begin * parts, plain * parts, num_stages=1):  # more take room of programs
        place, _, there, distance, met_from, met_to = load_six(entries, t // parts)
        part = t % parts * ROWS
        here = part + query
        queries = load_rows(q, place + part, 1, there - part, q_row, HEAD_DIM, WIDTH, ROWS)
        grads = load_rows(grad, place + part, 1, there - part, grad_row, HEAD_DIM, WIDTH, ROWS)
        log_total = tl.load(lse + place + here, mask=here < there, other=float("inf"))
        d = tl.load(delta + place + here, mask=here < there, other=0.0)
        met = (key >= met_from) & (key < met_to)
        between = distance + key[:, None] - here[None, :]
        scores = near_scores(dot(keys, queries.T), between, met[:, None], bias, scale * LOG2E)
        weights = tl.exp2(scores - log_total[None, :])
        dvs = dot(weights.to(grads.dtype), grads, dvs)
        slopes = weights * (dot(values, grads.T) - d[None, :])
        dks = dot(slopes.to(queries.dtype), queries, dks)

    dks *= scale
    d_windows += head * k_head
    targets += tl.program_id(0) // heads * 2
    first, step = tl.load(targets), tl.load(targets + 1)
    store_rows(d_windows, dks, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)
    d_windows += d_part_stride
    store_rows(d_windows, dvs, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)
