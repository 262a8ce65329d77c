"""BM25 from a library's postings: the same scores as `foveate.tasks.bm25`, from fewer texts."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from foveate.index.schema import KINDS, SENTENCE
from foveate.tasks.bm25 import LENGTH_NORMALIZATION, SATURATION

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

CACHED_BYTES = 2**28
"""Memory for the terms of earlier queries; those in a million sentences take less."""

_DENSE_SHARE = 1 / 3
"""The share of texts that hold a term from which a value for every text takes less space."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The texts of a kind that contain a term, and how often each does."""

    idx: Ints
    counts: Ints


NOWHERE = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Impacts:
    """How much a term counts in each text of a kind, before weighting; see `impacts_of`.

    Attributes:
        num_texts: Number of texts that hold it.
        idx: Their indices; None if there are values for all texts, since most hold it.
        values: Float32.
    """

    num_texts: int
    idx: Ints | None
    values: npt.NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.values.nbytes + (0 if self.idx is None else self.idx.nbytes)


class Words:
    """The words of a library.

    What a term counts in each text is kept in memory for the next query that has it, up to a limit,
    since the words with long postings are in most queries.

    Args:
        lengths: Number of terms of each text, by kind; those of a section or document include the
            sentences in it.
        owners: `(sentences,)`, the section, and the document, that each sentence is in, by kind.
        load: Looks up where terms occur, for each kind of text in which they do.
    """

    def __init__(
        self,
        lengths: Mapping[int, Ints],
        owners: Mapping[int, Ints],
        load: Callable[[Sequence[str]], Mapping[tuple[str, int], Postings]],
    ) -> None:
        self._lengths, self._owners, self._load_postings = lengths, owners, load
        self._means = {
            kind: max(float(of_kind.mean()), 1.0) if len(of_kind) else 1.0
            for kind, of_kind in lengths.items()
        }
        self._cached: OrderedDict[str, dict[int, Impacts]] = OrderedDict()
        self._num_bytes = 0
        self._lock = Lock()  # of what is cached

    def match(
        self, terms: Sequence[str], kinds: Iterable[int] = KINDS
    ) -> dict[int, npt.NDArray[np.float32]]:
        """Score how well each text of a library matches a query.

        The rarity of terms and the mean length of texts are those of the whole library at that
        time.

        Args:
            terms: The terms of the query, each once.
            kinds: The kinds of texts.

        Returns:
            b of all texts of each kind; see `foveate.tasks.relevance.Matches`.
        """
        impacts = self._impacts(terms)
        return {
            kind: add_up([impacts[term][kind] for term in terms], len(self._lengths[kind]))
            for kind in kinds
        }

    def _impacts(self, terms: Sequence[str]) -> dict[str, dict[int, Impacts]]:
        """Return what each term counts in each text of each kind."""
        with self._lock:
            impacts = {term: self._cached[term] for term in terms if term in self._cached}
            for term in impacts:
                self._cached.move_to_end(term)
        new = [term for term in terms if term not in impacts]
        if not new:
            return impacts
        loaded = self._load(new)
        with self._lock:
            for term in new:
                if term not in self._cached:  # another thread may have been faster
                    self._cached[term] = loaded[term]
                    self._num_bytes += _num_bytes(loaded[term])
            while self._num_bytes > CACHED_BYTES:
                _, oldest = self._cached.popitem(last=False)
                self._num_bytes -= _num_bytes(oldest)
        return impacts | loaded

    def _load(self, terms: Sequence[str]) -> dict[str, dict[int, Impacts]]:
        postings = self._load_postings(terms)
        loaded = {}
        for term in terms:
            in_sentences = postings.get((term, SENTENCE), NOWHERE)
            of_kind = {SENTENCE: in_sentences}
            for kind, owner in self._owners.items():
                in_titles = postings.get((term, kind), NOWHERE)
                counts = np.bincount(
                    np.concatenate([owner[in_sentences.idx], in_titles.idx]),
                    np.concatenate([in_sentences.counts, in_titles.counts]),
                    len(self._lengths[kind]),
                )
                holding = counts.nonzero()[0]
                of_kind[kind] = Postings(holding, counts[holding].astype(np.int64))
            loaded[term] = {
                kind: impacts_of(one, self._lengths[kind], self._means[kind])
                for kind, one in of_kind.items()
            }
        return loaded


def impacts_of(postings: Postings, lengths: Ints, mean: float) -> Impacts:
    """Compute n / (n + k (1 - l + l |x| / mean |x|)) of `foveate.tasks.bm25.bm25` for a term.

    Args:
        postings: The texts that hold it, and how often.
        lengths: `(texts,)`, the number of terms of each text.
        mean: The mean of these.
    """
    relative = lengths[postings.idx] / mean
    held_back = SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * relative)
    values = (postings.counts / (postings.counts + held_back)).astype(np.float32)
    num_texts = len(postings.idx)
    if num_texts < _DENSE_SHARE * len(lengths):
        return Impacts(num_texts, postings.idx, values)
    dense = np.zeros(len(lengths), np.float32)
    dense[postings.idx] = values
    return Impacts(num_texts, None, dense)


def add_up(impacts: Sequence[Impacts], num_texts: int) -> npt.NDArray[np.float32]:
    """Add up the impacts of a query's terms to the scores of `foveate.tasks.bm25.bm25`.

    Args:
        impacts: What each term of the query counts in the texts.
        num_texts: Number of texts.

    Returns:
        `(texts,)`; 0 if the query has no terms.
    """
    scores = np.zeros(num_texts, np.float32)
    if not impacts:
        return scores
    num_holding = np.array([one.num_texts for one in impacts])
    weights = np.log1p((num_texts - num_holding + 0.5) / (num_holding + 0.5))
    weights = (weights / weights.sum()).astype(np.float32)
    for one, weight in zip(impacts, weights, strict=True):
        if one.idx is None:
            scores += weight * one.values
        else:
            scores[one.idx] += weight * one.values
    return scores


def _num_bytes(of_kinds: dict[int, Impacts]) -> int:
    return sum(one.nbytes for one in of_kinds.values())
