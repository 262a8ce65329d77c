"""T5's buckets of relative positions, and their bias as a function of the distance.

The distance of a key from a query is the key's position minus the query's. Bidirectional attention
gives the first half of the buckets to keys at or before the query and the second half to those
after it; causal attention gives all of them to keys at or before it. Half of a side's buckets hold
one distance each, the others grow logarithmically, and the last one is unbounded.

Logarithms are computed once, to find the distance at which each bucket starts. After that, a bucket
is found by comparing integers, and a bias by looking up the distance in a table that ends where the
last bucket starts.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops.compiling import cached


@cached(maxsize=64)
def bucket_starts(num_buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, ...]:
    """Compute the smallest distance, ahead or behind, that falls into each bucket of a side.

    A bucket that holds no distance starts where the next one does.

    Args:
        num_buckets: Number of buckets, of both sides if bidirectional.
        max_distance: Distance near which the last bucket begins.
        bidirectional: Whether keys after the query have separate buckets.

    Raises:
        ValueError: If there are too few buckets, or if every distance below `max_distance` has its
            own bucket.

    Example:
        >>> bucket_starts(32, 128, bidirectional=True)
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
    """
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    if exact < 1:
        raise ValueError(
            f"{num_buckets} buckets are too few: at least {4 if bidirectional else 2} are needed"
        )
    if max_distance <= exact:
        raise ValueError(
            f"max_distance {max_distance} must exceed {exact}, the number of distances "
            f"that have a bucket of their own among {num_buckets} buckets"
        )
    # Where rounding decides whether a bucket's start is an integer, the result depends on the
    # precision and the order of operations: trained checkpoints use exactly this, in float32.
    distance = torch.arange(exact, max_distance + 1)
    logarithmic = torch.log(distance.float() / exact) / math.log(max_distance / exact)
    bucket = exact + (logarithmic * (per_side - exact)).long()
    starts = exact + torch.searchsorted(bucket, torch.arange(exact, per_side))
    return (*range(exact), *starts.tolist())


def buckets(
    distance: Tensor, num_buckets: int, max_distance: int, *, bidirectional: bool
) -> Tensor:
    """Find the bucket of each distance.

    Args:
        distance: Key position minus query position, integers of any shape.
        num_buckets: Number of buckets, of both sides if bidirectional.
        max_distance: Distance near which the last bucket begins.
        bidirectional: Whether keys after the query have separate buckets.

    Returns:
        int64, shaped like `distance`.
    """
    starts = bucket_starts(num_buckets, max_distance, bidirectional)
    magnitude = distance.abs() if bidirectional else (-distance).clamp(min=0)
    starts_tensor = torch.tensor(starts, device=distance.device)
    bucket = torch.bucketize(magnitude, starts_tensor, right=True) - 1
    return bucket + (distance > 0) * len(starts) if bidirectional else bucket


def bias_by_distance(table: Tensor, max_distance: int, *, bidirectional: bool) -> Tensor:
    """Look up the bias of every distance from -reach to reach.

    The reach is the distance at which the last bucket starts; farther distances have the bias of
    the nearer end.

    Args:
        table: Bias of each bucket, `(num_buckets, heads)`.
        max_distance: Distance near which the last bucket begins.
        bidirectional: Whether keys after the query have separate buckets.

    Returns:
        `(heads, 2·reach + 1)`.
    """
    bucket = _bucket_by_distance(len(table), max_distance, bidirectional, table.device)
    return F.embedding(bucket, table).T  # unlike indexing, its gradient is deterministic


@cached(maxsize=64)  # all layers need the same tensor, and copying it synchronizes
def _bucket_by_distance(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device
) -> Tensor:
    reach = bucket_starts(num_buckets, max_distance, bidirectional)[-1]
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        distance = torch.arange(-reach, reach + 1)
        return buckets(distance, num_buckets, max_distance, bidirectional=bidirectional).to(device)
