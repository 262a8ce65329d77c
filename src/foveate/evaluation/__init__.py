"""Metrics, and the predictions and scores of trained models on benchmarks."""

from .metrics import exact_match, label_f1, rouge, token_f1

__all__ = ["exact_match", "label_f1", "rouge", "token_f1"]
