# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803, N806
# mypy: disable-error-code=no-untyped-def
"""Build the windows of each level from the level below, and pass gradients back down."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.card import padded_width
from foveate.ops._triton.math import cdiv
from foveate.ops._triton.tiles import row_pointers, tile_mask

from .schedule import RUN, Schedule

_ROWS = 32
"""Windows of a level that one program computes from those below or above."""


def build_windows(k: Tensor, v: Tensor, schedule: Schedule) -> Tensor:
    """Average keys and values over the windows of all levels, of which level 0 is the tokens.

    Returns:
        Keys and values of all levels, `(2, windows, heads, head_dim)` in the dtype of `k`.
    """
    _, heads, head_dim = k.shape
    ends = schedule.level_ends
    windows = torch.empty(2, ends[-1], heads, head_dim, dtype=k.dtype, device=k.device)
    num_runs, columns = schedule.runs.shape
    _average_kernel[(num_runs, heads, 2)](
        k,
        v,
        windows,
        schedule.runs,
        *k.stride()[:2],
        *v.stride()[:2],
        *windows.stride()[:3],
        columns - 2,
        head_dim,
        padded_width(head_dim),
        RUN,
        num_warps=1,
    )
    for level, (halves, shares) in enumerate(schedule.halves, start=columns - 1):
        below, target = (windows[:, slice(*_bounds(ends, i))] for i in (level - 1, level))
        _combine(below, target, halves, shares, False)
    return windows


def spread_gradients(d_windows: Tensor, schedule: Schedule) -> None:
    """Add to the gradients of tokens those of the windows that contain them, from the top down.

    Args:
        d_windows: Gradients `(2, rows, heads, head_dim)`, one row for each cut of a window.
        schedule: The layout of the gradients.
    """
    _, _, heads, head_dim = d_windows.shape
    ends = schedule.gradient_ends
    num_runs, columns = schedule.gradient_runs.shape
    for level in reversed(range(columns - 1, len(ends))):
        above, target = (
            d_windows[:, slice(*_bounds(ends, i), schedule.num_cuts(i))] for i in (level, level - 1)
        )
        _combine(above, target, *schedule.parents[level - columns + 1], True)
    _spread_kernel[(num_runs, heads, 2)](
        d_windows,
        schedule.gradient_runs,
        *d_windows.stride()[:3],
        columns - 2,
        schedule.unit,
        head_dim,
        padded_width(head_dim),
        RUN,
        num_warps=4,
    )


def _bounds(ends: tuple[int, ...], level: int) -> tuple[int, int]:
    """Return where a level begins and ends."""
    return ends[level - 1] if level else 0, ends[level]


@triton.jit
def _average_kernel(
    k,
    v,
    windows,
    runs,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    kv_stride,
    row_stride,
    head_stride,
    LEVELS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    RUN: tl.constexpr,
):
    """Average a run of tokens over increasingly long windows."""
    run, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    runs += run * (LEVELS + 2)
    tokens = tl.load(runs + LEVELS + 1)
    windows += tl.program_id(2).to(tl.int64) * kv_stride + head * head_stride
    token = (tl.load(runs) + tl.arange(0, RUN)).to(tl.int64)
    mask = tile_mask(tl.arange(0, RUN) < tokens, HEAD_DIM, WIDTH)
    if tl.program_id(2) == 0:
        pointers = row_pointers(k + head * stride_kh, token, stride_kn, WIDTH)
    else:
        pointers = row_pointers(v + head * stride_vh, token, stride_vn, WIDTH)
    sums = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    for level in tl.static_range(LEVELS + 1):
        if level > 0:
            sums = tl.sum(tl.reshape(sums, [RUN >> level, 2, WIDTH]), 1)
        window = tl.arange(0, RUN >> level)
        count = _token_counts(tokens, window, level)
        row = (tl.load(runs + level) + window).to(tl.int64)
        pointers = row_pointers(windows, row, row_stride, WIDTH)
        means = sums / tl.maximum(count, 1).to(tl.float32)[:, None]
        mask = tile_mask(count > 0, HEAD_DIM, WIDTH)
        tl.store(pointers, means.to(windows.dtype.element_ty), mask=mask)


@triton.jit
def _spread_kernel(
    windows,
    runs,
    kv_stride,
    row_stride,
    head_stride,
    LEVELS: tl.constexpr,
    UNIT: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    RUN: tl.constexpr,
):
    """Add the gradients of a run's windows, over all cuts, to its tokens' gradients in place."""
    head = tl.program_id(1).to(tl.int64)
    runs += tl.program_id(0) * (LEVELS + 2)
    tokens = tl.load(runs + LEVELS + 1)
    windows += tl.program_id(2).to(tl.int64) * kv_stride + head * head_stride
    above = tl.zeros([RUN >> LEVELS, WIDTH], tl.float32)
    for level in tl.static_range(LEVELS, -1, -1):
        if level < LEVELS:
            pairs = tl.broadcast_to(above[:, None, :], [RUN >> level + 1, 2, WIDTH])
            above = tl.reshape(pairs, [RUN >> level, WIDTH])
        window = tl.arange(0, RUN >> level)
        count = _token_counts(tokens, window, level)
        place = windows + tl.load(runs + level).to(tl.int64) * row_stride
        gradient = _load_cuts(place, tokens, row_stride, level, UNIT, HEAD_DIM, WIDTH, RUN)
        above += gradient / tl.maximum(count, 1).to(tl.float32)[:, None]
        if level == 0:
            pointers = place + (window[:, None] * row_stride + tl.arange(0, WIDTH)[None, :])
            mask = tile_mask(count > 0, HEAD_DIM, WIDTH)
            tl.store(pointers, above.to(windows.dtype.element_ty), mask=mask)


@triton.jit
def _load_cuts(
    place,
    tokens,
    row_stride,
    level: tl.constexpr,
    UNIT: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    RUN: tl.constexpr,
):
    """Load the gradients of a run's windows of a level, summed over its cuts, float32."""
    CUTS: tl.constexpr = (1 << level) // UNIT if 1 << level > UNIT else 1
    row = tl.arange(0, (RUN >> level) * CUTS)
    mask = tile_mask(_token_counts(tokens, row // CUTS, level) > 0, HEAD_DIM, WIDTH)
    pointers = place + (row[:, None] * row_stride + tl.arange(0, WIDTH)[None, :])
    rows = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    return tl.sum(tl.reshape(rows, [RUN >> level, CUTS, WIDTH]), 1)


@triton.jit
def _token_counts(tokens, window, level: tl.constexpr):
    """Return the number of a run's tokens in each window of a level."""
    return tl.minimum(tl.maximum(tokens - (window << level), 0), 1 << level)


def _combine(source: Tensor, target: Tensor, index: Tensor, share: Tensor, add: bool) -> None:
    """Set each window of a level to a weighted sum of two of another, or add this to it."""
    _, rows, heads, head_dim = target.shape
    _combine_kernel[(cdiv(rows, _ROWS), heads, 2)](
        source,
        target,
        index,
        share,
        rows,
        *source.stride()[:3],
        target.stride(1),
        add,
        head_dim,
        padded_width(head_dim),
        _ROWS,
        num_warps=4,
    )


@triton.jit
def _combine_kernel(
    source,
    target,
    index,
    share,
    rows,
    kv_stride,
    source_stride,
    head_stride,
    target_stride,
    ADD: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    start = tl.program_id(1) * head_stride + tl.program_id(2).to(tl.int64) * kv_stride
    source += start
    target += start
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    exists = row < rows
    pointers = row_pointers(target, row.to(tl.int64), target_stride, WIDTH)
    mask = tile_mask(exists, HEAD_DIM, WIDTH)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    if ADD:
        total += tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    for half in tl.static_range(2):
        other = tl.load(index + 2 * row + half, mask=exists, other=0).to(tl.int64)
        weight = tl.load(share + 2 * row + half, mask=exists, other=0.0)
        source_pointers = row_pointers(source, other, source_stride, WIDTH)
        x = tl.load(source_pointers, mask=mask & (weight > 0)[:, None], other=0.0)
        total += weight[:, None] * x.to(tl.float32)
    tl.store(pointers, total.to(target.dtype.element_ty), mask=mask)
