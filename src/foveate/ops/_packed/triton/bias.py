# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""T5's bias by distance, as kernels look it up, and the sums for its gradient."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.buckets import bucket_starts, buckets
from foveate.ops._triton.cache import cached_for_graphs, send, stream_id
from foveate.ops._triton.math import LOG2E, look_up

MARGIN = 256
"""Distances beyond the reach for which a bias by distance also has entries, so that a near pair of
tiles finds all of its distances: at least the tokens of two tiles together."""


class DistanceBuckets(NamedTuple):
    """The bucket of every distance; those beyond the reach are in the buckets at its ends.

    Attributes:
        reach: The largest distance with a bias of its own.
        bucket: Bucket of each distance from -reach - MARGIN to reach + MARGIN, int64.
        membership: Whether a bucket holds a distance from -reach to reach,
            `(num_buckets, 2·reach + 1)` float64.
        near: Bucket of each distance from -reach to reach, int32.
        edges: Distances from -reach to reach at which a bucket begins, ascending, float32.
        edge_buckets: The buckets that begin at the edges, int32.
        last_edge: The number of the last edge up to each distance from -reach to reach, int32.
    """

    reach: int
    bucket: Tensor
    membership: Tensor
    near: Tensor
    edges: Tensor
    edge_buckets: Tensor
    last_edge: Tensor

    def bias(self, table: Tensor) -> Tensor:
        """Look up the bias of every distance, in base 2.

        Args:
            table: Bias of each bucket, `(num_buckets, heads)`.

        Returns:
            `(heads, 2·(reach + MARGIN) + 1)` float32.
        """
        bias: Tensor = (table.float() * LOG2E.value).T.index_select(1, self.bucket)
        return bias

    def sum_by_bucket(self, sums: Tensor) -> Tensor:
        """Add up by bucket what tiles have summed by distance.

        Args:
            sums: `(heads, tiles, 2·reach + 1)`.

        Returns:
            `(num_buckets, heads)` float64.
        """
        # Elementwise, since a matrix product of this shape takes seven times as long.
        return (self.membership[:, None] * sums.sum(1)).sum(-1)


def distance_buckets(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device
) -> DistanceBuckets:
    """Return the cached bucket of every distance."""
    return _distance_buckets(num_buckets, max_distance, bidirectional, device, stream_id(device))


@cached_for_graphs(64)
def _distance_buckets(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device, stream: int
) -> DistanceBuckets:
    reach = bucket_starts(num_buckets, max_distance, bidirectional)[-1]
    distance = torch.arange(-reach - MARGIN, reach + MARGIN + 1)
    bucket = buckets(distance, num_buckets, max_distance, bidirectional=bidirectional)
    near = bucket[MARGIN:-MARGIN]
    membership = (torch.arange(num_buckets)[:, None] == near).double()
    begins = torch.tensor([True, *(near[1:] != near[:-1]).tolist()])
    edges = begins.nonzero().flatten()
    last_edge = begins.cumsum(0) - 1
    tables = (
        bucket,
        membership,
        near.int(),
        (edges - reach).float(),
        near[edges].int(),
        last_edge.int(),
    )
    return DistanceBuckets(reach, *(send(x, device) for x in tables))


@triton.jit
def biased_scores(products, distance, bias, scale):
    """Compute the scores in base 2 of pairs at distances within the margin.

    Args:
        products: Products of queries and keys.
        distance: Distance of each key from each query.
        bias: Pointer to the head's bias of distance 0, or None.
        scale: Factor on the products, for base 2.
    """
    scores = products * scale
    if bias is not None:
        scores += look_up(bias, distance)
    return scores


@triton.jit
def within_margin(other, first, reach, SIZE: tl.constexpr, OTHER_SIZE: tl.constexpr):
    """Move a tile as near as its bias allows, so that its distances are within the margin.

    Args:
        other: First token of the tile to move.
        first: First token of the program's tile.
        reach: The largest distance with a bias of its own.
        SIZE: Tokens of the program's tile.
        OTHER_SIZE: Tokens of the tile to move.

    Returns:
        The first token of the moved tile.
    """
    return first + tl.minimum(tl.maximum(other - first, -reach - OTHER_SIZE), reach + SIZE)


@triton.jit
def add_by_diagonal(
    sums, before, after, d_scores, distance, reach, QUERIES: tl.constexpr, KEYS: tl.constexpr
):
    """Add a tile of consecutive positions to sums by distance.

    Row i of the tile is rotated left by i, so that a column holds pairs of one distance, except for
    those that wrapped around: with each wrap, their distance is KEYS less.

    Args:
        sums: Pointer to a program's sum of distance 0. A program adds one tile after the other, so
            the order is fixed.
        before: Sums of the keys beyond reach before their queries, `(KEYS,)`.
        after: Sums of the keys beyond reach after their queries, `(KEYS,)`.
        d_scores: Gradients to add, queries down and keys across.
        distance: Distance of the first pair.
        reach: The largest distance with a bias of its own.
        QUERIES: Queries of the tile.
        KEYS: Keys of the tile.

    Returns:
        The new `before` and `after`.
    """
    column = tl.arange(0, KEYS)
    source = tl.arange(0, QUERIES)[:, None] + column[None, :]
    rotated = tl.gather(d_scores, source % KEYS, 1)
    for wraps in tl.static_range((QUERIES + KEYS - 2) // KEYS + 1):
        total = tl.sum(tl.where(source // KEYS == wraps, rotated, 0.0), 0)
        place = distance + column - wraps * KEYS
        inside = (place > -reach) & (place < reach)
        tl.store(sums + place, tl.load(sums + place, mask=inside) + total, mask=inside)
        before += tl.where(place <= -reach, total, 0.0)
        after += tl.where(place >= reach, total, 0.0)
    tl.debug_barrier()  # another thread may be the next to add here
    return before, after
