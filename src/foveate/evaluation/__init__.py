"""Benchmarks: their files into examples, and their metrics; `fewshot` is a protocol on them."""

from .example import Example, Ranking
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
from .readers import read

__all__ = [
    "Example",
    "Ranking",
    "average_precision",
    "exact_match",
    "kendall_tau",
    "label_f1",
    "ndcg",
    "read",
    "rouge",
    "rouge_geometric_mean",
    "token_f1",
]
