# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the forward and the backward kernels share: which tiles meet, and how their pairs score."""

import triton
import triton.language as tl

from foveate.ops._triton.math import look_up


@triton.jit
def meeting(
    first, length, before, after, BIASED: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr
):
    """Tiles of the other side that a tile of rows meets, which sees from `before` to `after`.

    Returns:
        begin, stop: the tiles met; whole, edge: those that all of the rows see all of. There are
            none of these where pairs have a bias.
    """
    begin = tl.maximum(first - before, 0) // OTHER
    stop = tl.cdiv(tl.minimum(first + OWN + after, length), OTHER)
    whole = tl.minimum(tl.cdiv(tl.maximum(first + OWN - 1 - before, 0), OTHER), stop)
    edge = tl.maximum(tl.minimum(first + after + 1, length) // OTHER, whole)
    if BIASED:
        edge = whole
    return begin, stop, whole, edge


@triton.jit
def edge_tile(t, whole, edge):
    """Tile of a number that skips those that are seen as a whole."""
    return tl.where(t < whole, t, t - whole + edge)


@triton.jit
def load_hidden(hidden, first, rows, SIZE: tl.constexpr):
    """What hides a tile of keys, added to scores: -inf or 0."""
    row = first + tl.arange(0, SIZE)
    return tl.where(tl.load(hidden + row, mask=row < rows, other=1) != 0, float("-inf"), 0.0)


@triton.jit
def edge_scores(products, query, key, distance, of_keys, bias, left, right, scale):
    """Scores in base 2 of any tile, -inf where unseen; one side down, the other across.

    Args:
        products: products of queries and keys.
        query: rows of the queries.
        key: rows of the keys.
        distance: distances to look up in the bias, if there is one.
        of_keys: what is added for the keys, or None.
        bias: where the head's bias of distance 0 is, or None.
        left: rows that a window shows before the query.
        right: rows after it.
        scale: factor on the products, for base 2.
    """
    scores = products * scale
    if bias is not None:
        scores += look_up(bias, distance)
    if of_keys is not None:
        scores += of_keys
    inside = (key - query + left).to(tl.uint32, bitcast=True) <= (left + right).to(tl.uint32)
    return tl.where(inside, scores, float("-inf"))


@triton.jit
def existing(row, rows):
    """Rows, but those that do not exist far out of every window."""
    return tl.where(row < rows, row, 1 << 30)


@triton.jit
def side_scores(products, first, rows, scale, SIZE: tl.constexpr):
    """Scores in base 2 of a tile of side rows without a bias, keys across."""
    there = first + tl.arange(0, SIZE) < rows
    return tl.where(there[None, :], products * scale, float("-inf"))
