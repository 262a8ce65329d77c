"""Passages: neighbouring sentences around those that match best."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from foveate.documents import Document, Span
from foveate.documents.sentences import UNSPACED_LANGUAGES, join_sentences
from foveate.tasks.hits import Hit
from foveate.tasks.weights import is_likely

if TYPE_CHECKING:
    from torch import Tensor

    from foveate.inference import Encoder

MAX_SENTENCES = 5  # of a passage
_MAX_WORDS = 100


def best_passages(
    documents: Sequence[Document],
    sentence_scores: "Tensor",
    top_k: int,
    encoder: "Encoder | None" = None,
) -> list[Hit]:
    """Return passages around the best sentences, which do not overlap; ties stay in order.

    Args:
        documents: Documents.
        sentence_scores: `(sentences,)`, the scores of the sentences of all documents.
        top_k: Number of passages.
        encoder: The encoder by which they were scored, if one did, and which says what is likely.
    """
    document_idx: list[int] = []
    section_idx: list[int] = []  # counted over all documents
    words: list[int] = []
    num_sections = 0
    for idx, document in enumerate(documents):
        for _, section in document.walk():
            for paragraph in section.paragraphs:
                for sentence in paragraph.sentences:
                    document_idx.append(idx)
                    section_idx.append(num_sections)
                    words.append(num_words(sentence.text, document.language))
            num_sections += 1
    found = list(windows(sentence_scores.tolist(), section_idx, words, top_k))
    hits = []
    for first, best, last in found:
        idx = document_idx[best]
        offset = document_idx.index(idx)
        inside = documents[idx].spans(range(first - offset, last + 1 - offset))
        score = float(sentence_scores[best])
        hits.append(
            Hit(
                join_spans(inside, documents[idx].language),
                inside[best - first],
                score,
                idx,
                None if encoder is None else is_likely(score, encoder),
            )
        )
    return hits


def windows(
    scores: Sequence[float], runs: Sequence[int], words: Sequence[int], top_k: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the first, the best and the last sentence of each passage, best passages first.

    Each passage starts from the best sentence that is not in a passage yet, and grows by the
    neighbour with the higher score as long as one fits.

    Args:
        scores: Of each sentence.
        runs: Equal for sentences that follow each other in a section.
        words: The length of each sentence.
        top_k: Number of passages.
    """
    is_free = [True] * len(scores)
    for best in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if not is_free[best]:
            continue
        if top_k == 0:
            return
        top_k -= 1
        first = last = best
        room = _MAX_WORDS - words[best]
        while last - first + 1 < MAX_SENTENCES:
            fitting = [
                i
                for i in (first - 1, last + 1)
                if 0 <= i < len(scores)
                and is_free[i]
                and runs[i] == runs[best]
                and words[i] <= room
            ]
            if not fitting:
                break
            added = max(fitting, key=lambda i: scores[i])
            first, last = min(first, added), max(last, added)
            room -= words[added]
        is_free[first : last + 1] = [False] * (last + 1 - first)
        yield first, best, last


def join_spans(sentences: Sequence[Span], language: str | None) -> Span:
    """Return the span of neighbouring sentences."""
    speakers = {sentence.speaker for sentence in sentences}
    return replace(
        sentences[0],
        end=sentences[-1].end,
        text=join_sentences((sentence.text for sentence in sentences), language),
        speaker=sentences[0].speaker if len(speakers) == 1 else None,
        boxes=tuple(chain.from_iterable(sentence.boxes for sentence in sentences)),
    )


def num_words(text: str, language: str | None) -> int:
    """Count words; in scripts without spaces, about two characters make a word."""
    return len(text) // 2 if language in UNSPACED_LANGUAGES else len(text.split())
