"""Summarization: a document's most central sentences, or a text that a model generates."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document, as_document
from foveate.documents.sentences import join_sentences
from foveate.inference import DocumentVectors, Encoder, as_encoder, as_encoder_or
from foveate.tasks.arguments import check_budget, check_query
from foveate.tasks.candidates import abstract, candidates, is_paper, is_story
from foveate.tasks.centrality import SentencePositions, centrality, closeness
from foveate.tasks.citations import Written, trace
from foveate.tasks.hits import Hit
from foveate.tasks.relevance import encode_query, relevance
from foveate.tasks.surroundings import completed

if TYPE_CHECKING:
    from foveate.inference import Summarizer

DEFAULT_SENTENCES = 5
WORDS_PER_SENTENCE = 25  # about as many as chosen sentences have

# The score that a sentence loses per unit of cosine with a sentence that is already chosen; it
# decides between sentences of similar scores. (ROUGE on ScisummNet hardly depends on it between 0
# and 0.3.)
REDUNDANCY_PENALTY = 1 / 6
# A sentence that shares more of its trigrams with a chosen one repeats it, and is chosen only if
# nothing else is left. (Cosines do not say so: those of neighbours in a passage are above 0.9.)
REPETITION_THRESHOLD = 0.5
# The score that a sentence gains per standard deviation of its salience. (Found on 64 texts of the
# training parts. With it, the position of a sentence need not count: the salience already reflects
# it.)
SALIENCE_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.

    Attributes:
        text: The summary.
        sentences: The document's sentences that it consists of, in the document's order; empty if
            a model wrote it.
        written: If a model wrote it, its sentences, with those of the document that support them.
    """

    text: str
    sentences: tuple[Hit, ...]
    written: Written | None = None


