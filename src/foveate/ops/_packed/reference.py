"""Functions that the dense reference implementations share."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .buckets import buckets


def sequence_ids(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Number the packed sequences and return the number of each token's sequence, int64."""
    numbers = torch.arange(len(lengths), device=device)
    return numbers.repeat_interleave(torch.tensor(lengths, dtype=torch.int64, device=device))


def bias_of_pairs(
    table: Tensor, distance: Tensor, max_distance: int, *, bidirectional: bool
) -> Tensor:
    """Look up the bias of each pair of tokens.

    Args:
        table: Bias of each bucket, `(num_buckets, heads)`.
        distance: Key position minus query position, `(…)`.
        max_distance: Distance near which the last bucket begins.
        bidirectional: Whether keys after the query have separate buckets.

    Returns:
        `(heads, …)`.
    """
    bucket = buckets(distance, len(table), max_distance, bidirectional=bidirectional)
    return table[bucket].movedim(-1, 0)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Compute the softmax over keys where `mask` is true; zero for a query that sees no key."""
    scores = scores.masked_fill(~mask, -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
