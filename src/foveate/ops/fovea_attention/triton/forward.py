# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops.kernels import dot, padded_width

from .launch import launch_options
from .tables import Tables
from .tile import load_rows, load_tile, scores_of, store_rows


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
        bias: by distance, `(heads, 2 · reach + 1)` float32.
        tables: who attends whom.
        scale: factor on the products.
    """
    n, heads, head_dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    tiles, entries = tables.keys
    _forward[(len(tiles) * heads,)](
        *(q, *windows, bias, o, lse, tiles, entries),
        *(n, heads, 0 if bias is None else bias.shape[1] // 2, scale),
        *(*q.stride()[:2], *windows.stride()[1:3], *o.stride()[:2]),
        *(head_dim, padded_width(head_dim), *tables.tiles),
        **launch_options(q),
    )
    return o, lse


@triton.jit
def _forward(
    q,
    k,
    v,
    bias,
    o,
    lse,
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
    o_row,
    o_head,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, _, count, begin, plain, end = load_tile(tiles, tl.program_id(0) // heads)
    k += head * k_head
    v += head * k_head
    if bias is not None:
        bias += head * (2 * reach + 1)
    queries = load_rows(q + head * q_head, first, 1, 0, count, q_row, HEAD_DIM, WIDTH, QUERIES)
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH], tl.float32)
    for entry in tl.range(begin, plain, num_stages=1):
        top, total, out = _attend(
            *(queries, k, v, bias, entries + 6 * entry, reach, scale, k_row, top, total, out),
            *(False, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
    for entry in range(plain, end):
        top, total, out = _attend(
            *(queries, k, v, bias, entries + 6 * entry, reach, scale, k_row, top, total, out),
            *(True, HEAD_DIM, WIDTH, QUERIES, KEYS),
        )
    out /= total[:, None]
    store_rows(o + head * o_head, out, first, 1, count, o_row, HEAD_DIM, WIDTH, QUERIES)
    member = tl.arange(0, QUERIES)
    tl.store(lse + head * n + first + member, top + tl.log2(total), mask=member < count)


@triton.jit
def _attend(
    queries,
    k,
    v,
    bias,
    entry,
    reach,
    scale,
    k_row,
    top,
    total,
    out,
    PLAIN: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Add what the queries see in one tile, rescaling as the maximum rises."""
    first, step, count = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2)
    distance = tl.load(entry + 3)
    keys = load_rows(k, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    values = load_rows(v, first, step, 0, count, k_row, HEAD_DIM, WIDTH, KEYS)
    scores = scores_of(queries, keys, scale, bias, distance, reach, PLAIN, False, QUERIES, KEYS)
    if not PLAIN:
        scores = tl.where((tl.arange(0, KEYS) < count)[None, :], scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    weights = tl.exp2(scores - new_top[:, None])
    fade = tl.exp2(top - new_top)
    out = dot(weights.to(values.dtype), values, out * fade[:, None])
    return new_top, total * fade + tl.sum(weights, 1), out
