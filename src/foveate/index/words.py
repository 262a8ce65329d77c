"""BM25 from a library's postings: the same scores as `foveate.tasks.bm25`, from fewer texts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from foveate.index.schema import DOCUMENT, SECTION, SENTENCE
from foveate.index.snapshot import Ints, Postings, Snapshot
from foveate.tasks.bm25 import LENGTH_NORMALIZATION, SATURATION

Floats = npt.NDArray[np.float64]

_NOWHERE = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64))


def match_words(terms: Sequence[str], snapshot: Snapshot) -> dict[int, Floats]:
    """Score how much of a query each text of a library holds.

    How rare a term is, and how long texts are, is counted over the whole library as it is at that
    moment.

    Args:
        terms: The terms of the query, each once.
        snapshot: The library.

    Returns:
        b of all sentences, sections and documents, by kind; see `foveate.tasks.relevance.Matches`.
    """
    found = snapshot.postings(terms)
    of_kind: dict[int, list[Postings]] = {SENTENCE: [], SECTION: [], DOCUMENT: []}
    for term in terms:
        in_sentences = found.get((term, SENTENCE), _NOWHERE)
        of_kind[SENTENCE].append(in_sentences)
        for kind, owner in (
            (SECTION, snapshot.section_idx),
            (DOCUMENT, snapshot.sentence_document),
        ):
            in_titles = found.get((term, kind), _NOWHERE)
            counts = np.bincount(
                np.concatenate([owner[in_sentences.idx], in_titles.idx]),
                np.concatenate([in_sentences.counts, in_titles.counts]),
                len(snapshot.lengths[kind]),
            )
            holding = counts.nonzero()[0]
            of_kind[kind].append(Postings(holding, counts[holding].astype(np.int64)))
    return {kind: bm25(postings, snapshot.lengths[kind]) for kind, postings in of_kind.items()}


def bm25(postings: Sequence[Postings], lengths: Ints) -> Floats:
    """Score as `foveate.tasks.bm25.bm25` does, whose equation holds.

    Args:
        postings: Where each term of the query occurs.
        lengths: `(texts,)`, the number of terms of each text.

    Returns:
        `(texts,)`; 0 if the query has no terms.
    """
    num_texts = len(lengths)
    scores = np.zeros(num_texts)
    having = np.array([len(one.idx) for one in postings])
    weights = np.log1p((num_texts - having + 0.5) / (having + 0.5))
    mean = max(float(lengths.mean()), 1.0) if num_texts else 1.0
    for one, weight in zip(postings, weights, strict=True):
        relative = lengths[one.idx] / mean
        held_back = SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * relative)
        scores[one.idx] += weight * one.counts / (one.counts + held_back)
    return scores / weights.sum() if len(weights) else scores
