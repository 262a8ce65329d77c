"""BM25: how well each of several texts matches the words of a query.

Rare words and identifiers ("topic57", "foo_bar", "§ 3") are what embeddings blur most. There is one
query at a time, so only its words are counted, and no inverted index is built.
"""

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from foveate.tasks.terms import terms

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SATURATION = 1.2
"""How soon repetitions of a word stop counting: k of `bm25`."""

LENGTH_NORMALIZATION = 0.75
"""How much length is penalized: l of `bm25`."""


def hash_term(term: str) -> int:
    """Return what stands for a term where terms are counted; of 100,000, about two share theirs."""
    return zlib.crc32(term.encode())


class Words:
    """The terms of texts, which are listed once for all queries.

    Args:
        hashes: `(terms,)` uint32, `hash_term` of the terms of all texts, one text after another.
        lengths: `(texts,)` int64, how many terms each text has.
    """

    def __init__(self, hashes: npt.NDArray[np.uint32], lengths: Ints) -> None:
        self.hashes = hashes
        self.lengths = lengths

    @classmethod
    def from_texts(cls, texts: Iterable[str], language: str | None = None) -> "Words":
        """List the terms of texts in a language, see `foveate.tasks.terms.terms`."""
        listed = [terms(text, language) for text in texts]
        hashes = [*map(hash_term, chain.from_iterable(listed))]
        return cls(np.array(hashes, np.uint32), np.array([*map(len, listed)], np.int64))

    def count(self, query: Sequence[str]) -> Ints:
        """Count how often each text has each term of a query: `(texts, terms)`."""
        counts = [self._sum_in_texts(self.hashes == hash_term(term)) for term in query]
        return np.stack([np.zeros_like(self.lengths), *counts], 1)[:, 1:]

    def have(self, sequence: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which texts have some terms one after another: `(texts,)`."""
        is_here = np.ones(len(self.hashes), np.bool_)
        for i, term in enumerate(sequence):
            is_there = self.hashes[i:] == hash_term(term)
            is_here[: len(is_there)] &= is_there
            is_here[len(is_there) :] = False
        ends = np.repeat(self.lengths.cumsum(), self.lengths)
        is_here &= np.arange(len(self.hashes)) + len(sequence) <= ends
        return self._sum_in_texts(is_here) > 0

    @cached_property
    def _starts(self) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Which texts have terms, and where those of each of them start."""
        has_terms = self.lengths > 0
        return has_terms, (self.lengths.cumsum() - self.lengths)[has_terms]

    def _sum_in_texts(self, are_counted: npt.NDArray[np.bool_]) -> Ints:
        has_terms, starts = self._starts
        sums = np.zeros(len(self.lengths), np.int64)
        sums[has_terms] = np.add.reduceat(are_counted, starts, dtype=np.int64) if len(starts) else 0
        return sums


def bm25(counts: Ints, lengths: Ints, mean_length: float, weights: Floats) -> Floats:
    """Score how well each text matches the T terms of a query, between 0 and 1.

        b(x) = Σ_t i(t)^p n(t, x) / (n(t, x) + k (1 - l + l |x| / mean |x|)) / T

    where n(t, x) counts term t in text x, |x| is its length, k is 1.2 and l is 0.75, and i(t) is
    `foveate.tasks.weights.rarity`: 1 for a term that no text has. This is Lucene's BM25 but for the
    scale, by which the words of a query count as much as they are rare, and for p, which is 2 for
    sentences and sections, so that a name decides, and 1 for documents, which have most words.

    Args:
        counts: `(texts, terms)`, see `Words.count`.
        lengths: `(texts,)`.
        mean_length: That of all texts of this level, at least 1.
        weights: `(terms,)`, i(t)^p / T, see `foveate.tasks.weights.term_weights`.

    Returns:
        `(texts,)`; 0 if the query has no terms.
    """
    return saturated(counts, lengths[:, None] / mean_length) @ weights


def saturated(counts: Floats | Ints, lengths: Floats) -> Floats:
    """Return n / (n + k (1 - l + l x)) of `bm25` for lengths of x times the mean."""
    held_back = SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * lengths)
    shares: Floats = counts / (counts + held_back)
    return shares
