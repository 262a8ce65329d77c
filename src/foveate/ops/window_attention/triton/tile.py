# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Find the tiles that meet in windows, and compute the scores of their pairs."""

import triton
import triton.language as tl

from foveate.ops._packed.triton.bias import biased_scores, within_margin


@triton.jit
def window_spans(
    first,
    length,
    before,
    after,
    HAS_BIAS: tl.constexpr,
    SIZE: tl.constexpr,
    OTHER_SIZE: tl.constexpr,
):
    """Find the tiles of the other side that a tile meets, `before` to `after` tokens away.

    Returns:
        begin, stop: The tiles that it meets.
        full, edge: Those that all of its tokens see all of; none if pairs have a bias.
    """
    begin = tl.maximum(first - before, 0) // OTHER_SIZE
    stop = tl.cdiv(tl.minimum(first + SIZE + after, length), OTHER_SIZE)
    full = tl.minimum(tl.cdiv(tl.maximum(first + SIZE - 1 - before, 0), OTHER_SIZE), stop)
    edge = tl.maximum(tl.minimum(first + after + 1, length) // OTHER_SIZE, full)
    if HAS_BIAS:
        edge = full
    return begin, stop, full, edge


@triton.jit
def edge_tile(t, full, edge):
    """Return the t-th tile that is not seen in full."""
    return tl.where(t < full, t, t - full + edge)


@triton.jit
def load_masked(masked_keys, first, length, SIZE: tl.constexpr):
    """Load whether the keys of a tile are masked; those beyond the sequence are not."""
    key = first + tl.arange(0, SIZE)
    return tl.load(masked_keys + key, mask=key < length, other=0) != 0


@triton.jit
def any_masked(masked_keys, first, stop):
    """Return whether any of the keys from `first` to `stop` is masked.

    Few programs meet a masked key, and only they need to look at the mask of every tile.
    """
    CHUNK: tl.constexpr = 1024  # noqa: N806, a constant of Triton
    found = 0
    if masked_keys is not None:
        for start in range(first, stop, CHUNK):
            masked = load_masked(masked_keys, start, stop, CHUNK)
            found = tl.maximum(found, tl.max(masked.to(tl.int32)))
    return found > 0


@triton.jit
def hide_masked(scores, masked_keys, some, first, length, SIZE: tl.constexpr):
    """Hide the masked keys, which are across, from scores, if there may be `some`."""
    if masked_keys is not None:  # noqa: SIM102, known when the kernel is compiled
        if some:
            masked = load_masked(masked_keys, first, length, SIZE)
            scores = tl.where(masked[None, :], float("-inf"), scores)
    return scores


@triton.jit
def edge_scores(products, query, key, distance, bias, left, right, scale):
    """Compute base-2 scores of a tile, -inf outside the window; one side down, the other across.

    Args:
        products: Products of queries and keys.
        query: Numbers of the queries.
        key: Numbers of the keys.
        distance: Distances to look up in the bias.
        bias: Pointer to the head's bias of distance 0, or None.
        left: Tokens of a window to the left of the query.
        right: Tokens of a window to the right of the query.
        scale: Factor on the products, for base 2.
    """
    scores = biased_scores(products, distance, bias, scale)
    inside = (key - query + left).to(tl.uint32, bitcast=True) <= (left + right).to(tl.uint32)
    return tl.where(inside, scores, float("-inf"))


@triton.jit
def query_edge_scores(
    products,
    query,
    first,
    other,
    length,
    reach,
    bias,
    left,
    right,
    scale,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Compute `edge_scores` of the queries from `first` on and the keys from `other` on."""
    key = other + tl.arange(0, KEYS)
    nearby = within_margin(other, first, reach, QUERIES, KEYS)
    return edge_scores(
        products,
        query[:, None],
        _existing(key, length)[None, :],
        (nearby + tl.arange(0, KEYS))[None, :] - query[:, None],
        bias,
        left,
        right,
        scale,
    )


@triton.jit
def _existing(token, length):
    """Return the tokens, those beyond the sequence moved far out of every window."""
    return tl.where(token < length, token, 1 << 30)


@triton.jit
def global_scores(products, first, num_keys, scale, SIZE: tl.constexpr):
    """Compute the scores in base 2 of a tile of global keys without a bias, keys across."""
    exists = first + tl.arange(0, SIZE) < num_keys
    return tl.where(exists[None, :], products * scale, float("-inf"))
