"""Summaries: a document's most central sentences, or a text that a model writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.inference import DocumentVectors, Encoder, Summarizer, as_encoder_or
from foveate.tasks.relevance import SentencePositions, centrality, relevance

DEFAULT_SENTENCES = 5

# The score that a sentence loses per unit of cosine with a sentence that is already chosen; it
# decides between sentences of similar scores. (ROUGE on ScisummNet hardly depends on it between 0
# and 0.3.)
REDUNDANCY_PENALTY = 1 / 6
# Above this cosine, sentences repeat each other and lose 1, which is more than scores differ by:
# they are chosen only if nothing else is left, as with encoders that place all sentences so close.
REPETITION_THRESHOLD = 0.9
# Anything shorter is a label or a lead-in rather than a sentence, and would only fill up the
# budget. In scripts that write a word with one or two characters, few sentences are that short.
MIN_SENTENCE_CHARACTERS = 20
# In speech, an utterance with fewer different words mostly shows that somebody listens ("yeah,
# OK"): a backchannel, as close to the centre of this meeting as to that of any other. (Found on
# QMSum's training part.)
MIN_UTTERANCE_WORDS = 10


@dataclass(frozen=True, slots=True)
class SummarySentence:
    """A sentence of a summary.

    Attributes:
        span: The sentence and its place.
        score: Its `foveate.tasks.relevance.centrality` or, with a query, its `relevance`.
    """

    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.

    Attributes:
        text: The summary.
        sentences: The document's sentences that it consists of, in the document's order; empty if
            a model wrote it.
    """

    text: str
    sentences: tuple[SummarySentence, ...]


@overload
def summarize(
    documents: Document,
    *,
    query: str | None = None,
    sentences: int | None = None,
    words: int | None = None,
    model: Summarizer | Encoder | str | PathLike[str] | None = None,
) -> Summary: ...


@overload
def summarize(
    documents: Sequence[Document],
    *,
    query: str | None = None,
    sentences: int | None = None,
    words: int | None = None,
    model: Summarizer | Encoder | str | PathLike[str] | None = None,
) -> list[Summary]: ...


def summarize(
    documents: Document | Sequence[Document],
    *,
    query: str | None = None,
    sentences: int | None = None,
    words: int | None = None,
    model: Summarizer | Encoder | str | PathLike[str] | None = None,
) -> Summary | list[Summary]:
    """Summarize one document, or each of several.

    An encoder chooses sentences one by one, each time the one with the highest

        c(s) - x/6 - [x > 0.9],    x = max over the chosen s' of ⟨s, s'⟩, at least 0,

    among those that fit the rest of the budget, where c is `foveate.tasks.relevance.centrality`
    or, with a query, `relevance`. Fragments of fewer than 20 characters are skipped unless there
    is nothing else; without a query, so are utterances of fewer than ten different words.

    Args:
        documents: One document or a sequence.
        query: What the summary should be about.
        sentences: Budget in sentences; 5 by default.
        words: Budget in words instead. If every sentence alone exceeds it, the summary is the best
            sentence.
        model: A loaded model, or the name or path of its checkpoint; by default the encoder
            all-MiniLM-L6-v2. An encoder chooses sentences; a sequence-to-sequence model writes
            the summary in its own words.

    Returns:
        The summary of the document; for a sequence, a list with one for each.

    Raises:
        ValueError: Both budgets are given, a budget is below 1, the query is empty, or a number of
            sentences is given to a model that writes.

    Example:
        >>> from foveate import Document, summarize
        >>> sea = Document.from_sections("Fish of the sea", [
        ...     ("Cod", "The cod is a fish of cold seas. It was cheap in 1950."),
        ...     ("Eel", "The eel is a long fish. Nobody knows why."),
        ... ])
        >>> summary = summarize(sea, sentences=2)
        >>> summary.text
        'The cod is a fish of cold seas. The eel is a long fish.'
        >>> [sentence.span.path for sentence in summary.sentences]
        [('Cod',), ('Eel',)]
    """
    if sentences is not None and words is not None:
        raise ValueError("give a number of sentences or of words, not both")
    for name, budget in (("sentences", sentences), ("words", words)):
        if budget is not None and budget < 1:
            raise ValueError(f"{name} must be at least 1, got {budget}")
    if query is not None and not query.strip():
        raise ValueError("the query is empty: say what the summary is to be about, or leave it out")
    listed = as_documents(documents)
    loaded = as_encoder_or(Summarizer, model)
    if isinstance(loaded, Summarizer):
        if sentences is not None:
            raise ValueError(
                "a model that writes makes sentences of its own: give a number of words instead"
            )
        summaries = [
            Summary(loaded.summarize(document, words=words, query=query), ()) for document in listed
        ]
    else:
        summaries = _extract(listed, loaded, query, sentences, words)
    return summaries[0] if isinstance(documents, Document) else summaries


