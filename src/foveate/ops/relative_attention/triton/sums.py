# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Sums of a tile's slopes by distance, for the bias's gradient.

A program adds to a row of its own in memory, `(2·reach + 1,)`, one tile after the other, so that
the order of its sums is fixed; the rows are summed later.
"""

import triton
import triton.language as tl


@triton.jit
def add_to(sums, value):
    """Add to one of the sums."""
    tl.store(sums, tl.load(sums) + value)
    tl.debug_barrier()  # the next to add may be another thread


@triton.jit
def add_by_diagonal(sums, slopes, distance, reach, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    """Add a tile of consecutive positions, whose first pair is at `distance`.

    Row i is turned left by i, so that a column holds pairs of one distance, but for those that went
    around once or more: they are as many tiles' widths nearer to the left.
    """
    column = tl.arange(0, KEYS)
    source = tl.arange(0, QUERIES)[:, None] + column[None, :]
    turned = tl.gather(slopes, source % KEYS, 1)
    before, after = 0.0, 0.0
    for times in tl.static_range((QUERIES + KEYS - 2) // KEYS + 1):
        total = tl.sum(tl.where(source // KEYS == times, turned, 0.0), 0)
        place = distance + column - times * KEYS
        inside = (place > -reach) & (place < reach)
        tl.store(sums + place, tl.load(sums + place, mask=inside) + total, mask=inside)
        before += tl.sum(tl.where(place <= -reach, total, 0.0))
        after += tl.sum(tl.where(place >= reach, total, 0.0))
    tl.debug_barrier()
    add_to(sums - reach, before)
    add_to(sums + reach, after)


@triton.jit
def add_by_bucket(sums, slopes, distance, reach, edges, buckets):
    """Add a tile of any distances, those of a bucket to the first distance in it.

    Args:
        sums: where the sum of distance 0 is.
        slopes: what to add.
        distance: distances, of the shape of `slopes`.
        reach: how far sums go; farther distances count as that.
        edges: first distance of every bucket, and reach + 1.
        buckets: number of buckets.
    """
    distance = tl.minimum(tl.maximum(distance, -reach), reach)
    for bucket in range(buckets):
        first, stop = tl.load(edges + bucket), tl.load(edges + bucket + 1)
        of_bucket = tl.where((distance >= first) & (distance < stop), slopes, 0.0)
        add_to(sums + first, tl.sum(of_bucket))
