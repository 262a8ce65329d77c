"""T5's bias by distance, and sums by distance brought back to its buckets."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs
from foveate.ops._triton.math import LOG2E
from foveate.ops.relative_attention.buckets import bucket_starts, buckets

MARGIN = 192
"""Distances beyond reach that have an entry of their own, so that a near pair of tiles finds all of
its distances; at least the rows of both."""


class Distances(NamedTuple):
    """Buckets by distance: those from -reach to reach, farther ones are as these two."""

    reach: int
    bucket: Tensor
    """Bucket of each distance from -reach - MARGIN to reach + MARGIN, int64."""
    in_bucket: Tensor
    """1 where a bucket holds a distance from -reach to reach, `(num_buckets, 2 · reach + 1)`;
    float64 for sums that no setting takes precision of."""

    def bias(self, table: Tensor) -> Tensor:
        """Bias in base 2 of every distance in `bucket`, `(heads, distances)` float32."""
        return (table.float() * LOG2E.value).T.index_select(1, self.bucket)

    def by_bucket(self, sums: Tensor) -> Tensor:
        """Sums by bucket, `(num_buckets, heads)` float64, of `(heads, rows, 2 · reach + 1)`."""
        # A product for each entry, since a matrix product of this shape takes seven times as long.
        return (self.in_bucket[:, None] * sums.sum(1)).sum(-1)


@cached_for_graphs(16)
def distances(num_buckets: int, max_distance: int, device: torch.device) -> Distances:
    """Look buckets up by distance."""
    reach = bucket_starts(num_buckets, max_distance, True)[-1]
    distance = torch.arange(-reach - MARGIN, reach + MARGIN + 1)
    bucket = buckets(distance, num_buckets, max_distance, bidirectional=True)
    in_bucket = (torch.arange(num_buckets)[:, None] == bucket[MARGIN:-MARGIN]).double()
    return Distances(reach, bucket.to(device), in_bucket.to(device))
