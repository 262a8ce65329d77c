"""Question answering over documents: passages that answer, and answers that a model generates."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from foveate.documents import Document, as_documents
from foveate.inference import Encoder, as_encoder, as_encoder_or
from foveate.tasks.arguments import check_query, check_top_k
from foveate.tasks.hits import Hit
from foveate.tasks.passages import best_passages
from foveate.tasks.search import search
from foveate.tasks.surroundings import completed

if TYPE_CHECKING:
    from foveate.inference import Answerer
    from foveate.inference.reranker import Reranker


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        text: The text of the answer; None if the model is an encoder, which writes none.
        passages: The passages that best answer the question, best first.
    """

    text: str | None
    passages: tuple[Hit, ...]


def ask(
    query: str,
    documents: Document | Sequence[Document],
    *,
    top_k: int = 3,
    choices: Sequence[str] = (),
    model: "Answerer | Encoder | str | PathLike[str] | None" = None,
    rerank: "Reranker | str | PathLike[str] | None" = None,
    explain: bool = False,
    thorough: bool = False,
    context: int = 0,
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
        rerank: With an encoder, see `foveate.search`.
        explain: With an encoder, see `foveate.search`.
        thorough: With an encoder, see `foveate.search`.
        context: See `foveate.search`.

    Raises:
        ValueError: The question is empty, there are no documents, `top_k` is below 1, the model is
            of an unsupported kind, there are choices but the model is not generative, or it is and
            there is a reranker; or see `foveate.search`.

    Example:
        >>> from foveate import Document, ask
        >>> parts = [("Fish", "Cod swim. They eat herring."), ("Salt", "Salt is white.")]
        >>> answer = ask("What do fish eat?", Document.from_sections("Sea", parts), top_k=1)
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
    if isinstance(loaded, Encoder):
        if choices:
            raise ValueError("only a generative model takes choices: name a T5 checkpoint")
        found = search(
            query,
            documents,
            top_k=top_k,
            model=loaded,
            rerank=rerank,
            explain=explain,
            thorough=thorough,
            context=context,
        )
        return Answer(None, tuple(found))
    if rerank is not None or explain:
        option = "explain" if rerank is None else "rerank"
        raise ValueError(f"a generative model shows what it attended to: leave out {option}")
    text, scores = loaded.answer(query, Document.merge(documents), choices=choices)
    passages = best_passages(documents, scores, top_k)
    return Answer(text, tuple(completed(passages, documents, context)))
