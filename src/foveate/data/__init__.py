"""Data sets: one `Example` type, readers of benchmark files, and corpora that stay on disk."""

from .abstracts import abstract_sections
from .corpus import Corpus
from .example import Example, Query
from .readers import BENCHMARKS, read_benchmark

__all__ = [
    "BENCHMARKS",
    "Corpus",
    "Example",
    "Query",
    "abstract_sections",
    "read_benchmark",
]
