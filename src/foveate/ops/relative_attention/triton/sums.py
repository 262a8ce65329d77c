# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Sums of a tile's slopes by distance or by bucket, for the bias's gradient.

A program has sums of its own, and adds one tile after the other, so that their order is fixed; the
programs' sums are added up later.
"""

import triton
import triton.language as tl


@triton.jit
def add_by_diagonal(
    sums, before, after, slopes, distance, reach, QUERIES: tl.constexpr, KEYS: tl.constexpr
):
    """Add a tile of consecutive positions, whose first pair is at `distance`.

    Row i is turned left by i, so that a column holds pairs of one distance, but for those that went
    around once or more: they are as many tiles' widths nearer to the left.

    Returns:
        `before` and `after` `(KEYS,)` with what lies beyond reach on either side added to them.
    """
    column = tl.arange(0, KEYS)
    source = tl.arange(0, QUERIES)[:, None] + column[None, :]
    turned = tl.gather(slopes, source % KEYS, 1)
    for times in tl.static_range((QUERIES + KEYS - 2) // KEYS + 1):
        total = tl.sum(tl.where(source // KEYS == times, turned, 0.0), 0)
        place = distance + column - times * KEYS
        inside = (place > -reach) & (place < reach)
        tl.store(sums + place, tl.load(sums + place, mask=inside) + total, mask=inside)
        before += tl.where(place <= -reach, total, 0.0)
        after += tl.where(place >= reach, total, 0.0)
    tl.debug_barrier()  # the next to add may be another thread
    return before, after


@triton.jit
def add_by_bucket(totals, slopes, distance, low, high, edges, ranks, reach):
    """Add a tile of any distances to a register of sums, and return it.

    A bucket's sum is the difference of two sums from an edge on: one weight of 0 or 1 for each pair
    and edge. Rows are summed by as many as one warp holds, so that warps do not wait for each other
    before `store_by_bucket`.

    Args:
        totals: sums of the pairs at an edge's distance or beyond, groups of rows × edges.
        slopes: what to add.
        distance: distances, of the shape of `slopes`, float32: one addition tells what is beyond an
            edge, since distances are whole numbers, and the GPU limits it to 0 and 1 for nothing.
        low: a distance that no pair is below.
        high: a distance that no pair is above.
        edges: distances where buckets begin.
        ranks: number of the last edge up to each distance from -reach.
        reach: farther distances count as this one.
    """
    edge = tl.arange(0, totals.shape[1])[None, :]
    first = tl.load(ranks + tl.minimum(tl.maximum(low, -reach), reach) + reach)
    last = tl.load(ranks + tl.minimum(tl.maximum(high, -reach), reach) + reach)
    totals += tl.where(edge <= first, _sum_groups(slopes, totals.shape[0])[:, None], 0.0)
    for i in range(first + 1, last + 1):
        beyond = tl.minimum(tl.maximum(distance - (tl.load(edges + i) - 1), 0.0), 1.0)
        totals += tl.where(edge == i, _sum_groups(slopes * beyond, totals.shape[0])[:, None], 0.0)
    return totals


@triton.jit
def _sum_groups(x, GROUPS: tl.constexpr):
    """Sums of as many groups of neighbouring rows."""
    return tl.sum(tl.reshape(x, [GROUPS, x.shape[0] * x.shape[1] // GROUPS]), 1)


@triton.jit
def store_by_bucket(sums, step, totals, before, after, order, edge_count, BUCKETS: tl.constexpr):
    """Write what is to be added to the buckets, and after these what is to be taken away.

    Args:
        sums: where to, zeros; of a head, numbers `step` apart.
        step: see `sums`.
        totals: as of `add_by_bucket`.
        before: what belongs to the first bucket, besides.
        after: what belongs to the last one.
        order: the buckets, by their edges.
        edge_count: how many have one.
        BUCKETS: how many there are.
    """
    edge = tl.arange(0, totals.shape[1])
    beyond = tl.sum(totals, 0) + after + tl.where(edge == 0, before, 0.0)
    own = tl.load(order + edge, mask=edge < edge_count, other=0)
    tl.store(sums + own * step, beyond, mask=edge < edge_count)
    taken = (edge > 0) & (edge < edge_count)
    nearer = tl.load(order + edge - 1, mask=taken, other=0)
    tl.store(sums + (BUCKETS + nearer) * step, -beyond, mask=taken)
