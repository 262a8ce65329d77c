"""Measures of retrieval, their intervals, and the differences between systems."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TOP_K = 10
SEED = 0
RESAMPLES = 10_000
OWN = ("foveate", "foveate, fused")
"""The systems that are compared with all others."""


def hit(relevant: Tensor, top_k: int) -> float:
    """Return 1 if one of the first `top_k` is relevant, else 0.

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
        top_k: Number of candidates that count.
    """
    return float(relevant[:top_k].any())


def ndcg(relevant: Tensor, top_k: int) -> float:
    """Compute the discounted cumulative gain of the first `top_k`, as a share of the highest one.

        Σ_i [candidate i is relevant] / log₂(i + 1), for i from 1 to top_k

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
        top_k: Number of candidates that count.
    """
    discounts = 1 / torch.arange(2, len(relevant[:top_k]) + 2, dtype=torch.float64).log2()
    ideal = discounts[: int(relevant.sum())].sum()
    return float((discounts * relevant[:top_k]).sum() / ideal) if ideal else 0.0


def reciprocal_rank(relevant: Tensor) -> float:
    """Compute 1 / the rank of the first relevant candidate; 0 if there is none.

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
    """
    ranks = relevant.nonzero()
    return 1 / (1 + int(ranks[0])) if len(ranks) else 0.0


MEASURES: dict[str, dict[str, Callable[[Tensor], float]]] = {
    "within": {
        "hit@1": lambda relevant: hit(relevant, 1),
        "hit@5": lambda relevant: hit(relevant, 5),
        "nDCG@10": lambda relevant: ndcg(relevant, TOP_K),
    },
    "documents": {
        "R@1": lambda relevant: hit(relevant, 1),
        "MRR": reciprocal_rank,
        "nDCG@10": lambda relevant: ndcg(relevant, TOP_K),
    },
}


def rank(scores: Tensor, relevant: Tensor) -> Tensor:
    """Sort whether candidates are relevant by their scores, best first; ties stay in order."""
    return relevant[scores.argsort(descending=True, stable=True)]


def interval(scores: NDArray[Any], groups: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return bounds of the mean that hold 95 % of the means over resampled groups.

    Queries about one document resemble each other; so documents are drawn, with all their queries.

    Args:
        scores: `(queries, measures)`.
        groups: The document of each query.
    """
    _, group_idx = np.unique(groups, return_inverse=True)
    num_groups = group_idx.max() + 1
    sums = np.zeros((num_groups, scores.shape[1]))
    np.add.at(sums, group_idx, scores)
    counts = np.bincount(group_idx)
    draws = np.random.default_rng(SEED).integers(num_groups, size=(RESAMPLES, num_groups))
    means = sums[draws].sum(1) / counts[draws].sum(1, keepdims=True)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def summarize(
    measures: Sequence[str], scores: NDArray[Any], groups: Sequence[int]
) -> dict[str, Any]:
    """Return the mean of each measure and its interval, in percent."""
    columns = zip(measures, scores.mean(0), *interval(scores, groups), strict=True)
    return {
        measure: {
            "mean": round(100 * mean, 2),
            "interval": [round(100 * low, 2), round(100 * high, 2)],
        }
        for measure, mean, low, high in columns
    }


def differences(
    measures: Sequence[str], scores: dict[str, NDArray[Any]], groups: Sequence[int]
) -> dict[str, Any]:
    """Compare each of `OWN` that ran with every other system, on the same queries.

    Args:
        measures: Their names.
        scores: For each system `(queries, measures)`.
        groups: The document of each query.

    Returns:
        For each of `OWN` and each other system, the mean of what the former has more than the
        latter, and its interval, in percent.
    """
    return {
        own: {
            name: summarize(measures, scores[own] - its, groups)
            for name, its in scores.items()
            if name != own
        }
        for own in OWN
        if own in scores
    }
