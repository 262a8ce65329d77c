# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The windows of all levels, each from the level below, and their gradients the other way."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.math import padded_width

from .tables import RUN, Tables

_ROWS = 32
"""Rows of a level that one program makes of those below."""


def build(k: Tensor, v: Tensor, tables: Tables) -> Tensor:
    """Average keys and values over the windows of all levels, of which level 0 is themselves.

    Returns:
        `(2, rows, heads, head_dim)` in the dtype of `k`, keys and values, level after level.
    """
    _, heads, head_dim = k.shape
    windows = torch.empty(2, tables.ends[-1], heads, head_dim, dtype=k.dtype, device=k.device)
    runs, columns = tables.runs.shape
    _average[(runs, heads, 2)](
        *(k, v, windows, tables.runs, *k.stride()[:2], *v.stride()[:2], *windows.stride()[:3]),
        *(columns - 2, head_dim, padded_width(head_dim), RUN),
        num_warps=1,
    )
    for level, (halves, shares) in enumerate(tables.halves, start=columns - 1):
        below, rows = (windows[:, slice(*_ends(tables.ends, i))] for i in (level - 1, level))
        _combine(below, rows, halves, shares, False)
    return windows


def spread(d_windows: Tensor, tables: Tables) -> None:
    """Add to the gradients of tokens those of the windows that hold them, from the top down.

    Args:
        d_windows: gradients `(2, rows, heads, head_dim)`, a row for each cut of `Tables`.
        tables: where they are.
    """
    _, _, heads, head_dim = d_windows.shape
    runs, columns = tables.target_runs.shape
    for level in reversed(range(columns - 1, len(tables.ends))):
        above, rows = (
            d_windows[:, slice(*_ends(tables.target_ends, i), tables.cuts(i))]
            for i in (level, level - 1)
        )
        _combine(above, rows, *tables.parents[level - columns + 1], True)
    _spread[(runs, heads, 2)](
        *(d_windows, tables.target_runs, *d_windows.stride()[:3]),
        *(columns - 2, tables.unit, head_dim, padded_width(head_dim), RUN),
        num_warps=4,
    )


def _ends(ends: tuple[int, ...], level: int) -> tuple[int, int]:
    """Where the rows of a level begin and end."""
    return ends[level - 1] if level else 0, ends[level]


@triton.jit
def _average(
    k,
    v,
    windows,
    runs,
    k_row,
    k_head,
    v_row,
    v_head,
    part_stride,
    row_stride,
    head_stride,
    LEVELS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    RUN: tl.constexpr,
):
    """Average a run of tokens over ever longer windows."""
    run, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    runs += run * (LEVELS + 2)
    tokens = tl.load(runs + LEVELS + 1)
    windows += tl.program_id(2).to(tl.int64) * part_stride + head * head_stride
    token, channel = tl.load(runs) + tl.arange(0, RUN), tl.arange(0, WIDTH)
    real = (tl.arange(0, RUN) < tokens)[:, None] & (channel < HEAD_DIM)[None, :]
    if tl.program_id(2) == 0:
        place = k + head * k_head + token.to(tl.int64)[:, None] * k_row
    else:
        place = v + head * v_head + token.to(tl.int64)[:, None] * v_row
    sums = tl.load(place + channel[None, :], mask=real, other=0.0).to(tl.float32)
    for level in tl.static_range(LEVELS + 1):
        if level > 0:
            sums = tl.sum(tl.reshape(sums, [RUN >> level, 2, WIDTH]), 1)
        window = tl.arange(0, RUN >> level)
        held = _held(tokens, window, level)
        place = windows + (tl.load(runs + level) + window).to(tl.int64)[:, None] * row_stride
        real = (held > 0)[:, None] & (channel < HEAD_DIM)[None, :]
        means = sums / tl.maximum(held, 1).to(tl.float32)[:, None]
        tl.store(place + channel[None, :], means.to(windows.dtype.element_ty), mask=real)


