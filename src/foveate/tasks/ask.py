"""Question answering over documents: passages that answer, and answers that a model generates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.documents.sentences import UNSPACED_LANGUAGES, join_sentences
from foveate.inference import Encoder, as_encoder, as_encoder_or
from foveate.tasks.arguments import check_query, check_top_k
from foveate.tasks.relevance import is_likely, relevance

if TYPE_CHECKING:
    from foveate.inference import Answerer

MAX_SENTENCES = 5  # of a passage
MAX_WORDS = 100


@dataclass(frozen=True, slots=True)
class Passage:
    """Neighbouring sentences of a section that help to answer a question.

    Attributes:
        span: The sentences and their place: at most five, and at most 100 words unless one sentence
            alone is longer. The speaker is None if there are several.
        best: The one among them that best answers the question.
        score: The score of that sentence. With an encoder, its `foveate.tasks.relevance.relevance`;
            with a generative model, the highest share of the question's attention that any of
            its tokens received, averaged over the compressed layers.
        document_idx: Index of its document among those given.
        likely: Whether that sentence may answer the question, see
            `foveate.tasks.relevance.is_likely`; None with a generative model.
    """

    span: Span
    best: Span
    score: float
    document_idx: int
    likely: bool | None = None

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.span.text

    @property
    def quoted(self) -> Span:
        """What to show of it: all of its sentences."""
        return self.span


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        text: The text of the answer; None if the model is an encoder, which writes none.
        passages: The passages that best answer the question, best first.
    """

    text: str | None
    passages: tuple[Passage, ...]


def ask(
    query: str,
    documents: Document | Sequence[Document],
    *,
    top_k: int = 3,
    choices: Sequence[str] = (),
    model: "Answerer | Encoder | str | PathLike[str] | None" = None,
) -> Answer:
    """Answer a question from one document or several.

    Args:
        query: The question, in plain words.
        documents: One document or a sequence, of any length. A generative model reads several as
            the sections of one.
        top_k: Number of passages.
        choices: Answers to choose from, for a generative model.
        model: A loaded model, or the name or path of its checkpoint; by default
            foveate's own model. An encoder finds passages. A T5 reads everything and writes an
            answer; the passages are those that the question attends to most.

    Raises:
        ValueError: The question is empty, there are no documents, `top_k` is below 1, the model is
            of an unsupported kind, or there are choices but the model is not generative.

    Example:
        >>> from foveate import Document, ask
        >>> parts = [("Fish", "Cod swim. They eat herring."), ("Salt", "Salt is white.")]
        >>> answer = ask("What do fish live on?", Document.from_sections("Sea", parts), top_k=1)
        >>> answer.passages[0].span.text, answer.passages[0].best.text
        ('Cod swim. They eat herring.', 'They eat herring.')
    """
    check_query(query)
    check_top_k(top_k)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to ask: give at least one")
    if not (model is None or isinstance(model, Encoder)):
        from foveate.inference import Answerer  # takes seconds

        loaded = as_encoder_or(Answerer, model)
    else:
        loaded = as_encoder(model)
    text: str | None = None
    if not isinstance(loaded, Encoder):
        text, sentence_scores = loaded.answer(query, Document.merge(documents), choices=choices)
    elif choices:
        raise ValueError("only a generative model takes choices: name a T5 checkpoint")
    else:
        sentence_scores = torch.cat(relevance(query, documents, loaded.encode(documents), loaded))
    encoder = loaded if isinstance(loaded, Encoder) else None
    return Answer(text, best_passages(documents, sentence_scores, top_k, encoder))


def best_passages(
    documents: Sequence[Document],
    sentence_scores: Tensor,
    top_k: int,
    encoder: Encoder | None = None,
) -> tuple[Passage, ...]:
    """Return non-overlapping passages around the best sentences; ties stay in document order.

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
                    words.append(_num_words(sentence.text, document.language))
            num_sections += 1
    windows = _windows(sentence_scores, section_idx, words, top_k)
    spans = {idx: documents[idx].spans() for idx in {document_idx[best] for _, best, _ in windows}}
    passages = []
    for first, best, last in windows:
        idx = document_idx[best]
        offset = document_idx.index(idx)
        inside = spans[idx][first - offset : last + 1 - offset]
        span = _join(documents[idx], inside)
        score = float(sentence_scores[best])
        likely = None if encoder is None else is_likely(score, encoder)
        passages.append(Passage(span, inside[best - first], score, idx, likely))
    return tuple(passages)


def _windows(
    scores: Tensor, section_idx: Sequence[int], words: Sequence[int], top_k: int
) -> list[tuple[int, int, int]]:
    """Return the first, the best and the last sentence of each passage, best passages first.

    Each passage starts from the best sentence that is not in a passage yet, and grows by the
    neighbour with the higher score as long as one fits.
    """
    value = scores.tolist()
    is_free = [True] * len(value)
    windows: list[tuple[int, int, int]] = []
    for best in scores.argsort(descending=True, stable=True).tolist():
        if len(windows) == top_k:
            break
        if not is_free[best]:
            continue
        first = last = best
        room = MAX_WORDS - words[best]
        while last - first + 1 < MAX_SENTENCES:
            fitting = [
                i
                for i in (first - 1, last + 1)
                if 0 <= i < len(value)
                and is_free[i]
                and section_idx[i] == section_idx[best]
                and words[i] <= room
            ]
            if not fitting:
                break
            added = max(fitting, key=lambda i: value[i])
            first, last = min(first, added), max(last, added)
            room -= words[added]
        is_free[first : last + 1] = [False] * (last + 1 - first)
        windows.append((first, best, last))
    return windows


def _join(document: Document, sentences: Sequence[Span]) -> Span:
    """Return the span of neighbouring sentences."""
    text = join_sentences((sentence.text for sentence in sentences), document.language)
    first, last = sentences[0], sentences[-1]
    span = document.span(first.start, last.end, path=first.path, text=text)
    speakers = {sentence.speaker for sentence in sentences}
    return replace(span, speaker=first.speaker if len(speakers) == 1 else None)


def _num_words(text: str, language: str | None) -> int:
    """Count words; in scripts without spaces, about two characters make a word."""
    return len(text) // 2 if language in UNSPACED_LANGUAGES else len(text.split())
