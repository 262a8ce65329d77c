"""Summaries and prompts of a library."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from foveate.documents import Span
from foveate.documents.sentences import join_sentences
from foveate.index.engine import Engine, keys_of
from foveate.index.rows import read_document
from foveate.index.schema import documents_of, pack_keys, vectors_of
from foveate.index.search import LibraryQuery, language_of
from foveate.index.vectors import read_vectors
from foveate.inference import Encoder
from foveate.tasks.candidates import candidates
from foveate.tasks.context import Prompt, fit, weigh
from foveate.tasks.prompt import outline
from foveate.tasks.summarize import DEFAULT_SENTENCES, Summary, SummarySentence, choose, extract
from foveate.tasks.tokens import Counter

_DOCUMENTS = 10


@dataclass(frozen=True, slots=True)
class LibrarySentence(SummarySentence):
    """A sentence of a summary of a library.

    Attributes:
        document_idx: The number of its document, as `Index.document` takes it.
    """

    document_idx: int


def only_document(engine: Engine, condition: Any) -> int:
    """Return the number of the one document that has sentences that satisfy a condition.

    Raises:
        ValueError: There is none, or there are several.
    """
    rows = engine.read(["document"], {"level": ["sentence"]}, condition)
    numbers = rows["document"].unique().to_pylist()
    if len(numbers) != 1:
        raise ValueError(
            f"{len(numbers):,} documents match, and without a query, one is summarized: choose "
            "it by its path, or give a query"
        )
    return int(numbers[0])


def summarize(
    query: str | None,
    engine: Engine,
    encoder: Encoder,
    sentences: int | None,
    words: int | None,
    condition: Any,
) -> Summary:
    """Choose sentences about a query from the documents that match it best, or of one document.

    They are ranked as `Index.search` ranks sentences, and chosen as `foveate.summarize` chooses.

    Args:
        query: What the summary is about; without it, one document must be allowed.
        engine: The library.
        encoder: The model that made it.
        sentences: Budget in sentences.
        words: Budget in words instead.
        condition: What the sentences that may be chosen satisfy.

    Returns:
        The summary. Sentences of the same document are kept together, in its order; those of the
        document whose sentence was chosen first come first.

    Raises:
        ValueError: Without a query, not one document is allowed.
    """
    if query is None:
        number = only_document(engine, condition)
        document, vectors = read_document(engine, number), read_vectors(engine, number)
        summary = extract(document, vectors, encoder, sentences=sentences, words=words)
        of_document = [LibrarySentence(x.span, x.score, number) for x in summary.sentences]
        return Summary(summary.text, tuple(of_document))
    if not engine.state.num_documents:
        return Summary("", ())
    request = LibraryQuery(query, engine, encoder, "document", condition)
    documents, _, inside = request.units(_DOCUMENTS)
    if not documents.num_rows:
        return Summary("", ())
    keys: list[int] = []
    spans: list[Span] = []
    numbers: list[int] = []
    allowed = set(inside["key"].to_pylist())
    for number in documents_of(keys_of(documents)).tolist():
        document = read_document(engine, number)
        document_spans = document.spans()
        chosen_from = list(candidates(document, skip_backchannels=False))
        of_document = pack_keys(number, "sentence", chosen_from).tolist()
        for i, key in zip(chosen_from, of_document, strict=True):
            if key in allowed:
                keys.append(key)
                spans.append(document_spans[i])
                numbers.append(number)
    if not keys:
        return Summary("", ())
    rows = inside.take(np.searchsorted(keys_of(inside), keys))
    costs = [1 if words is None else len(span.text.split()) for span in spans]
    scores = request.score_sentences(rows)
    chosen = choose(
        torch.from_numpy(scores),
        torch.from_numpy(vectors_of(rows["vector"]).astype(np.float64)),
        [span.text for span in spans],
        torch.tensor(costs),
        words or sentences or DEFAULT_SENTENCES,
    )
    in_order_of_choice = list(dict.fromkeys(numbers[i] for i in chosen))
    chosen.sort(key=lambda i: (in_order_of_choice.index(numbers[i]), i))
    picked = tuple(LibrarySentence(spans[i], float(scores[i]), numbers[i]) for i in chosen)
    texts = (one.span.text for one in picked)
    return Summary(join_sentences(texts, language_of(engine)), picked)


def context(
    query: str | None,
    engine: Engine,
    encoder: Encoder,
    tokens: int,
    count: Counter,
    condition: Any,
) -> Prompt:
    """Show the documents that match a query best, or one document; see `foveate.context`.

    Args:
        query: What is looked for; without it, one document must be allowed.
        engine: The library.
        encoder: The model that made it.
        tokens: The budget.
        count: Counts tokens.
        condition: What the sentences that may be shown satisfy.

    Raises:
        ValueError: Nothing is allowed, or without a query several documents; or the budget is too
            small.
    """
    if query is None:
        numbers = [only_document(engine, condition)]
    else:
        request = LibraryQuery(query, engine, encoder, "document", condition)
        numbers = documents_of(keys_of(request.units(_DOCUMENTS)[0])).tolist()
    if not numbers:
        raise ValueError("no document of the library matches: give other conditions")
    documents = [read_document(engine, number) for number in numbers]
    parts = outline(documents)
    vectors = [read_vectors(engine, number) for number in numbers]
    weights = weigh(query, documents, vectors, parts, encoder)
    if condition:
        allowed = engine.read(["key"], {"document": numbers}, condition)["key"].to_numpy()
        keys = [
            pack_keys(number, "sentence", np.arange(len(one.sentences)))
            for number, one in zip(numbers, vectors, strict=True)
        ]
        weights = weights * np.isin(np.concatenate(keys), allowed)
    prompt = fit(documents, parts, weights, tokens, count)
    of_library = {number: numbers[idx] for number, idx in prompt.document_idx.items()}
    return replace(prompt, document_idx=of_library)
