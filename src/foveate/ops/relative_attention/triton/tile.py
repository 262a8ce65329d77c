# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the forward and the backward kernels share: rows of a tile, and how its pairs score.

A program owns a tile of one side's rows, queries or keys, and meets the tiles of the other side.
Where positions count from 0, tiles far before and far after its own are known by their numbers:
their pairs need no mask, and one bias serves them all.
"""

import triton
import triton.language as tl

from foveate.ops._triton.math import LOG2E, dot


@triton.jit
def load_tile(tiles, tile):
    """Entry of `tables.tiles`: sequence start, first row, rows; start, rows, first tile beyond."""
    entry = tiles + 6 * tile
    start, other_start = tl.load(entry).to(tl.int64), tl.load(entry + 3).to(tl.int64)
    first, rows = tl.load(entry + 1), tl.load(entry + 2)
    return start, first, rows, other_start, tl.load(entry + 4), tl.load(entry + 5)


@triton.jit
def key_spans(
    first,
    keys,
    reach,
    BIASED: tl.constexpr,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Which tiles of keys a tile of queries meets whose first is `first`.

    Returns:
        before, after, whole, near, stop: the tiles up to `before` are far before the queries, those
        from `after` to `whole` far after them; the others are the numbers from `near` to `stop`,
        see `near_tile`. Given positions tell only when a tile is met: all are among these.
    """
    whole, tiles = keys // KEYS, tl.cdiv(keys, KEYS)
    before, after, near = whole, whole, whole
    if PLACED:
        before, near = 0, 0
    elif BIASED or CAUSAL:
        before, after = _far_spans(first, reach, whole, QUERIES, KEYS)
        near = before
        if CAUSAL:
            after = tl.minimum((first + QUERIES + KEYS - 1) // KEYS, tiles)
            whole, tiles = after, after
    return before, after, whole, near, after + tiles - whole


@triton.jit
def query_spans(
    first,
    queries,
    reach,
    BIASED: tl.constexpr,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Which tiles of queries a tile of keys meets; like `key_spans`."""
    whole, tiles = queries // QUERIES, tl.cdiv(queries, QUERIES)
    before, after, near = whole, whole, whole
    if PLACED:
        before, near = 0, 0
    elif BIASED or CAUSAL:
        before, after = _far_spans(first, reach, whole, KEYS, QUERIES)
        near = before
        if CAUSAL:
            before, near = 0, first // QUERIES
    return before, after, whole, near, after + tiles - whole


@triton.jit
def _far_spans(first, reach, whole, OWN: tl.constexpr, OTHER: tl.constexpr):
    """Where tiles cease to be far before the own one, and where they are far after it."""
    before = tl.maximum(first - reach + 1, 0) // OTHER
    after = (first + OWN + reach + OTHER - 2) // OTHER
    return tl.minimum(before, whole), tl.minimum(after, whole)


@triton.jit
def far_tile(t, before, after):
    """Number of the t-th of the tiles that are far before and far after."""
    return tl.where(t < before, t, t - before + after)


@triton.jit
def near_tile(t, after, whole):
    """Tile of a number that skips those that are far after."""
    return tl.where(t < after, t, t - after + whole)


@triton.jit
def look_up(table, near, place, heads):
    """Biases in base 2 at places among `near`; `table` is where the head's first bucket is."""
    return tl.load(table + tl.load(near + place) * heads).to(tl.float32) * LOG2E


@triton.jit
def load_biases(table, near, heads, reach, AT_HAND: tl.constexpr):
    """Biases of the distances from -reach to reach; None if there are none, or too many."""
    biases = None
    if table is not None and AT_HAND > 0:
        biases = look_up(table, near, tl.minimum(tl.arange(0, AT_HAND), 2 * reach), heads)
    return biases


@triton.jit
def far_biases(table, near, heads, reach, CAUSAL: tl.constexpr):
    """Bias of keys far before their queries and of keys far after them; 0 if there is none."""
    before, after = 0.0, 0.0
    if table is not None:
        before, after = look_up(table, near, 0, heads), look_up(table, near, 2 * reach, heads)
    if CAUSAL:
        after = float("-inf")
    return before, after


@triton.jit
def far_bias(side, before, after):
    """Bias of a tile of keys on that side; 0 for one that is not far."""
    return tl.where(side < 0, before, tl.where(side > 0, after, 0.0))


@triton.jit
def far_side(q_low, q_high, k_low, k_high, reach, CAUSAL: tl.constexpr):
    """-1 where keys are far before queries, by their bounds, 1 where they are far after, else 0."""
    before = k_high - q_low <= -reach
    after = k_low - q_high >= (1 if CAUSAL else reach)
    return after.to(tl.int32) - before.to(tl.int32)


@triton.jit
def load_rows(
    x, first, rows, row_stride, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr
):
    """A tile of rows, zero from row `rows` on; `rows` None says that all are there."""
    pointers, keep = _place(x, first, rows, row_stride, SIZE, HEAD_DIM, WIDTH)
    if rows is None and HEAD_DIM == WIDTH:
        values = tl.load(pointers)
    else:
        values = tl.load(pointers, mask=keep, other=0.0)
    return values


@triton.jit
def store_rows(
    x,
    value,
    first,
    rows,
    row_stride,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write those rows of a tile that are there."""
    pointers, keep = _place(x, first, rows, row_stride, SIZE, HEAD_DIM, WIDTH)
    tl.store(pointers, value.to(x.dtype.element_ty), mask=keep)


@triton.jit
def _place(
    x, first, rows, row_stride, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr
):
    """Pointers to a tile's rows, and which of them and their channels are there."""
    row, channel = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    start = x + tl.cast(first, tl.int64) * row_stride
    keep = (channel < HEAD_DIM)[None, :]
    if rows is not None:
        keep = keep & (first + row < rows)[:, None]
    return start + row[:, None] * row_stride + channel[None, :], keep


@triton.jit
def load_places(positions, row, rows):
    """Positions of rows, int64, their numbers if None; missing rows repeat the last one's."""
    row = tl.minimum(row, rows - 1)
    return (row if positions is None else tl.load(positions + row)).to(tl.int64)


@triton.jit
def places_from(base, positions, row, rows):
    """Positions counted from `base`, int32; those over 2^30 away are as far as that."""
    place = load_places(positions, row, rows) - base
    return tl.minimum(tl.maximum(place, -(1 << 30)), 1 << 30).to(tl.int32)


@triton.jit
def load_bounds(bounds, tile):
    """Lowest and highest position of a tile."""
    return tl.load(bounds + 2 * tile), tl.load(bounds + 2 * tile + 1)


@triton.jit
def brought_near(other, own, reach, OWN: tl.constexpr, OTHER: tl.constexpr):
    """First row of a tile as it counts for the bias: not farther than the margin reaches."""
    return own + tl.minimum(tl.maximum(other - own, -reach - OTHER), reach + OWN)


@triton.jit
def load_key_bias(key_bias, first, keys, SIZE: tl.constexpr):
    """Biases of a tile of keys in base 2, -inf from key `keys` on; None says that all are there."""
    key = first + tl.arange(0, SIZE)
    if key_bias is None:
        biases = tl.where(key < keys, 0.0, float("-inf"))
    elif keys is None:
        biases = tl.load(key_bias + key).to(tl.float32) * LOG2E
    else:
        biases = tl.load(key_bias + key, mask=key < keys, other=float("-inf"))
        biases = biases.to(tl.float32) * LOG2E
    return biases


@triton.jit
def bias_of(distance, biases, table, near, heads, reach):
    """Biases of a tile of distances: from `biases`, or from memory where these are None."""
    place = tl.minimum(tl.maximum(distance, -reach), reach) + reach
    if biases is None:
        found = look_up(table, near, place, heads)
    else:
        flat = tl.reshape(place, [place.shape[0] * place.shape[1]])
        found = tl.reshape(tl.gather(biases, flat, 0), place.shape)
    return found


@triton.jit
def pair_scores(scores, q_place, k_place, biases, table, near, heads, reach, CAUSAL: tl.constexpr):
    """Add the biases of a near tile to scores in base 2, and hide later keys if causal.

    Args:
        scores: one side's rows down, the other's across.
        q_place: positions of the queries.
        k_place: positions of the keys.
        biases: as of `load_biases`.
        table: biases of the head's buckets, or None.
        near: bucket of each distance within reach.
        heads: between a bucket and the next.
        reach: largest distance with a bias of its own.
        CAUSAL: whether later keys are hidden.
    """
    if table is not None:
        scores += bias_of(k_place - q_place, biases, table, near, heads, reach)
    if CAUSAL:
        scores = tl.where(k_place <= q_place, scores, float("-inf"))
    return scores


@triton.jit
def absorb(scores, scale, constant, values, top, total, out):
    """Add values weighed by exp2(scale · scores + constant), rescaling as the maximum rises."""
    new_top = tl.maximum(top, tl.max(scores, 1) * scale + constant)
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(scores * scale - (shift - constant)[:, None])
    fade = tl.exp2(top - shift)
    out = dot(weights.to(values.dtype), values, out * fade[:, None])
    return new_top, total * fade + tl.sum(weights, 1), out
