# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.math import LOG2E, dot, padded_width

from .launch import forward_options
from .tables import Tables
from .tile import absorb, far_biases, load_rows, load_six, near_scores, store_rows


def forward(
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    tables: Tables,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Outputs `(n, heads, head_dim)` and base-2 log-sum-exps `(heads, n)`, float32.

    Args:
        q: queries `(n, heads, head_dim)`.
        windows: keys and values of all levels, `(2, rows, heads, head_dim)`.
        bias: of `Tables.by_distance`.
        tables: who attends whom.
        scale: factor on the products.
    """
    n, heads, head_dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    tiles, entries = tables.keys
    _forward[(len(tiles) * heads,)](
        *(q, windows, bias, o, lse, tiles, entries),
        *(n, heads, tables.reach, tables.furthest, scale),
        *(*q.stride()[:2], *windows.stride()[:3], *o.stride()[:2]),
        *(head_dim, padded_width(head_dim), *tables.tiles),
        **forward_options(q),
    )
    return o, lse


@triton.jit
def _forward(
    q,
    windows,
    bias,
    o,
    lse,
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
    o_row,
    o_head,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, _, count, begin, plain, end = load_six(tiles, tl.program_id(0) // heads)
    k = windows + head * k_head
    v = k + part_stride
    if bias is not None:
        bias += head * (2 * furthest + 1) + furthest
    scale *= LOG2E
    queries = load_rows(q + head * q_head, first, 1, count, q_row, HEAD_DIM, WIDTH, QUERIES)
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH], tl.float32)

    before, after = far_biases(bias, reach)
    place, step, _, distance, _, _ = load_six(entries, tl.minimum(plain, end - 1))
    for t in range(plain, end):
        keys = load_rows(k, place, step, None, k_row, HEAD_DIM, WIDTH, KEYS)
        values = load_rows(v, place, step, None, k_row, HEAD_DIM, WIDTH, KEYS)
        constant = tl.where(distance < 0, before, after)
        place, step, _, distance, _, _ = load_six(entries, tl.minimum(t + 1, end - 1))
        top, total, out = absorb(dot(queries, keys.T), scale, constant, values, top, total, out)

    for t in range(begin, plain):
        place, step, met, distance, _, _ = load_six(entries, t)
        keys = load_rows(k, place, step, met, k_row, HEAD_DIM, WIDTH, KEYS)
        values = load_rows(v, place, step, met, k_row, HEAD_DIM, WIDTH, KEYS)
        between = distance + key[None, :] - query[:, None]
        scores = near_scores(dot(queries, keys.T), between, (key < met)[None, :], bias, scale)
        top, total, out = absorb(scores, 1.0, 0.0, values, top, total, out)

    out /= total[:, None]
    store_rows(o + head * o_head, out, first, 1, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    tl.store(lse + head * n + first + query, top + tl.log2(total), mask=query < count)
