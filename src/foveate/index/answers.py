"""Summaries and prompts of a library."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from foveate.documents import Document, Span
from foveate.documents.language import FALLBACK
from foveate.documents.sentences import join_sentences
from foveate.index.conditions import Mask
from foveate.index.search import Request
from foveate.index.snapshot import Snapshot
from foveate.index.vectors import document_vectors
from foveate.inference import Encoder
from foveate.tasks.candidates import candidates
from foveate.tasks.context import Prompt, fit, weigh
from foveate.tasks.prompt import outline
from foveate.tasks.summarize import DEFAULT_SENTENCES, Summary, SummarySentence, choose
from foveate.tasks.tokens import Counter

_DOCUMENTS = 10

Unpack = Callable[[int], Document]
"""Returns the document with a given number."""


@dataclass(frozen=True, slots=True)
class LibrarySentence(SummarySentence):
    """A sentence of a summary of a library.

    Attributes:
        document_idx: The number of its document, as `Index.document` takes it.
    """

    document_idx: int


def only_document(snapshot: Snapshot, allowed: Mask | None) -> int:
    """Return the number of the one document that has allowed sentences.

    Raises:
        ValueError: There is none, or there are several.
    """
    documents = np.unique(
        snapshot.sentence_document if allowed is None else snapshot.sentence_document[allowed]
    )
    if len(documents) != 1:
        raise ValueError(
            f"{len(documents):,} documents match, and without a query, one is summarized: choose "
            "it by its path, or give a query"
        )
    return int(snapshot.numbers[documents[0]])


def of_library(summary: Summary, number: int) -> Summary:
    """Return the summary of a document with the number of that document."""
    return Summary(
        summary.text,
        tuple(LibrarySentence(one.span, one.score, number) for one in summary.sentences),
    )


def summarize(
    query: str,
    snapshot: Snapshot,
    encoder: Encoder,
    sentences: int | None,
    words: int | None,
    allowed: Mask | None,
    unpack: Unpack,
) -> Summary:
    """Choose sentences about a query from the documents that match it best.

    They are ranked as `Index.search` ranks sentences, and chosen as `foveate.summarize` chooses.

    Args:
        query: What the summary is about.
        snapshot: The library.
        encoder: The model that made it.
        sentences: Budget in sentences.
        words: Budget in words instead.
        allowed: `(sentences,)`, those that may be chosen; None for all.
        unpack: Returns the document with a given number.

    Returns:
        The summary. Sentences of the same document are kept together, in its order; those of the
        document whose sentence was chosen first come first.
    """
    if not snapshot.num_documents:
        return Summary("", ())
    request = Request(query, snapshot, encoder, "document")
    documents, _ = request.best(_DOCUMENTS, allowed)
    rows: list[int] = []
    spans: list[Span] = []
    numbers: list[int] = []
    for document_idx in documents.tolist():
        number = int(snapshot.numbers[document_idx])
        document = unpack(number)
        document_spans = document.spans()
        start = int(snapshot.sentence_starts[document_idx])
        for i in candidates(document, skip_backchannels=False):
            if allowed is None or allowed[start + i]:
                rows.append(start + i)
                spans.append(document_spans[i])
                numbers.append(number)
    if not rows:
        return Summary("", ())
    idx = np.array(rows)
    costs = [1 if words is None else len(span.text.split()) for span in spans]
    scores = request.score_sentences(idx)
    chosen = choose(
        torch.from_numpy(scores),
        torch.from_numpy(snapshot.sentences[idx].astype(np.float64)),
        [span.text for span in spans],
        torch.tensor(costs),
        words or sentences or DEFAULT_SENTENCES,
    )
    in_order_of_choice = list(dict.fromkeys(numbers[i] for i in chosen))
    chosen.sort(key=lambda i: (in_order_of_choice.index(numbers[i]), i))
    picked = tuple(LibrarySentence(spans[i], float(scores[i]), numbers[i]) for i in chosen)
    language = snapshot.language or FALLBACK
    return Summary(join_sentences((one.span.text for one in picked), language), picked)


def context(
    query: str | None,
    snapshot: Snapshot,
    encoder: Encoder,
    tokens: int,
    count: Counter,
    allowed: Mask | None,
    unpack: Unpack,
) -> Prompt:
    """Show the documents that match a query best, or one document; see `foveate.context`.

    Args:
        query: What is looked for; without it, one document must be allowed.
        snapshot: The library.
        encoder: The model that made it.
        tokens: The budget.
        count: Counts tokens.
        allowed: `(sentences,)`, those that may be shown; None for all.
        unpack: Returns the document with a given number.

    Raises:
        ValueError: Nothing is allowed, or without a query several documents; or the budget is too
            small.
    """
    if query is None:
        numbers = [only_document(snapshot, allowed)]
    else:
        idx, _ = Request(query, snapshot, encoder, "document").best(_DOCUMENTS, allowed)
        numbers = [int(snapshot.numbers[i]) for i in idx.tolist()]
    if not numbers:
        raise ValueError("no document of the library matches: give other conditions")
    documents = [unpack(number) for number in numbers]
    parts = outline(documents)
    vectors = [document_vectors(snapshot, number) for number in numbers]
    weights = weigh(query, documents, vectors, parts, encoder)
    if allowed is not None:
        starts, ends = snapshot.sentence_starts, snapshot.sentence_ends
        rows = snapshot.document_idx(np.array(numbers)).tolist()
        may_show = np.concatenate([allowed[starts[i] : ends[i]] for i in rows])
        weights = weights * may_show
        parts = [
            part._replace(
                passages=tuple(
                    filter(None, ([i for i in one if may_show[i]] for one in part.passages))
                )
            )
            for part in parts
        ]
    prompt = fit(documents, parts, weights, tokens, count)
    of_library = {number: numbers[idx] for number, idx in prompt.document_idx.items()}
    return replace(prompt, document_idx=of_library)
