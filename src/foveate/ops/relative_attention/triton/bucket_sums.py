# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Sums of a tile's dS by bucket, for the gradient of the bias.

Each program adds one tile after the other to its own sums, so the order is fixed; the sums of all
programs are added up later.
"""

import triton
import triton.language as tl


@triton.jit
def add_by_bucket(totals, d_scores, distance, low, high, edges, last_edge, reach):
    """Add a tile of arbitrary distances to sums that are kept in registers, and return these.

    A bucket's sum is the difference of two sums, of the pairs from one edge on and from the next:
    each pair has a weight of 0 or 1 for each edge. Rows are summed in groups that one warp holds,
    so that warps do not wait for each other before `store_by_bucket`.

    Args:
        totals: Sums of the pairs at an edge's distance or beyond, `(groups of rows, edges)`.
        d_scores: The gradients to add.
        distance: Distances, shaped like `d_scores`, float32: since they are whole numbers, one
            addition shows which are beyond an edge, and the GPU clamps it to 0 and 1 for free.
        low: A lower bound of the distances.
        high: An upper bound of the distances.
        edges: Distances at which buckets begin.
        last_edge: The number of the last edge up to each distance from -reach on.
        reach: Farther distances count as this one.
    """
    edge = tl.arange(0, totals.shape[1])[None, :]
    first = tl.load(last_edge + tl.minimum(tl.maximum(low, -reach), reach) + reach)
    last = tl.load(last_edge + tl.minimum(tl.maximum(high, -reach), reach) + reach)
    totals += tl.where(edge <= first, _sum_groups(d_scores, totals.shape[0])[:, None], 0.0)
    for i in range(first + 1, last + 1):
        beyond = tl.minimum(tl.maximum(distance - (tl.load(edges + i) - 1), 0.0), 1.0)
        totals += tl.where(edge == i, _sum_groups(d_scores * beyond, totals.shape[0])[:, None], 0.0)
    return totals


@triton.jit
def _sum_groups(x, GROUPS: tl.constexpr):
    """Compute the sums of GROUPS groups of neighbouring rows."""
    return tl.sum(tl.reshape(x, [GROUPS, x.shape[0] * x.shape[1] // GROUPS]), 1)


@triton.jit
def store_by_bucket(
    sums, stride, totals, before, after, edge_buckets, num_edges, BUCKETS: tl.constexpr
):
    """Store the sums to add to each bucket and, after them, those to subtract.

    Args:
        sums: Pointer to a head's zeros, `(2, BUCKETS)`.
        stride: From one of them to the next.
        totals: Sums of `add_by_bucket`.
        before: Further sum for the first bucket.
        after: Further sum for the last bucket.
        edge_buckets: The buckets that begin at the edges.
        num_edges: The number of edges.
        BUCKETS: The number of buckets.
    """
    edge = tl.arange(0, totals.shape[1])
    beyond = tl.sum(totals, 0) + after + tl.where(edge == 0, before, 0.0)
    bucket = tl.load(edge_buckets + edge, mask=edge < num_edges, other=0)
    tl.store(sums + bucket * stride, beyond, mask=edge < num_edges)
    has_previous = (edge > 0) & (edge < num_edges)
    previous = tl.load(edge_buckets + edge - 1, mask=has_previous, other=0)
    tl.store(sums + (BUCKETS + previous) * stride, -beyond, mask=has_previous)
