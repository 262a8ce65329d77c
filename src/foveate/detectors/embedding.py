"""Words and phrases whose vectors are close to the document's and unlike each other."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import Keyword, is_content_word, locate, words
from foveate.detectors.segmentation import needs_segmentation
from foveate.documents import Document

if TYPE_CHECKING:
    from torch import Tensor

_MAX_CANDIDATES = 1000
"""Number of phrases to encode, the most frequent first. The others occur only once."""

_COMMON_WORD = 2e-4
"""Words with at least this share of general usage (about 500 in English) do not begin or end a
phrase."""


class _DocumentVector(Protocol):
    @property
    def document(self) -> "Tensor": ...


class TextEncoder(Protocol):
    """The interface of the encoder that this detector needs, such as `foveate.Encoder`."""

    def encode(self, documents: Document, /) -> _DocumentVector:
        """Encode a document; its vector is the result's `document`, of shape `(hidden_size,)`."""
        ...

    def encode_texts(self, texts: list[str], /) -> "Tensor":
        """Encode texts as vectors of shape `(number of texts, hidden_size)`."""
        ...


def embedding(
    document: Document,
    top_k: int,
    *,
    encoder: TextEncoder,
    diversity: float = 0.3,
    max_words: int = 2,
    language: str = "en",
) -> list[Keyword]:
    """Rank words and phrases by their vectors, with Maximal Marginal Relevance.

    Phrases p are selected one by one, each time the one with the highest score

        (1 - λ) ⟨p, D⟩ - λ max over the selected c of ⟨p, c⟩

    where D is the document's vector, all vectors have length 1, and λ is the diversity.

    Args:
        document: The document.
        top_k: Number of keywords.
        encoder: `foveate.Encoder`, or another object with its `encode` and `encode_texts`.
        diversity: Between 0, for the phrases closest to the document, and 1, for the most
            different ones.
        max_words: Greatest number of words in a phrase.
        language: ISO 639 code of the language whose very common words do not begin or end a
            phrase.

    Raises:
        ValueError: `diversity` is not between 0 and 1, or the language is unknown.
    """
    import torch.nn.functional as F  # takes a second, which the other detectors do not need

    if not 0 <= diversity <= 1:
        raise ValueError(f"diversity must be between 0 and 1, got {diversity}")
    counts = Counter(_phrases(document, max_words, language))
    candidates = [phrase for phrase, _ in counts.most_common(_MAX_CANDIDATES)]
    if not candidates:
        return []
    vectors = F.normalize(encoder.encode_texts(candidates), dim=-1)
    document_vector = F.normalize(encoder.encode(document).document, dim=-1)
    selected = maximal_marginal_relevance(vectors @ document_vector, vectors, top_k, diversity)
    return locate(document, [(candidates[i], score) for i, score in selected], language)


def maximal_marginal_relevance(
    relevance: "Tensor", vectors: "Tensor", top_k: int, diversity: float
) -> list[tuple[int, float]]:
    """Select candidates by Maximal Marginal Relevance (Carbonell and Goldstein, 1998).

    Args:
        relevance: Relevance of each candidate, of shape `(candidates,)`.
        vectors: Their vectors of length 1, of shape `(candidates, hidden_size)`.
        top_k: Number of candidates to select; all of them if there are fewer.
        diversity: The λ of `embedding`.

    Returns:
        Indices of the selected candidates with their scores at that moment, in order of selection.
    """
    import torch

    redundancy = torch.zeros_like(relevance)
    free = torch.ones_like(relevance, dtype=torch.bool)
    selected: list[tuple[int, float]] = []
    while len(selected) < min(top_k, len(relevance)):
        scores = (1 - diversity) * relevance - diversity * redundancy
        best = int(scores.masked_fill(~free, -torch.inf).argmax())
        similarity = vectors @ vectors[best]
        redundancy = torch.maximum(redundancy, similarity) if selected else similarity
        free[best] = False
        selected.append((best, float(scores[best])))
    return selected


def _phrases(document: Document, max_words: int, language: str) -> Iterator[str]:
    """Yield the runs of words with only spaces between them, with no common word at either end."""
    frequencies = general_frequencies(language)
    separator = "" if needs_segmentation(language) else " "

    def informative(word: str) -> bool:
        common = frequencies.get(word, 0) >= _COMMON_WORD
        return is_content_word(word) and len(word) > 1 and not common

    for sentence in document.sentences():
        sentence_words = words(sentence.text, language)
        for i, first in enumerate(sentence_words):
            if not informative(first.key):
                continue
            for j in range(i, min(i + max_words, len(sentence_words))):
                last = sentence_words[j]
                if j > i and sentence.text[sentence_words[j - 1].end : last.start].strip():
                    break
                if informative(last.key):
                    yield separator.join(word.key for word in sentence_words[i : j + 1])