@triton.jit
def _spread(
    windows,
    runs,
    part_stride,
    row_stride,
    head_stride,
    LEVELS: tl.constexpr,
    UNIT: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    RUN: tl.constexpr,
):
    """Bring the gradients of a run's windows, of all cuts, down to its tokens, in place."""
    head = tl.program_id(1).to(tl.int64)
    runs += tl.program_id(0) * (LEVELS + 2)
    tokens = tl.load(runs + LEVELS + 1)
    windows += tl.program_id(2).to(tl.int64) * part_stride + head * head_stride
    channel = tl.arange(0, WIDTH)
    above = tl.zeros([RUN >> LEVELS, WIDTH], tl.float32)
    for level in tl.static_range(LEVELS, -1, -1):
        if level < LEVELS:
            pairs = tl.broadcast_to(above[:, None, :], [RUN >> level + 1, 2, WIDTH])
            above = tl.reshape(pairs, [RUN >> level, WIDTH])
        window = tl.arange(0, RUN >> level)
        held = _held(tokens, window, level)
        place = windows + tl.load(runs + level).to(tl.int64) * row_stride
        here = _load_cuts(
            *(place, tokens, row_stride, level, (1 << level) // UNIT if 1 << level > UNIT else 1),
            *(HEAD_DIM, WIDTH, RUN),
        )
        above += here / tl.maximum(held, 1).to(tl.float32)[:, None]
        if level == 0:
            real = (held > 0)[:, None] & (channel < HEAD_DIM)[None, :]
            place += window[:, None] * row_stride + channel[None, :]
            tl.store(place, above.to(windows.dtype.element_ty), mask=real)


@triton.jit
def _load_cuts(
    place, tokens, row_stride, level: tl.constexpr, CUTS: tl.constexpr,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, RUN: tl.constexpr,
):  # fmt: skip
    """Gradients of a run's windows of a level, summed over the cuts of it, float32."""
    row, channel = tl.arange(0, (RUN >> level) * CUTS), tl.arange(0, WIDTH)
    real = (_held(tokens, row // CUTS, level) > 0)[:, None] & (channel < HEAD_DIM)[None, :]
    place += row[:, None] * row_stride + channel[None, :]
    rows = tl.load(place, mask=real, other=0.0).to(tl.float32)
    return tl.sum(tl.reshape(rows, [RUN >> level, CUTS, WIDTH]), 1)


@triton.jit
def _held(tokens, window, level: tl.constexpr):
    """How many of a run's tokens each window of a level holds."""
    return tl.minimum(tl.maximum(tokens - (window << level), 0), 1 << level)


def _combine(source: Tensor, target: Tensor, index: Tensor, share: Tensor, add: bool) -> None:
    """Make each row of a level of two rows of another, in shares, or add these to it."""
    _, rows, heads, head_dim = target.shape
    _combine_rows[(triton.cdiv(rows, _ROWS), heads, 2)](
        *(source, target, index, share, rows, *source.stride()[:3], target.stride(1)),
        *(add, head_dim, padded_width(head_dim), _ROWS),
        num_warps=4,
    )


@triton.jit
def _combine_rows(
    source,
    target,
    index,
    share,
    rows,
    part_stride,
    source_row,
    head_stride,
    target_row,
    ADD: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    start = tl.program_id(1) * head_stride + tl.program_id(2).to(tl.int64) * part_stride
    source += start
    target += start
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, WIDTH)
    inside = row < rows
    place = target + row.to(tl.int64)[:, None] * target_row + channel[None, :]
    real = inside[:, None] & (channel < HEAD_DIM)[None, :]
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    if ADD:
        total += tl.load(place, mask=real, other=0.0).to(tl.float32)
    for half in tl.static_range(2):
        other = tl.load(index + 2 * row + half, mask=inside, other=0).to(tl.int64)
        weight = tl.load(share + 2 * row + half, mask=inside, other=0.0)
        some = real & (weight > 0)[:, None]
        x = tl.load(source + other[:, None] * source_row + channel[None, :], mask=some, other=0.0)
        total += weight[:, None] * x.to(tl.float32)
    tl.store(place, total.to(target.dtype.element_ty), mask=real)
