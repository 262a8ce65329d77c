# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the forward and the backward kernels share: rows of tiles, and scores."""

import triton
import triton.language as tl

from foveate.ops.kernels import LOG2E, dot


@triton.jit
def load_tile(tiles, tile):
    """First row, step, rows, and the bounds of the entries of a tile; see `tables.Lists`."""
    tiles += 6 * tile
    return (
        tl.load(tiles),
        tl.load(tiles + 1),
        tl.load(tiles + 2),
        tl.load(tiles + 3),
        tl.load(tiles + 4),
        tl.load(tiles + 5),
    )


@triton.jit
def load_rows(
    x, first, step, begin, end, row_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Rows `begin` to `end` of a tile, zero elsewhere and in padded channels: `(ROWS, WIDTH)`."""
    member, channel = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    place = (first + step * member).to(tl.int64) * row_stride
    real = ((member >= begin) & (member < end))[:, None]
    if HEAD_DIM < WIDTH:
        real = real & (channel < HEAD_DIM)[None, :]
    return tl.load(x + place[:, None] + channel[None, :], mask=real, other=0.0)


@triton.jit
def store_rows(
    x, rows, first, step, count, row_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Write the first `count` rows of a tile."""
    member, channel = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    place = (first + step * member).to(tl.int64) * row_stride
    real = (member < count)[:, None] & (channel < HEAD_DIM)[None, :]
    tl.store(x + place[:, None] + channel[None, :], rows.to(x.dtype.element_ty), mask=real)


@triton.jit
def bias_of(
    bias, distance, reach, PLAIN: tl.constexpr, TRANSPOSED: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Bias of a pair of tiles in base 2: one number where they are plain.

    Args:
        bias: of distance -reach and on, for one head.
        distance: of the first key from the first query.
        reach: distance from which on the bias is constant.
        PLAIN: whether they are beyond reach of each other.
        TRANSPOSED: whether the keys are rows and the queries columns.
        QUERIES: rows of a tile of queries.
        KEYS: rows of a tile of keys.
    """
    if not PLAIN:
        query, key = tl.arange(0, QUERIES), tl.arange(0, KEYS)
        if TRANSPOSED:
            place = distance + key[:, None] - query[None, :]
        else:
            place = distance + key[None, :] - query[:, None]
        place = tl.minimum(tl.maximum(place, -reach), reach)
        return tl.load(bias + place + reach) * LOG2E
    else:
        return tl.load(bias + tl.where(distance > 0, 2 * reach, 0)) * LOG2E


@triton.jit
def scores_of(a, b, scale, bias, distance, reach, PLAIN: tl.constexpr, TRANSPOSED: tl.constexpr,
              QUERIES: tl.constexpr, KEYS: tl.constexpr):  # fmt: skip
    """Scores of rows of a against rows of b in base 2, float32."""
    scores = dot(a, b.T) * (scale * LOG2E)
    if bias is not None:
        scores += bias_of(bias, distance, reach, PLAIN, TRANSPOSED, QUERIES, KEYS)
    return scores
