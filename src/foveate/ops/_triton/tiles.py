# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Tiles: blocks of rows of one head that a program loads and stores as a whole.

A matrix is one head of a tensor `(n, heads, head_dim)`: a pointer to its first row, and the stride
from a row to the next. Its channels are adjacent. A tile is WIDTH channels wide, the next size that
the matrix units support (`math.padded_width`), of which HEAD_DIM exist.
"""

import triton
import triton.language as tl


@triton.jit
def row_pointers(x, row, row_stride, WIDTH: tl.constexpr):
    """Return pointers `(rows, WIDTH)` to the given rows of a matrix."""
    return x + row[:, None] * row_stride + tl.arange(0, WIDTH)[None, :]


@triton.jit
def tile_mask(exists, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr):
    """Mask of the rows that exist and their real channels; `exists` None means all rows do."""
    mask = (tl.arange(0, WIDTH) < HEAD_DIM)[None, :]
    if exists is not None:
        mask = mask & exists[:, None]
    return mask


@triton.jit
def load_tile(
    x, first, stop, row_stride, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr
):
    """Load SIZE rows from `first` on: zero from row `stop` on, which is None if all exist."""
    exists = None
    if stop is not None:
        exists = first + tl.arange(0, SIZE) < stop
    return _load(x, first, 1, exists, row_stride, SIZE, HEAD_DIM, WIDTH)


@triton.jit
def store_tile(
    x,
    value,
    first,
    stop,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store SIZE rows from `first` on, but none from row `stop` on."""
    exists = first + tl.arange(0, SIZE) < stop
    _store(x, value, first, 1, exists, row_stride, SIZE, HEAD_DIM, WIDTH)


@triton.jit
def load_strided_tile(
    x,
    first,
    step,
    count,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Load rows `first`, `first + step`, …: `count` of them, zero beyond; None loads SIZE."""
    exists = None
    if count is not None:
        exists = tl.arange(0, SIZE) < count
    return _load(x, first, step, exists, row_stride, SIZE, HEAD_DIM, WIDTH)


@triton.jit
def store_strided_tile(
    x,
    value,
    first,
    step,
    count,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store rows `first`, `first + step`, …: `count` of them."""
    exists = tl.arange(0, SIZE) < count
    _store(x, value, first, step, exists, row_stride, SIZE, HEAD_DIM, WIDTH)


@triton.jit
def _load(
    x,
    first,
    step,
    exists,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    start = x + tl.cast(first, tl.int64) * row_stride
    pointers = row_pointers(start, tl.arange(0, SIZE), step * row_stride, WIDTH)
    if exists is None and HEAD_DIM == WIDTH:
        value = tl.load(pointers)
    else:
        value = tl.load(pointers, mask=tile_mask(exists, HEAD_DIM, WIDTH), other=0.0)
    return value


@triton.jit
def _store(
    x,
    value,
    first,
    step,
    exists,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    start = x + tl.cast(first, tl.int64) * row_stride
    pointers = row_pointers(start, tl.arange(0, SIZE), step * row_stride, WIDTH)
    mask = tile_mask(exists, HEAD_DIM, WIDTH)
    tl.store(pointers, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def load_six(table, row):
    """Load row `row` of a table `(rows, 6)` of integers that describe a tile."""
    table += 6 * row
    return (
        tl.load(table),
        tl.load(table + 1),
        tl.load(table + 2),
        tl.load(table + 3),
        tl.load(table + 4),
        tl.load(table + 5),
    )
