"""Benchmarks: their files into examples, and their metrics; `fewshot` is a protocol on them."""

from foveate.data.example import Example, Ranking
from foveate.data.readers import read

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
