# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import LOG2E, dot, padded_width
from foveate.ops.relative_attention.triton.tables import tiles
from foveate.ops.relative_attention.triton.tile import (
    absorb,
    brought_near,
    load_rows,
    load_tile,
    store_rows,
)

from .launch import COUNTS, SideRows, Windows, forward_options, rows_of, strides_of
from .tile import edge_scores, edge_tile, existing, load_hidden, meeting, side_scores


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    windows: Windows,
    lengths: Sequence[int],
    side: SideRows | None,
    begun: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor]:
    """Outputs `(n, heads, head_dim)` and base-2 log-sum-exps `(heads, n)`, float32.

    The log-sum-exp of a query that sees no key is inf, which makes its weights 0.

    Args:
        q: queries.
        k: keys.
        v: values.
        windows: how pairs score.
        lengths: rows of each sequence.
        side: side rows that are still to be attended.
        begun: outputs and log-sum-exps of other keys, which are completed in place.
    """
    n, heads, head_dim = q.shape
    if begun is None:
        o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    else:
        o, lse = begun
    sizes, options = forward_options(q)
    others, size = (lengths, 0) if side is None else (side.lengths, side.size)
    table = tiles(lengths, others, *sizes, q.device)
    launch(
        _forward,
        table.shape[0] * heads,
        (q, k, v, o, lse, *rows_of(side), *windows.tensors, table),
        (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *strides_of(side)),
        (*windows.numbers, table.shape[0], n, heads),
        (begun is not None, head_dim, padded_width(head_dim), size, *sizes),
        **options,
    )
    return o, lse


@triton.jit(do_not_specialize=COUNTS)
def _forward(
    q,
    k,
    v,
    o,
    lse,
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
    head = (tl.program_id(0) // n_tiles).to(tl.int64)
    start, first, length, side_start, side_rows, _ = load_tile(tiles, tl.program_id(0) % n_tiles)
    q += start * q_row + head * q_head
    k += start * k_row + head * k_head
    v += start * v_row + head * v_head
    o_row = heads * HEAD_DIM
    o += start * o_row + head * HEAD_DIM
    lse += head * n + start
    if bias is not None:
        bias += head * (2 * middle + 1) + middle
    if hidden is not None:
        hidden += start
    scale *= LOG2E

    query = first + tl.arange(0, QUERIES)
    queries = load_rows(q, first, length, q_row, QUERIES, HEAD_DIM, WIDTH)
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH], tl.float32)
    if BEGUN:
        log_total = tl.load(lse + query, mask=query < length, other=float("inf"))
        seen = log_total < float("inf")
        top, total = tl.where(seen, log_total, top), seen.to(tl.float32)
        out = load_rows(o, first, length, o_row, QUERIES, HEAD_DIM, WIDTH).to(tl.float32)

    if side_k is not None:
        side_k += side_start * side_k_row + head * side_k_head
        side_v += side_start * side_v_row + head * side_v_head
        for t in tl.range(0, tl.cdiv(side_rows, SIDE), num_stages=1):
            keys = load_rows(side_k, t * SIDE, side_rows, side_k_row, SIDE, HEAD_DIM, WIDTH)
            values = load_rows(side_v, t * SIDE, side_rows, side_v_row, SIDE, HEAD_DIM, WIDTH)
            scores = side_scores(dot(queries, keys.T), t * SIDE, side_rows, scale, SIDE)
            top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)

    begin, stop, whole, edge = meeting(first, length, left, right, bias is not None, QUERIES, KEYS)
    for t in range(whole, edge):
        keys = load_rows(k, t * KEYS, None, k_row, KEYS, HEAD_DIM, WIDTH)
        values = load_rows(v, t * KEYS, None, v_row, KEYS, HEAD_DIM, WIDTH)
        products = dot(queries, keys.T)
        if hidden is None:
            top, total, out = absorb(products, scale, 0.0, values, top, total, out)
        else:
            scores = products * scale + load_hidden(hidden, t * KEYS, length, KEYS)[None, :]
            top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)
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
            scale,
        )
        top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)

    seen = total > 0
    total = tl.where(seen, total, 1.0)
    store_rows(o, out / total[:, None], first, length, o_row, QUERIES, HEAD_DIM, WIDTH)
    log_total = tl.where(seen, top + tl.log2(total), float("inf"))
    tl.store(lse + query, log_total, mask=query < length)