def summarize(
    document: Document,
    *,
    query: str | None = None,
    sentences: int | None = None,
    words: int | None = None,
    context: int = 0,
    model: "Summarizer | Encoder | str | PathLike[str] | None" = None,
) -> Summary:
    """Summarize a document.

    An encoder chooses sentences one by one, each time the one with the highest

        c(s) - x/6,    x = max over the chosen s' of ⟨s, s'⟩, at least 0,

    among those that fit the rest of the budget and, if there are any, share at most half of their
    trigrams with a chosen one. For an encoder that rates sentences, as foveate's own does,

        c(s) = mean(⟨s, S⟩, ⟨s, D⟩, ⟨s, t⟩) + 0.3 z(s)

    where the mean is `foveate.tasks.centrality.closeness`, and z is the salience, scaled to mean 0
    and variance 1 in the document; z is omitted for a story, since such encoders know nothing of
    stories. For others, c is `foveate.tasks.centrality.centrality`, and with a query it is
    `relevance`.

    Unless there is nothing else, the sentences are those of `foveate.tasks.candidates.candidates`:
    whole sentences of running text and lists. If the encoder rates sentences, those of the
    document's own `abstract` join them, even if they point back. A story is cut into as many parts
    of equal length as the summary has sentences (one for each 25 words), and without a query each
    part gives one sentence, since no part says what the others say.

    Args:
        document: The document.
        query: What the summary should be about.
        sentences: Budget in sentences; 5 by default.
        words: Budget in words instead. If every sentence alone exceeds it, the summary is the best
            sentence.
        context: Number of sentences that `Hit.sentences` has before and after each of them.
        model: A loaded model, or the name or path of its checkpoint; by default
            foveate's own model. An encoder chooses sentences; a sequence-to-sequence model writes
            the summary in its own words, for which foveate's own model finds the sources.

    Raises:
        ValueError: Both budgets are given, a budget is below 1, the query is empty, or a number of
            sentences is given to a generative model.

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
    _check(query, sentences, words)
    document = as_document(document)
    if not (model is None or isinstance(model, Encoder)):
        from foveate.inference import Summarizer  # takes seconds

        loaded = as_encoder_or(Summarizer, model)
    else:
        loaded = as_encoder(model)
    if isinstance(loaded, Encoder):
        vectors = loaded.encode(document)
        return extract(
            document,
            vectors,
            loaded,
            query=query,
            sentences=sentences,
            words=words,
            context=context,
        )
    if sentences is not None:
        raise ValueError(
            "a generative model makes sentences of its own: give a number of words instead"
        )
    text = loaded.summarize(document, words=words, query=query)
    encoder = as_encoder(None)
    return Summary(text, (), trace(text, document, encoder.encode(document), encoder))


def extract(
    document: Document,
    vectors: DocumentVectors,
    encoder: Encoder,
    *,
    query: str | None = None,
    sentences: int | None = None,
    words: int | None = None,
    context: int = 0,
) -> Summary:
    """Summarize a document whose vectors are known; see `summarize`.

    Args:
        document: The document.
        vectors: Its vectors, of any length but 0.
        encoder: The encoder that made them.
        query: What the summary should be about.
        sentences: Budget in sentences; 5 by default.
        words: Budget in words instead.
        context: See `summarize`.

    Raises:
        ValueError: Both budgets are given, a budget is below 1, or the query is empty.
    """
    _check(query, sentences, words)
    budget = words or sentences or DEFAULT_SENTENCES
    spans = document.spans()
    tells_story = query is None and is_story(document)
    if query is not None:
        rows = candidates(document, skip_backchannels=False)
        encoded = encode_query(query, document.language, encoder)
        [scores] = relevance(encoded, [document], [vectors])
    else:
        rows = gist_candidates(document, vectors)
        scores = importance(document, vectors, encoder)
    costs = torch.tensor([1 if words is None else len(spans[i].text.split()) for i in rows])
    part_idx = None
    if tells_story:
        num_parts = budget if words is None else -(-budget // WORDS_PER_SENTENCE)
        part_idx = torch.tensor(rows) * num_parts // len(spans)
    texts = [spans[i].text for i in rows]
    chosen = choose(scores[rows], vectors.sentences[rows], texts, costs, budget, part_idx)
    picked = [Hit(spans[i], spans[i], float(scores[i]), 0) for i in sorted(rows[j] for j in chosen)]
    text = join_sentences((one.text for one in picked), document.language)
    return Summary(text, tuple(completed(picked, [document], context)))


def importance(document: Document, vectors: DocumentVectors, encoder: Encoder) -> Tensor:
    """Score how central each sentence is to its document: c in `summarize`, without a query.

    Args:
        document: The document.
        vectors: Its vectors.
        encoder: The encoder that made them.

    Returns:
        `(sentences,)` float64, rounded, because vectors of equal texts in different batches differ
        by some 1e-7.
    """
    positions = SentencePositions.from_document(document)
    title = encoder.encode_texts(document.title) if document.title else None
    if vectors.salience is None:
        scores = centrality(vectors, positions, title, ends_count=is_paper(document))
    else:
        scores = closeness(vectors, positions, title)
        if not is_story(document):  # stories have no abstracts to learn from
            scores += SALIENCE_WEIGHT * _standardize(vectors.salience)
    return scores.double().round(decimals=5)


def gist_candidates(document: Document, vectors: DocumentVectors) -> list[int]:
    """Return the indices of the sentences that may say what a document says, see `summarize`."""
    rows = candidates(document, skip_backchannels=True)
    return rows if vectors.salience is None else sorted({*rows, *abstract(document)})


def _check(query: str | None, sentences: int | None, words: int | None) -> None:
    check_budget(sentences, words)
    if query is not None:
        check_query(query)


def _standardize(scores: Tensor) -> Tensor:
    """Scale scores to mean 0 and variance 1; equal ones to 0."""
    return (scores - scores.mean()) / scores.std(correction=0).clamp(min=1e-3)


def choose(
    scores: Tensor,
    vectors: Tensor,
    texts: Sequence[str],
    costs: Tensor,
    budget: int,
    part_idx: Tensor | None = None,
) -> list[int]:
    """Choose dissimilar rows with high scores whose total cost stays within the budget.

    Args:
        scores: `(rows,)`.
        vectors: `(rows, dimension)`.
        texts: The text of each row.
        costs: `(rows,)` int64.
        budget: Total cost allowed; if every single row exceeds it, the best one is chosen.
        part_idx: `(rows,)` int64, the part that each row belongs to. Rows of a part that has a
            chosen one are chosen only if nothing else is left.

    Returns:
        The rows, in the order of choice.
    """
    vectors = F.normalize(vectors, dim=-1)
    nearest = torch.zeros_like(scores)  # cosine with the closest of the chosen rows
    trigrams = [_trigrams(text) for text in texts]
    is_free = torch.ones_like(scores, dtype=torch.bool)
    is_repeated = torch.zeros_like(is_free)
    is_covered = torch.zeros_like(is_free)  # its part has a chosen row
    chosen: list[int] = []
    remaining = min(budget, int(costs.sum()))  # an int64 like the costs
    while (fits := is_free & (costs <= remaining)).any():
        faults = is_repeated.int() + is_covered.int()
        is_next = fits & (faults == faults[fits].min())
        gain = scores - REDUNDANCY_PENALTY * nearest
        best = int(gain.masked_fill(~is_next, -torch.inf).argmax())
        chosen.append(best)
        is_free[best] = False
        remaining -= int(costs[best])
        nearest = torch.maximum(nearest, vectors @ vectors[best])
        is_repeated |= torch.tensor(
            [len(its & trigrams[best]) > REPETITION_THRESHOLD * len(its) for its in trigrams]
        )
        if part_idx is not None:
            is_covered |= part_idx == part_idx[best]
    return chosen or [int(scores.argmax())]


def _trigrams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {*zip(words, words[1:], words[2:], strict=False)} or {tuple(words)}
