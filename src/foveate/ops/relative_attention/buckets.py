"""T5's buckets of relative positions, and their bias as a function of the distance.

The distance of a key from a query is the key's position minus the query's. Bidirectional attention
gives the first half of the buckets to keys at or before the query and the second half to those
after it; causal attention gives all of them to keys at or before it. Half of a side's buckets hold
one distance each, the others grow logarithmically, and the last goes on for ever.

Logarithms are needed once, to find where buckets start: after that a bucket is found by comparing
integers, and the bias by looking up the distance in a row as long as the last start demands.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor


@lru_cache(maxsize=64)
def bucket_starts(num_buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, ...]:
    """Smallest distance, ahead or behind, that falls into each bucket of a side.

    A bucket that holds no distance starts where the next one does.

    Raises:
        ValueError: too few buckets, or all distances below `max_distance` with one of their own.

    Example:
        >>> bucket_starts(32, 128, bidirectional=True)
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
    """
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    if exact < 1:
        raise ValueError(
            f"{num_buckets} buckets are too few: {4 if bidirectional else 2} is the least"
        )
    if max_distance <= exact:
        raise ValueError(
            f"max_distance {max_distance} must exceed {exact}, "
            f"the number of distances that have one of {num_buckets} buckets of their own"
        )
    # Buckets whose start is not an integer by a rounding error depend on the precision and on the
    # order of operations: trained checkpoints mean exactly this one, in float32.
    distance = torch.arange(exact, max_distance + 1)
    logarithmic = torch.log(distance.float() / exact) / math.log(max_distance / exact)
    bucket = exact + (logarithmic * (per_side - exact)).long()
    starts = exact + torch.searchsorted(bucket, torch.arange(exact, per_side))
    return (*range(exact), *starts.tolist())


def buckets(
    distance: Tensor, num_buckets: int, max_distance: int, *, bidirectional: bool
) -> Tensor:
    """Bucket of each distance (key position - query position), any integer shape; int64."""
    starts = bucket_starts(num_buckets, max_distance, bidirectional)
    behind = distance.abs() if bidirectional else (-distance).clamp(min=0)
    bucket = torch.bucketize(behind, torch.tensor(starts, device=distance.device), right=True) - 1
    return bucket + (distance > 0) * len(starts) if bidirectional else bucket


def bias_by_distance(table: Tensor, max_distance: int, *, bidirectional: bool) -> Tensor:
    """Bias of every distance from -reach to reach, where the last bucket has begun on both sides.

    Args:
        table: `(num_buckets, heads)`.
        max_distance: distance near which the last bucket begins.
        bidirectional: whether keys after the query have buckets of their own.

    Returns:
        `(heads, 2·reach + 1)`; farther distances have the bias of the nearer end.
    """
    bucket = _buckets_by_distance(len(table), max_distance, bidirectional, table.device)
    return F.embedding(bucket, table).T  # whose gradient, unlike that of indexing, repeats its bits


@lru_cache(maxsize=64)  # layers ask for the same ones, and making them waits for the device
def _buckets_by_distance(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device
) -> Tensor:
    reach = bucket_starts(num_buckets, max_distance, bidirectional)[-1]
    with torch.inference_mode(False):  # or what is made in inference would not do for training
        distance = torch.arange(-reach, reach + 1)
        return buckets(distance, num_buckets, max_distance, bidirectional=bidirectional).to(device)
