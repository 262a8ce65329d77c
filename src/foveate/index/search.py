"""Search in a library: what `foveate.tasks.search` finds, without reading the documents."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foveate.documents import Span
from foveate.documents.language import FALLBACK
from foveate.documents.sentences import split_sentences
from foveate.index.conditions import Mask
from foveate.index.records import SPAN_COLUMNS, spans_of
from foveate.index.schema import DOCUMENT, SECTION, SENTENCE
from foveate.index.snapshot import Ints, Snapshot
from foveate.index.store import read
from foveate.index.words import Floats, match_words
from foveate.inference import Encoder
from foveate.tasks.arguments import Unit
from foveate.tasks.bm25 import terms
from foveate.tasks.relevance import WEIGHTS, sentence_weights
from foveate.tasks.search import Hit

EXACT_SENTENCES = 200_000
"""As many sentences as are all compared with a query; of more, those of the likeliest sections."""

SHARE_OF_SECTIONS = 0.1
"""The share of sections whose sentences are then compared."""

SENTENCES_BY_WORDS = 1000
"""Number of sentences whose sections are compared because of their words."""

_ROWS_PER_CHUNK = 16384
"""Vectors that are widened to float32 together: few threads' meetings, and little memory."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How well the parts of a library match a query: the means of `tasks.relevance.Matches`.

    Attributes:
        sentences: `(sentences,)`.
        units: Those of what is looked for: sentences, sections or documents.
    """

    sentences: Floats
    units: Floats


def score(
    query: str, snapshot: Snapshot, encoder: Encoder, by: Unit, allowed: Mask | None = None
) -> Scores:
    """Compare the parts of a library with a query.

    The vectors of the library are of float16; hence scores differ from those of
    `foveate.tasks.search` by up to about 1e-4. In a large library only the sentences of some
    sections are compared, see `_sections_to_compare`; the score of others is -inf.

    Args:
        query: The query.
        snapshot: The library.
        encoder: The model that made it.
        by: What is looked for.
        allowed: `(sentences,)`, the sentences of which one must be in what is found.
    """
    parts = [
        query[start:end] for start, end in split_sentences(query, snapshot.language or FALLBACK)
    ]
    # Only documents are compared with each sentence of the query.
    texts = [query, *parts] if by == "document" else [query]
    vectors = torch.nn.functional.normalize(encoder.encode_queries(texts), dim=-1)
    words = match_words(list(dict.fromkeys(terms(query))), snapshot)
    weights = WEIGHTS[encoder.context]
    of_sentence, of_section, words_of_sentence, words_of_section = sentence_weights(
        query, encoder.context
    )
    all_section_cosines = _cosines(snapshot.sections, vectors)
    section_cosines = all_section_cosines[:, 0]

    guesses = of_sentence * all_section_cosines + words_of_section * words[SECTION][:, None]
    compared = _sections_to_compare(guesses, words[SENTENCE], snapshot, by, allowed)
    if compared is None:
        cosines = _cosines(snapshot.sentences, vectors)
    else:
        idx = np.flatnonzero(compared[snapshot.section_idx])
        cosines = np.full((snapshot.num_sentences, len(vectors)), -np.inf, np.float32)
        cosines[idx] = _cosines(snapshot.sentences, vectors, idx)

    of_its_section = of_section * section_cosines + words_of_section * words[SECTION]
    sentences = (
        of_sentence * cosines[:, 0]
        + words_of_sentence * words[SENTENCE]
        + of_its_section[snapshot.section_idx]
    ).round(5)
    if by == "sentence":
        return Scores(sentences, sentences)
    if by == "section":
        closest = np.zeros(len(section_cosines))
        holding = snapshot.section_sizes > 0
        starts = snapshot.section_starts[holding]
        closest[holding] = np.maximum.reduceat(cosines[:, 0], starts)
        of_closest, of_section, of_words = weights.sections
        units = of_closest * closest + of_section * section_cosines + of_words * words[SECTION]
    else:
        maxima = np.maximum.reduceat(cosines[:, 1:], snapshot.sentence_starts, axis=0)
        closest = np.where(np.isfinite(maxima), maxima, 0).mean(1)
        of_closest, of_words = weights.documents
        units = of_closest * closest + of_words * words[DOCUMENT]
    return Scores(sentences, units.round(5))


def _sections_to_compare(
    guesses: Floats, words: Floats, snapshot: Snapshot, by: Unit, allowed: Mask | None
) -> Mask | None:
    """Choose the sections whose sentences are compared with a query, each as a whole.

    As long as these are not too many, they are all that are allowed. Otherwise they are those whose
    own vectors and words match best, since sentences are close to their section; and those of the
    sentences whose words match best.

    Args:
        guesses: `(sections, queries)`, how well the sentences of each section can be expected to
            match the query and each of its sentences.
        words: `(sentences,)`, b of each sentence.
        snapshot: The library.
        by: What is looked for.
        allowed: See `score`.

    Returns:
        `(sections,)`; None for all.
    """
    candidates = np.ones(len(guesses), np.bool_)
    if allowed is not None:
        candidates[:] = False
        candidates[snapshot.section_idx[allowed]] = True
        if by == "document":
            documents = np.unique(snapshot.section_document[candidates])
            candidates = np.isin(snapshot.section_document, documents)
    if snapshot.section_sizes[candidates].sum() <= EXACT_SENTENCES:
        return None if allowed is None else candidates
    compared = np.zeros(len(guesses), np.bool_)
    num_sections = int(np.ceil(SHARE_OF_SECTIONS * candidates.sum()))
    for column in guesses.T:
        compared[top(np.where(candidates, column, -np.inf), num_sections)] = True
    compared[snapshot.section_idx[top(words, SENTENCES_BY_WORDS)]] = True
    return compared & candidates


def find(
    query: str, snapshot: Snapshot, encoder: Encoder, by: Unit, top_k: int, allowed: Mask | None
) -> list[Hit]:
    """Find what matches a query best, among the sentences that are allowed and what holds them."""
    if not snapshot.num_documents:
        return []
    scores = score(query, snapshot, encoder, by, allowed)
    if allowed is not None:
        owner = {
            "sentence": np.arange(snapshot.num_sentences),
            "section": snapshot.section_idx,
            "document": snapshot.sentence_document,
        }[by]
        is_found = np.zeros(len(scores.units), np.bool_)
        is_found[owner[allowed]] = True
        scores = Scores(
            np.where(allowed, scores.sentences, -np.inf), np.where(is_found, scores.units, -np.inf)
        )
    best = top(scores.units, top_k)
    return _hits(best[np.isfinite(scores.units[best])], scores, snapshot, by)


def top(scores: Floats, top_k: int) -> Ints:
    """Return the indices of the highest scores, highest first; of equal ones, the first first.

    Example:
        >>> top(np.array([0.1, 0.7, 0.7, 0.2]), 3).tolist()
        [1, 2, 3]
    """
    if top_k < 1:
        return np.zeros(0, np.int64)
    if top_k < len(scores):
        least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    return candidates[np.argsort(-scores[candidates], kind="stable")[:top_k]]


def _hits(best: Ints, scores: Scores, snapshot: Snapshot, by: Unit) -> list[Hit]:
    """Return the hits of some sentences, sections or documents, with their places."""
    if not len(best):
        return []
    if by == "sentence":
        closest = best
        documents = snapshot.sentence_document[best]
    else:
        if by == "section":
            starts = snapshot.section_starts[best]
            own, total = snapshot.section_sizes[best], snapshot.section_totals[best]
            ends = starts + np.where(own > 0, own, total)
            documents = snapshot.section_document[best]
        else:
            starts = snapshot.sentence_starts[best]
            ends = snapshot.sentence_ends[best]
            documents = best
        closest = np.array(
            [
                start + int(scores.sentences[start:end].argmax())
                for start, end in zip(starts, ends, strict=True)
            ]
        )
    sentences = _spans(snapshot, "sentences", closest)
    if by == "sentence":
        spans = sentences
    elif by == "section":
        spans = _spans(snapshot, "sections", best)
    else:
        spans = _document_spans(snapshot, best)
    return [
        Hit(spans[int(unit)], sentences[int(sentence)], float(scores.units[unit]), int(number))
        for unit, sentence, number in zip(best, closest, snapshot.numbers[documents], strict=True)
    ]


def _spans(snapshot: Snapshot, name: str, idx: Ints) -> dict[int, Span]:
    """Return the spans of some sentences or sections, by their index."""
    ends = snapshot.sentence_ends if name == "sentences" else snapshot.section_ends
    keys = snapshot.keys(ends, idx).tolist()
    columns = SPAN_COLUMNS if name == "sentences" else SPAN_COLUMNS[: SPAN_COLUMNS.index("speaker")]
    with snapshot.store.explained():
        rows = read(snapshot.tables[name], columns, f"key IN ({', '.join(map(str, keys))})")
    by_key = dict(spans_of(rows, snapshot.sources))
    return {int(i): by_key[key] for i, key in zip(idx, keys, strict=True)}


def _document_spans(snapshot: Snapshot, idx: Ints) -> dict[int, Span]:
    """Return the spans of some documents, by their index: as `tasks.embed.document_span` does."""
    numbers = snapshot.numbers[idx].tolist()
    with snapshot.store.explained():
        rows = read(
            snapshot.tables["documents"],
            ("document", "title"),
            f"document IN ({', '.join(map(str, numbers))})",
        )
    titles = dict(zip(rows["document"].to_pylist(), rows["title"].to_pylist(), strict=True))
    firsts = snapshot.sentence_starts[idx]
    lasts = snapshot.sentence_ends[idx] - 1
    sentences = _spans(snapshot, "sentences", np.unique(np.concatenate([firsts, lasts])))
    return {
        int(i): Span(
            document=snapshot.sources[number],
            path=(),
            page=sentences[int(first)].page,
            start=sentences[int(first)].start,
            end=sentences[int(last)].end,
            text=titles[number],
            place=sentences[int(first)].place,
        )
        for i, number, first, last in zip(idx, numbers, firsts, lasts, strict=True)
    }


def _cosines(
    vectors: npt.NDArray[np.float16], queries: Tensor, idx: Ints | None = None
) -> npt.NDArray[np.float32]:
    """Return the products of vectors `(vectors, dimension)`, or some of them, and of queries."""
    num_vectors = len(vectors) if idx is None else len(idx)
    products = torch.empty(num_vectors, len(queries))
    buffer = torch.empty(_ROWS_PER_CHUNK, vectors.shape[1])
    for start in range(0, num_vectors, _ROWS_PER_CHUNK):
        chunk = slice(start, start + _ROWS_PER_CHUNK)
        half = torch.from_numpy(vectors[chunk] if idx is None else vectors[idx[chunk]])
        widened = buffer[: len(half)].copy_(half)
        torch.mm(widened, queries.T, out=products[chunk])
    return products.numpy()
