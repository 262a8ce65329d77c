# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Find the near and far tiles, and compute the scores of their pairs.

A program finishes a tile of one side, queries or keys, and loops over the tiles of the other side.
If positions count from 0, the tiles far before and far after it follow from their numbers: their
pairs need no mask and share one bias.
"""

import triton
import triton.language as tl

from foveate.ops._triton.math import LOG2E


@triton.jit
def key_spans(
    first,
    num_keys,
    reach,
    HAS_BIAS: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_POSITIONS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Find the tiles of keys that the tile of queries beginning at `first` meets.

    Returns:
        before, after, full, near, stop: The tiles up to `before` are far before the queries, those
        from `after` to `full` far after them. The others have the numbers from `near` to `stop`,
        see `near_tile`. If positions are given, only the bounds of a tile show whether it is far,
        so all tiles are among the others.
    """
    full, tiles = num_keys // KEYS, tl.cdiv(num_keys, KEYS)
    before, after, near = full, full, full
    if HAS_POSITIONS:
        before, near = 0, 0
    elif HAS_BIAS or CAUSAL:
        before, after = _far_spans(first, reach, full, QUERIES, KEYS)
        near = before
        if CAUSAL:
            after = tl.minimum((first + QUERIES + KEYS - 1) // KEYS, tiles)
            full, tiles = after, after
    return before, after, full, near, after + tiles - full


@triton.jit
def query_spans(
    first,
    num_queries,
    reach,
    HAS_BIAS: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_POSITIONS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Find the tiles of queries that a tile of keys meets; see `key_spans`."""
    full, tiles = num_queries // QUERIES, tl.cdiv(num_queries, QUERIES)
    before, after, near = full, full, full
    if HAS_POSITIONS:
        before, near = 0, 0
    elif HAS_BIAS or CAUSAL:
        before, after = _far_spans(first, reach, full, KEYS, QUERIES)
        near = before
        if CAUSAL:
            before, near = 0, first // QUERIES
    return before, after, full, near, after + tiles - full


@triton.jit
def _far_spans(first, reach, full, SIZE: tl.constexpr, OTHER_SIZE: tl.constexpr):
    """Return the first tile not far before the program's tile, and the first far after it."""
    before = tl.maximum(first - reach + 1, 0) // OTHER_SIZE
    after = (first + SIZE + reach + OTHER_SIZE - 2) // OTHER_SIZE
    return tl.minimum(before, full), tl.minimum(after, full)


@triton.jit
def far_tile(t, before, after):
    """Return the t-th far tile."""
    return tl.where(t < before, t, t - before + after)


@triton.jit
def near_tile(t, after, full):
    """Return the t-th tile, not counting those far after."""
    return tl.where(t < after, t, t - after + full)


@triton.jit
def _look_up_bias(table, near_buckets, index, heads):
    """Return base-2 biases at indices into `near_buckets`; `table` points to a head's bucket 0."""
    return tl.load(table + tl.load(near_buckets + index) * heads).to(tl.float32) * LOG2E


@triton.jit
def load_biases(table, near_buckets, heads, reach, NUM_CACHED: tl.constexpr):
    """Load biases of the distances from -reach to reach; None if there is no bias or too many."""
    biases = None
    if table is not None and NUM_CACHED > 0:
        index = tl.minimum(tl.arange(0, NUM_CACHED), 2 * reach)
        biases = _look_up_bias(table, near_buckets, index, heads)
    return biases


@triton.jit
def far_biases(table, near_buckets, heads, reach, CAUSAL: tl.constexpr):
    """Return the biases of keys far before and far after their queries; 0 without a bias."""
    before, after = 0.0, 0.0
    if table is not None:
        before = _look_up_bias(table, near_buckets, 0, heads)
        after = _look_up_bias(table, near_buckets, 2 * reach, heads)
    if CAUSAL:
        after = float("-inf")
    return before, after


@triton.jit
def far_bias(side, before, after):
    """Return the bias of a tile of keys on that side; 0 if it is not far."""
    return tl.where(side < 0, before, tl.where(side > 0, after, 0.0))


@triton.jit
def load_key_bias(key_bias, first, num_keys, SIZE: tl.constexpr):
    """Load key biases in base 2, -inf from key `num_keys` on, which is None if all keys exist."""
    key = first + tl.arange(0, SIZE)
    if key_bias is None:
        biases = tl.where(key < num_keys, 0.0, float("-inf"))
    elif num_keys is None:
        biases = tl.load(key_bias + key).to(tl.float32) * LOG2E
    else:
        biases = tl.load(key_bias + key, mask=key < num_keys, other=float("-inf"))
        biases = biases.to(tl.float32) * LOG2E
    return biases


@triton.jit
def _bias_of_pairs(distance, biases, table, near_buckets, heads, reach):
    """Return the biases of a tile of distances: from `biases`, or from memory if it is None."""
    index = tl.minimum(tl.maximum(distance, -reach), reach) + reach
    if biases is None:
        pair_biases = _look_up_bias(table, near_buckets, index, heads)
    else:
        flat = tl.reshape(index, [index.shape[0] * index.shape[1]])
        pair_biases = tl.reshape(tl.gather(biases, flat, 0), index.shape)
    return pair_biases


@triton.jit
def near_scores(
    scores,
    q_position,
    k_position,
    biases,
    table,
    near_buckets,
    heads,
    reach,
    CAUSAL: tl.constexpr,
):
    """Add the biases of a near tile to its scores in base 2, and hide later keys if causal.

    Args:
        scores: One side down, the other across.
        q_position: Positions of the queries.
        k_position: Positions of the keys.
        biases: Biases of `load_biases`.
        table: Pointer to the head's bias of bucket 0, or None.
        near_buckets: Bucket of each distance within reach.
        heads: Stride from a bucket to the next.
        reach: The largest distance with a bias of its own.
        CAUSAL: Whether later keys are hidden.
    """
    if table is not None:
        distance = k_position - q_position
        scores += _bias_of_pairs(distance, biases, table, near_buckets, heads, reach)
    if CAUSAL:
        scores = tl.where(k_position <= q_position, scores, float("-inf"))
    return scores
