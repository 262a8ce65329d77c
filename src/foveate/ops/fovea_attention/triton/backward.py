# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernels.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D): dQ = scale · dS K,
dK = scale · dSᵀ Q, dV = Pᵀ dO, and the bias of a distance gets the sum of dS at that distance.
Every sum is one program's, in a fixed order: gradients are equal bit for bit from run to run.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops.kernels import LOG2E, dot, padded_width

from .launch import launch_options
from .pyramid import spread
from .tables import Near, Tables
from .tile import bias_of, load_rows, load_tile, scores_of, store_rows


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
    dq, d_windows = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty_like(windows)
    delta = torch.empty_like(lse)
    tiles, entries = tables.keys
    near = tables.near
    sides = None if near is None else torch.empty(heads, len(tiles), 2, device=q.device)
    inputs = (q, *windows, bias, grad, lse, delta)
    sizes = (n, heads, 0 if bias is None else bias.shape[1] // 2, scale)
    strides = (*q.stride()[:2], *windows.stride()[1:3], *grad.stride()[:2])
    shape = (head_dim, padded_width(head_dim), *tables.tiles)
    _of_queries[(len(tiles) * heads,)](
        *(*inputs, o, dq, sides, tiles, entries),
        *(*sizes, *strides, *o.stride()[:2], *shape),
        **launch_options(q),
    )
    tiles, entries = tables.queries
    _of_keys[(len(tiles) * heads,)](
        *(*inputs, *d_windows, tiles, entries, *sizes, *strides, *shape), **launch_options(q)
    )
    spread(d_windows, tables)
    dk, dv = d_windows[:, :n]
    if near is None or sides is None:
        return dq, dk, dv, None
    sums = torch.empty(len(near.runs), heads, *tables.tiles, device=q.device)
    _of_bias[(len(near.runs) * heads,)](
        *(*inputs, sums, near.pairs, near.runs, *sizes, *strides, *shape),
        **launch_options(q) | {"num_warps": 8},
    )
    return dq, dk, dv, _bias_gradient(sums, sides, near)


def _bias_gradient(sums: Tensor, sides: Tensor, near: Near) -> Tensor:
    """Sum the tiles of every distance along their diagonals, and these by bucket: the table's.

    Args:
        sums: `(runs, heads, queries of a tile, keys of a tile)`.
        sides: `(heads, tiles, 2)`, sums over plain tiles of keys before and after the queries.
        near: which distance a run, and which bucket a diagonal belongs to.
    """
    queries, keys = sums.shape[2:]
    by_distance = (near.of_distance @ sums.flatten(1)).view(-1, *sums.shape[1:])
    # Rows upside down, each shifted by one more: diagonals become columns.
    skewed = F.pad(by_distance.flip(-2), (0, queries)).flatten(-2)[..., :-queries]
    diagonals = skewed.unflatten(-1, (queries, queries + keys - 1)).sum(-2)
    of_heads = diagonals.movedim(1, 0).flatten(1) @ near.diagonals + sides.sum(1) @ near.sides
    return of_heads.T


@triton.jit
def _weights(
    a, b, lse, scale, bias, distance, reach, PLAIN: tl.constexpr, TRANSPOSED: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):  # fmt: skip
    """Attention weights, computed again."""
    scores = scores_of(a, b, scale, bias, distance, reach, PLAIN, TRANSPOSED, QUERIES, KEYS)
    return tl.exp2(scores - (lse[None, :] if TRANSPOSED else lse[:, None]))


@triton.jit
def _of_queries(
    q,
    k,
    v,
    bias,
    grad,
    lse,
    delta,
    o,
    dq,
    sides,
    tiles,
    entries,
    n,
    heads,
    reach,
    scale,
    q_row,
    q_head,
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
    """dQ and D of a tile of queries, and the sums of dS over plain tiles on both sides."""
    head = (tl.program_id(0) % heads).to(tl.int64)
    tile = tl.program_id(0) // heads
    first, _, count, begin, plain, end = load_tile(tiles, tile)
    k += head * k_head
    v += head * k_head
    if bias is not None:
        bias += head * (2 * reach + 1)
    queries = load_rows(q + head * q_head, first, 1, 0, count, q_row, HEAD_DIM, WIDTH, QUERIES)
    grads = load_rows(
        grad + head * grad_head, first, 1, 0, count, grad_row, HEAD_DIM, WIDTH, QUERIES
    )
    outs = load_rows(o + head * o_head, first, 1, 0, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    member = tl.arange(0, QUERIES)
    of_row = head * n + first + member
    log_total = tl.load(lse + of_row, mask=member < count, other=0.0)
    d = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    tl.store(delta + of_row, d, mask=member < count)
    dqs = tl.zeros([QUERIES, WIDTH], tl.float32)
    before = tl.zeros([QUERIES], tl.float32)
    after = tl.zeros([QUERIES], tl.float32)
    for entry in tl.range(begin, plain, num_stages=1):
        ds, keys, distance = _of_pair(
            *(queries, grads, k, v, bias, log_total, d),
            *(entries + 6 * entry, reach, scale, k_row),
            *(False, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
        dqs = dot(ds.to(keys.dtype), keys, dqs)
    for entry in range(plain, end):
        ds, keys, distance = _of_pair(
            *(queries, grads, k, v, bias, log_total, d),
            *(entries + 6 * entry, reach, scale, k_row),
            *(True, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
        dqs = dot(ds.to(keys.dtype), keys, dqs)
        if bias is not None:
            of_rows = tl.sum(ds, 1)
            before += tl.where(distance < 0, of_rows, 0.0)
            after += tl.where(distance > 0, of_rows, 0.0)
    store_rows(dq + head * o_head, dqs * scale, first, 1, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    if bias is not None:
        real = member < count
        sides += 2 * (head * (tl.num_programs(0) // heads) + tile)
        tl.store(sides, tl.sum(tl.where(real, before, 0.0), 0))
        tl.store(sides + 1, tl.sum(tl.where(real, after, 0.0), 0))


@triton.jit
def _of_pair(
    queries,
    grads,
    k,
    v,
    bias,
    lse,
    delta,
    entry,
    reach,
    scale,
    k_row,
    PLAIN: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """DS of a tile of queries and one of keys; the keys; their distance."""
    first, step, count = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2)
    distance = tl.load(entry + 3)
    keys = load_rows(k, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    values = load_rows(v, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    weights = _weights(
        queries, keys, lse, scale, bias, distance, reach, PLAIN, False, QUERIES, KEYS
    )
    if not PLAIN:
        weights = tl.where((tl.arange(0, KEYS) < count)[None, :], weights, 0.0)
    return weights * (dot(grads, values.T) - delta[:, None]), keys, distance


@triton.jit
def _of_keys(
    q,
    k,
    v,
    bias,
    grad,
    lse,
    delta,
    dk,
    dv,
    tiles,
    entries,
    n,
    heads,
    reach,
    scale,
    q_row,
    q_head,
    k_row,
    k_head,
    grad_row,
    grad_head,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """dK and dV of a tile of tokens or windows."""
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, step, count, begin, plain, end = load_tile(tiles, tl.program_id(0) // heads)
    here = head * k_head
    keys = load_rows(k + here, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    values = load_rows(v + here, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    q += head * q_head
    grad += head * grad_head
    lse += head * n
    delta += head * n
    if bias is not None:
        bias += head * (2 * reach + 1)
    dks = tl.zeros([KEYS, WIDTH], tl.float32)
    dvs = tl.zeros([KEYS, WIDTH], tl.float32)
    for entry in tl.range(begin, plain, num_stages=1):
        dks, dvs = _of_met(
            *(keys, values, q, grad, lse, delta, bias, entries + 6 * entry, reach, scale),
            *(q_row, grad_row, dks, dvs, False, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
    for entry in range(plain, end):
        dks, dvs = _of_met(
            *(keys, values, q, grad, lse, delta, bias, entries + 6 * entry, reach, scale),
            *(q_row, grad_row, dks, dvs, True, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
    dks *= scale
    store_rows(dk + here, dks, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)
    store_rows(dv + here, dvs, first, step, count, k_row, HEAD_DIM, WIDTH, KEYS)


@triton.jit
def _of_met(
    keys,
    values,
    q,
    grad,
    lse,
    delta,
    bias,
    entry,
    reach,
    scale,
    q_row,
    grad_row,
    dks,
    dvs,
    PLAIN: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Add what one tile of queries gives to those of its keys that it meets."""
    first, count, distance = tl.load(entry), tl.load(entry + 2), tl.load(entry + 3)
    met_from, met_to = tl.load(entry + 4), tl.load(entry + 5)
    queries = load_rows(q, first, 1, 0, count, q_row, HEAD_DIM, WIDTH, QUERIES)
    grads = load_rows(grad, first, 1, 0, count, grad_row, HEAD_DIM, WIDTH, QUERIES)
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    log_total = tl.load(lse + first + query, mask=query < count, other=float("inf"))
    d = tl.load(delta + first + query, mask=query < count, other=0.0)
    weights = _weights(
        keys, queries, log_total, scale, bias, distance, reach, PLAIN, True, QUERIES, KEYS
    )
    weights = tl.where(((key >= met_from) & (key < met_to))[:, None], weights, 0.0)
    dvs = dot(weights.to(grads.dtype), grads, dvs)
    ds = weights * (dot(values, grads.T) - d[None, :])
    return dot(ds.to(queries.dtype), queries, dks), dvs


@triton.jit
def _of_bias(
    q,
    k,
    v,
    bias,
    grad,
    lse,
    delta,
    sums,
    pairs,
    runs,
    n,
    heads,
    reach,
    scale,
    q_row,
    q_head,
    k_row,
    k_head,
    grad_row,
    grad_head,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Sum of dS over the pairs of a run, which are of one distance: a tile."""
    head = (tl.program_id(0) % heads).to(tl.int64)
    run = tl.program_id(0) // heads
    k += head * k_head
    v += head * k_head
    bias += head * (2 * reach + 1)
    q += head * q_head
    grad += head * grad_head
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    begin, end = tl.load(runs + 2 * run), tl.load(runs + 2 * run + 1)
    distance = tl.load(pairs + 6 * begin + 5)
    biases = bias_of(bias, distance, reach, False, False, QUERIES, KEYS)
    total = tl.zeros([QUERIES, KEYS], tl.float32)
    for pair in range(begin, end):
        first, count = tl.load(pairs + 6 * pair), tl.load(pairs + 6 * pair + 1)
        queries = load_rows(q, first, 1, 0, count, q_row, HEAD_DIM, WIDTH, QUERIES)
        grads = load_rows(grad, first, 1, 0, count, grad_row, HEAD_DIM, WIDTH, QUERIES)
        of_row = head * n + first + query
        log_total = tl.load(lse + of_row, mask=query < count, other=float("inf"))
        d = tl.load(delta + of_row, mask=query < count, other=0.0)
        first, step = tl.load(pairs + 6 * pair + 2), tl.load(pairs + 6 * pair + 3)
        count = tl.load(pairs + 6 * pair + 4)
        keys = load_rows(k, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
        values = load_rows(v, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
        scores = dot(queries, keys.T) * (scale * LOG2E) + biases
        weights = tl.exp2(scores - log_total[:, None])
        weights = tl.where((key < count)[None, :], weights, 0.0)
        total += weights * (dot(grads, values.T) - d[:, None])
    place = sums + (run * heads + head) * QUERIES * KEYS
    tl.store(place + query[:, None] * KEYS + key[None, :], total)
