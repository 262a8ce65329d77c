"""Metrics, and the predictions and scores of trained models on benchmarks."""

from .metrics import (
    average_precision,
    exact_match,
    kendall_tau,
    label_f1,
    ndcg,
    rouge,
    rouge_geometric_mean,
    token_f1,
)

__all__ = [
    "average_precision",
    "exact_match",
    "kendall_tau",
    "label_f1",
    "ndcg",
    "rouge",
    "rouge_geometric_mean",
    "token_f1",
]
