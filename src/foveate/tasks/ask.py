"""Questions about documents: the passages that answer, and an answer in a checkpoint's words."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.inference import Answerer, Encoder, as_encoder
from foveate.models.loading import load_config
from foveate.tasks.arguments import check_query, check_top_k
from foveate.tasks.search import relevance_scores


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph that bears on a question.

    Attributes:
        span: The paragraph and its place.
        score: With an encoder, that of its best sentence by `foveate.tasks.relevance.relevance`;
            with a model that answers, the highest share of the question's attention that one of
            its tokens got, averaged over the compressed layers.
        document_idx: Index of its document among those given.
    """

    span: Span
    score: float
    document_idx: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What documents say to a question.

    Attributes:
        text: The answer, None where no model was asked to write one.
        passages: The best first.
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
        documents: One document or a sequence, of any length. A model that writes reads them as
            the sections of one.
        top_k: Number of passages.
        choices: Answers to choose from, for a model that writes.
        model: An encoder finds the passages; a T5 checkpoint reads everything, writes an answer,
            and the passages are those that its question looked at most. Loaded, or its name or
            path; by default the encoder all-MiniLM-L6-v2.

    Raises:
        ValueError: An empty question, no documents, `top_k` below 1, a model of another kind, or
            choices without a model that writes.

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
    loaded = _load(model)
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


def _load(model: Answerer | Encoder | str | PathLike[str] | None) -> Answerer | Encoder:
    if isinstance(model, Answerer):
        return model
    if model is None or isinstance(model, Encoder) or not load_config(model).is_encoder_decoder:
        return as_encoder(model)
    return Answerer.from_pretrained(model)


def _best_passages(
    documents: Sequence[Document], sentence_scores: Tensor, top_k: int
) -> tuple[Passage, ...]:
    """The paragraphs with the best sentences; ties in the order of the documents."""
    passages: list[Passage] = []
    first = 0
    for idx, document in enumerate(documents):
        for path, section in document.walk():
            for paragraph in section.paragraphs:
                sentences = paragraph.sentences
                scores = sentence_scores[first : first + len(sentences)]
                first += len(sentences)
                span = Span(
                    document=document.name,
                    path=path,
                    page=None,
                    start=sentences[0].start,
                    end=sentences[-1].end,
                    text=" ".join(sentence.text for sentence in sentences),
                    speaker=paragraph.speaker,
                )
                passages.append(Passage(span, float(scores.max()), idx))
    return tuple(sorted(passages, key=lambda passage: -passage.score)[:top_k])
