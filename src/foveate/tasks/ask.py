"""Questions about documents: the passages that answer them, and answers written by a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike

import torch
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.inference import Answerer, Encoder, as_encoder_or
from foveate.tasks.arguments import check_query, check_top_k
from foveate.tasks.search import relevance_scores


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph that helps to answer a question.

    Attributes:
        span: The paragraph and its place.
        score: With an encoder, the highest `foveate.tasks.relevance.relevance` of its sentences;
            with a model that writes, the highest share of the question's attention that any of
            its tokens received, averaged over the compressed layers.
        document_idx: Index of its document among those given.
    """

    span: Span
    score: float
    document_idx: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        text: The text of the answer; None if the model is an encoder, which writes none.
        passages: The passages that answer best, best first.
    """

    text: str | None
    passages: tuple[Passage, ...]


def ask(
    query: str,
    documents: Document | Sequence[Document],
    *,
    top_k: int = 3,
    choices: Sequence[str] = (),
    model: Answerer | Encoder | str | PathLike[str] | None = None,
) -> Answer:
    """Answer a question from one document or several.

    Args:
        query: The question, in plain words.
        documents: One document or a sequence, of any length. A model that writes reads several
            as the sections of one.
        top_k: Number of passages.
        choices: Answers to choose from, for a model that writes.
        model: A loaded model, or the name or path of its checkpoint; by default the encoder
            all-MiniLM-L6-v2. An encoder finds passages. A T5 reads everything and writes an
            answer; the passages are those that the question attends to most.

    Raises:
        ValueError: The question is empty, there are no documents, `top_k` is below 1, the model
            is of another kind, or there are choices but no model that writes.

    Example:
        >>> from foveate import Document, ask
        >>> parts = [("Fish", "Cod swim. They eat herring."), ("Salt", "Salt is white.")]
        >>> answer = ask("What do fish live on?", Document.from_sections("Sea", parts), top_k=1)
        >>> answer.passages[0].span.text, answer.passages[0].span.path
        ('Cod swim. They eat herring.', ('Fish',))
    """
    check_query(query)
    check_top_k(top_k)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to ask: give at least one")
    loaded = as_encoder_or(Answerer, model)
    text: str | None = None
    if isinstance(loaded, Answerer):
        text, sentence_scores = loaded.answer(query, Document.merge(documents), choices=choices)
    elif choices:
        raise ValueError("only a model that writes takes choices: name a T5 checkpoint")
    else:
        query_vector = loaded.encode_texts(query)
        sentence_scores = torch.cat(
            [
                relevance_scores(document, vectors, query_vector)
                for document, vectors in zip(documents, loaded.encode(documents), strict=True)
            ]
        )
    return Answer(text, _best_passages(documents, sentence_scores, top_k))


def _best_passages(
    documents: Sequence[Document], sentence_scores: Tensor, top_k: int
) -> tuple[Passage, ...]:
    """Return the paragraphs with the best sentences; ties are in the order of the documents."""
    passages: list[Passage] = []
    first = 0
    for idx, document in enumerate(documents):
        for path, section in document.walk():
            for paragraph in section.paragraphs:
                sentences = paragraph.sentences
                scores = sentence_scores[first : first + len(sentences)]
                first += len(sentences)
                text = " ".join(sentence.text for sentence in sentences)
                span = document.span(sentences[0].start, sentences[-1].end, path=path, text=text)
                span = replace(span, speaker=paragraph.speaker)
                passages.append(Passage(span, float(scores.max()), idx))
    return tuple(sorted(passages, key=lambda passage: -passage.score)[:top_k])
