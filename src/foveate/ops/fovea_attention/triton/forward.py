# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of a tile of queries."""

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.card import padded_width
from foveate.ops._triton.math import LOG2E, dot
from foveate.ops._triton.softmax import begin_softmax, empty_outputs, update_softmax
from foveate.ops._triton.tiles import load_six, load_strided_tile, store_strided_tile

from .schedule import Schedule
from .tile import far_biases, forward_options, load_log_sizes, near_scores


def forward(
    q: Tensor,
    windows: Tensor,
    bias: Tensor | None,
    log_sizes: Tensor | None,
    schedule: Schedule,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Return outputs `(tokens, heads, head_dim)`, base-2 log-sum-exps `(heads, tokens)` float32.

    Args:
        q: Queries `(tokens, heads, head_dim)`.
        windows: Keys and values of all levels, `(2, windows, heads, head_dim)`.
        bias: Bias by distance of `DistanceBuckets.bias`.
        log_sizes: Added to the scores of each window in base 2, `(windows,)` float32.
        schedule: The tiles that meet.
        scale: Factor on the products.
    """
    n, heads, head_dim = q.shape
    o, lse = empty_outputs(q)
    tiles, entries = schedule.keys_of_queries
    _forward_kernel[(len(tiles) * heads,)](
        q,
        windows,
        bias,
        log_sizes,
        o,
        lse,
        tiles,
        entries,
        n,
        heads,
        schedule.reach,
        0 if bias is None else bias.shape[1] // 2,
        scale,
        *q.stride()[:2],
        *windows.stride()[:3],
        *o.stride()[:2],
        head_dim,
        padded_width(head_dim),
        *schedule.sizes,
        **forward_options(q, schedule.sizes),
    )
    return o, lse


@triton.jit
def _forward_kernel(
    q,
    windows,
    bias,
    log_sizes,
    o,
    lse,
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
    stride_on,
    stride_oh,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = (tl.program_id(0) % heads).to(tl.int64)
    first, _, count, begin, near_end, end = load_six(tiles, tl.program_id(0) // heads)
    k = windows + head * stride_kh
    v = k + kv_stride
    if bias is not None:
        bias += head * (2 * farthest + 1) + farthest
    scale *= LOG2E
    # (QUERIES, WIDTH)
    queries = load_strided_tile(
        q + head * stride_qh, first, 1, count, stride_qn, QUERIES, HEAD_DIM, WIDTH
    )
    query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    top, total, out = begin_softmax(QUERIES, WIDTH)

    before, after = far_biases(bias, reach)
    first_key, step, _, distance, _, _ = load_six(entries, tl.minimum(near_end, end - 1))
    for t in range(near_end, end):
        # (KEYS, WIDTH)
        keys = load_strided_tile(k, first_key, step, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_strided_tile(v, first_key, step, None, stride_kn, KEYS, HEAD_DIM, WIDTH)
        sizes = load_log_sizes(log_sizes, first_key, step, KEYS, KEYS)
        constant = tl.where(distance < 0, before, after)
        first_key, step, _, distance, _, _ = load_six(entries, tl.minimum(t + 1, end - 1))
        scores, factor = dot(queries, keys.T), scale
        if log_sizes is not None:
            scores, factor = scores * scale + sizes[None, :], 1.0
        top, total, out = update_softmax(
            scores, factor, constant, values, top, total, out, ALL_SEE=True
        )

    for t in range(begin, near_end):
        first_key, step, num_keys, distance, _, _ = load_six(entries, t)
        # (KEYS, WIDTH)
        keys = load_strided_tile(k, first_key, step, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
        values = load_strided_tile(v, first_key, step, num_keys, stride_kn, KEYS, HEAD_DIM, WIDTH)
        distances = distance + key[None, :] - query[:, None]
        scores = near_scores(
            dot(queries, keys.T), distances, (key < num_keys)[None, :], bias, scale
        )
        if log_sizes is not None:
            scores += load_log_sizes(log_sizes, first_key, step, num_keys, KEYS)[None, :]
        top, total, out = update_softmax(scores, 1.0, 0.0, values, top, total, out, ALL_SEE=True)

    total = tl.sum(total, 1)
    out *= (1 / total)[:, None]
    store_strided_tile(
        o + head * stride_oh, out, first, 1, count, stride_on, QUERIES, HEAD_DIM, WIDTH
    )
    tl.store(lse + head * n + first + query, top + tl.log2(total), mask=query < count)
