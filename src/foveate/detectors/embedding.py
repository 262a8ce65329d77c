"""Words and phrases that are close to the document, and unlike each other, in meaning."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from foveate.documents import Document

from .keyword import Keyword, locate
from .words import general_frequencies, words

if TYPE_CHECKING:
    from torch import Tensor

_CANDIDATES = 1000
"""Phrases that are encoded: the most frequent. Beyond, phrases occur once, and there are many."""

_TOO_COMMON = 2e-4
"""Words with this share of general usage, some 500 in English, neither begin nor end a phrase."""


class _Vectors(Protocol):
    @property
    def document(self) -> "Tensor": ...


class TextEncoder(Protocol):
    """What this detector needs of an encoder: `foveate.Encoder` has it."""

    def encode(self, documents: Document) -> _Vectors: ...  # noqa: D102

    def encode_texts(self, texts: list[str]) -> "Tensor": ...  # noqa: D102


def embedding(
    document: Document,
    k: int,
    *,
    encoder: TextEncoder,
    diversity: float = 0.3,
    longest: int = 2,
    language: str = "en",
) -> list[Keyword]:
    """Rank words and phrases by their vectors, with Maximal Marginal Relevance.

    Phrases p are chosen one by one, each time the one with the highest

        (1 - λ) ⟨p, D⟩ - λ max over the chosen c of ⟨p, c⟩

    where D is the document's vector, all of length 1, and λ the diversity. That is the score.

    Args:
        document: the document.
        k: number of keywords.
        encoder: `foveate.Encoder`, or what encodes like it.
        diversity: from 0, the closest to the document, to 1, the most different.
        longest: words in a phrase at most.
        language: ISO 639 code: very common words neither begin nor end a phrase.

    Raises:
        ValueError: `diversity` is not between 0 and 1, or the language is not known.
    """
    import torch.nn.functional as F  # torch takes a second, that other detectors need not wait

    if not 0 <= diversity <= 1:
        raise ValueError(f"diversity must be between 0 and 1, got {diversity}")
    counts = Counter(_phrases(document, longest, language))
    candidates = [phrase for phrase, _ in counts.most_common(_CANDIDATES)]
    if not candidates:
        return []
    vectors = F.normalize(encoder.encode_texts(candidates), dim=-1)
    whole = F.normalize(encoder.encode(document).document, dim=-1)
    chosen = marginal_relevance(vectors @ whole, vectors, k, diversity)
    return locate(document, [(candidates[i], score) for i, score in chosen])


def marginal_relevance(
    relevance: "Tensor", vectors: "Tensor", k: int, diversity: float
) -> list[tuple[int, float]]:
    """Choose rows by Maximal Marginal Relevance (Carbonell and Goldstein, 1998).

    Args:
        relevance: `(rows,)`.
        vectors: `(rows, dimension)`, of length 1.
        k: number of rows to choose; all, if there are not that many.
        diversity: λ of `embedding`.

    Returns:
        Rows and their scores when they were chosen, in that order.
    """
    import torch

    nearest = torch.zeros_like(relevance)
    free = torch.ones_like(relevance, dtype=torch.bool)
    chosen = []
    for place in range(min(k, len(relevance))):
        scores = (1 - diversity) * relevance - diversity * nearest
        best = int(scores.masked_fill(~free, -torch.inf).argmax())
        chosen.append((best, float(scores[best])))
        free[best] = False
        likeness = vectors @ vectors[best]
        nearest = torch.maximum(nearest, likeness) if place else likeness
    return chosen


def _phrases(document: Document, longest: int, language: str) -> Iterator[str]:
    """Every run of words that only spaces part and that no very common word begins or ends."""
    share = general_frequencies(language)

    def telling(word: str) -> bool:
        return word[0].isalpha() and len(word) > 1 and share.get(word, 0) < _TOO_COMMON

    for sentence in document.sentences():
        own = words(sentence.text)
        for i, first in enumerate(own):
            if not telling(first.key):
                continue
            for j in range(i, min(i + longest, len(own))):
                if j > i and sentence.text[own[j - 1].end : own[j].start].strip():
                    break
                if telling(own[j].key):
                    yield " ".join(word.key for word in own[i : j + 1])