def _extract(
    documents: Sequence[Document],
    encoder: Encoder,
    query: str | None,
    sentences: int | None,
    words: int | None,
) -> list[Summary]:
    budget = words or sentences or DEFAULT_SENTENCES
    query_vector = None if query is None else encoder.encode_texts(query)
    summaries = []
    for document, vectors in zip(documents, encoder.encode(documents), strict=True):
        positions = SentencePositions.from_document(document)
        if query_vector is not None:
            scores = relevance(vectors, positions, query_vector)
        else:
            title = encoder.encode_texts(document.title) if document.title else None
            scores = centrality(vectors, positions, title)
        spans = document.spans()
        chosen = _choose_sentences(spans, vectors, scores, budget, words is not None, query is None)
        picked = tuple(SummarySentence(spans[i], float(scores[i])) for i in sorted(chosen))
        summaries.append(Summary(" ".join(sentence.span.text for sentence in picked), picked))
    return summaries


def _choose_sentences(
    spans: Sequence[Span],
    vectors: DocumentVectors,
    scores: Tensor,
    budget: int,
    in_words: bool,
    skip_backchannels: bool,
) -> list[int]:
    """Choose among the sentences that say something or, if none does, among all."""
    candidates = [
        i
        for i, span in enumerate(spans)
        if len(span.text) >= MIN_SENTENCE_CHARACTERS
        and not (skip_backchannels and span.speaker is not None and _is_backchannel(span.text))
    ] or list(range(len(spans)))
    costs = torch.tensor([len(spans[i].text.split()) if in_words else 1 for i in candidates])
    rows = choose(scores[candidates], vectors.sentences[candidates], costs, budget)
    return [candidates[row] for row in rows]


def _is_backchannel(utterance: str) -> bool:
    words = {word for word in utterance.lower().split() if any(map(str.isalpha, word))}
    return len(words) < MIN_UTTERANCE_WORDS


def choose(scores: Tensor, vectors: Tensor, costs: Tensor, budget: int) -> list[int]:
    """Choose rows of high score that differ and together cost no more than the budget.

    Args:
        scores: `(rows,)`.
        vectors: `(rows, dimension)`.
        costs: `(rows,)` int64.
        budget: Total cost allowed; if every single row exceeds it, the best one is chosen.

    Returns:
        The rows, in the order of choice.
    """
    vectors = F.normalize(vectors, dim=-1)
    nearest = torch.zeros_like(scores)  # cosine with the closest of the chosen rows
    is_free = torch.ones_like(scores, dtype=torch.bool)
    chosen: list[int] = []
    remaining = budget
    while (fits := is_free & (costs <= remaining)).any():
        gain = scores - REDUNDANCY_PENALTY * nearest - (nearest > REPETITION_THRESHOLD).float()
        best = int(gain.masked_fill(~fits, -torch.inf).argmax())
        chosen.append(best)
        is_free[best] = False
        remaining -= int(costs[best])
        nearest = torch.maximum(nearest, vectors @ vectors[best])
    return chosen or [int(scores.argmax())]
