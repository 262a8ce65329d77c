"""Data sets: one `Example` type, readers of benchmark files, and corpora that stay on disk."""

from .corpus import Corpus
from .example import Example, Ranking
from .readers import BENCHMARKS, read_benchmark

__all__ = ["BENCHMARKS", "Corpus", "Example", "Ranking", "read_benchmark"]
