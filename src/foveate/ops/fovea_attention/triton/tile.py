# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the forward and the backward kernels share: tiles and their rows."""

import triton
import triton.language as tl

from foveate.ops._triton.math import dot, look_up


@triton.jit
def load_six(table, row):
    """A tile's row of a table, or an entry's; see `tables.Lists`."""
    table += 6 * row
    return (
        tl.load(table),
        tl.load(table + 1),
        tl.load(table + 2),
        tl.load(table + 3),
        tl.load(table + 4),
        tl.load(table + 5),
    )


@triton.jit
def load_rows(
    x, first, step, count, row_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Rows of a tile, zero from `count` on and in padded channels; `count` None: all are there."""
    places, real = _places(x, first, step, count, row_stride, HEAD_DIM, WIDTH, ROWS)
    if count is None and HEAD_DIM == WIDTH:
        rows = tl.load(places)
    else:
        rows = tl.load(places, mask=real, other=0.0)
    return rows


@triton.jit
def store_rows(
    x, rows, first, step, count, row_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Write the first `count` rows of a tile."""
    places, real = _places(x, first, step, count, row_stride, HEAD_DIM, WIDTH, ROWS)
    tl.store(places, rows.to(x.dtype.element_ty), mask=real)


@triton.jit
def _places(
    x, first, step, count, row_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    member, channel = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    start = x + tl.cast(first, tl.int64) * row_stride
    real = (channel < HEAD_DIM)[None, :]
    if count is not None:
        real = real & (member < count)[:, None]
    return start + (member * (step * row_stride))[:, None] + channel[None, :], real


@triton.jit
def far_biases(bias, reach):
    """Bias of keys beyond reach before their queries and after them; 0 if there is none."""
    before, after = 0.0, 0.0
    if bias is not None:
        before, after = tl.load(bias - reach), tl.load(bias + reach)
    return before, after


@triton.jit
def near_scores(products, distance, met, bias, scale):
    """Scores in base 2 of a pair of tiles, -inf where `met` is false.

    Args:
        products: of queries and keys.
        distance: of each key from each query, within the margin.
        met: which there are.
        bias: where the head's bias of distance 0 is, or None.
        scale: factor on the products, for base 2.
    """
    scores = products * scale
    if bias is not None:
        scores += look_up(bias, distance)
    return tl.where(met, scores, float("-inf"))


@triton.jit
def absorb(scores, scale, constant, values, top, total, out):
    """Add values weighed by exp2(scale · scores + constant), rescaling as the maximum rises."""
    new_top = tl.maximum(top, tl.max(scores, 1) * scale + constant)
    weights = tl.exp2(scores * scale - (new_top - constant)[:, None])
    fade = tl.exp2(top - new_top)
    out = dot(weights.to(values.dtype), values, out * fade[:, None])
    return new_top, total * fade + tl.sum(weights, 1), out
