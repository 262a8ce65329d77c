"""Search in a library: the results of `foveate.tasks.search`, without reading the documents."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foveate.documents import Span
from foveate.documents.language import FALLBACK
from foveate.documents.sentences import split_sentences
from foveate.index.codes import in_threads
from foveate.index.conditions import Mask
from foveate.index.lance import read
from foveate.index.records import SPAN_COLUMNS, spans_of
from foveate.index.schema import DOCUMENT, SECTION, SENTENCE
from foveate.index.snapshot import Snapshot
from foveate.index.words import Floats, Ints
from foveate.inference import Encoder
from foveate.tasks.arguments import Unit
from foveate.tasks.hits import Hit
from foveate.tasks.passages import MAX_SENTENCES, join_spans, num_words, windows
from foveate.tasks.relevance import (
    WEIGHTS,
    is_likely,
    relative,
    sentence_weights,
    unrelated_cosines,
)
from foveate.tasks.terms import terms

EXACT_SENTENCES = 100_000
"""Up to this many sentences are all compared with a query; of more, those most likely to match."""

COMPARED_SENTENCES = 10_000
"""The least number of sentences that are then compared."""

COMPARED_SHARE = 0.01
"""The least share of the sentences that is then compared."""

_MARGIN = 0.1
"""How far a unit's closest sentence may be estimated below the highest estimate in the unit."""

_CANDIDATES_PER_RESULT = 4
"""Sections or documents that are compared as a whole for each one that is looked for."""

_ROWS_PER_CHUNK = 1024
"""Vectors that are widened to float32 together: they stay in the processor's cache."""


class Request:
    """A query with which the parts of a library are compared, as by `foveate.tasks.relevance`.

    The vectors of the library are float16, so scores differ from those of
    `foveate.tasks.search` by up to about 1e-4.

    Args:
        query: The query.
        snapshot: The library.
        encoder: The model that made it.
        by: What to find. Passages are found by their sentences, which are compared in their place.
    """

    def __init__(self, query: str, snapshot: Snapshot, encoder: Encoder, by: Unit) -> None:
        self.snapshot = snapshot
        self.encoder = encoder
        self.by = by
        texts = [query]
        if by == "document":  # only documents are compared with each sentence of the query
            language = snapshot.language or FALLBACK
            texts += [query[start:end] for start, end in split_sentences(query, language)]
        self._vectors = torch.nn.functional.normalize(encoder.encode_queries(texts), dim=-1)
        self._unrelated = unrelated_cosines(self._vectors, encoder).numpy()
        kinds = (SENTENCE, SECTION, DOCUMENT) if by == "document" else (SENTENCE, SECTION)
        words = list(dict.fromkeys(terms(query)))
        # They are looked up on disk while signs are compared.
        with_words = ThreadPoolExecutor(1)
        self._matching = with_words.submit(snapshot.words.match, words, kinds)
        with_words.shutdown(wait=False)
        self._weights = WEIGHTS[encoder.context]
        self._sentence_weights = sentence_weights(query, encoder.context)

    def best(self, top_k: int, allowed: Mask | None = None) -> tuple[Ints, Floats]:
        """Return the indices and the scores of the best matches, best first.

        In a large library, only the parts with the highest estimated scores are compared.

        Args:
            top_k: How many to return.
            allowed: `(sentences,)`, the sentences of which each result must contain one.
        """
        snapshot = self.snapshot
        if allowed is None:
            idx, num_sentences = np.arange(snapshot.count(self.by)), snapshot.num_sentences
        else:
            is_possible = np.zeros(snapshot.count(self.by), np.bool_)
            is_possible[snapshot.owners(self.by, np.flatnonzero(allowed))] = True
            idx = np.flatnonzero(is_possible)
            num_sentences = int(snapshot.sizes(self.by)[idx].sum())
        if num_sentences > EXACT_SENTENCES:
            num_compared = max(COMPARED_SENTENCES, int(COMPARED_SHARE * num_sentences))
            if self.by == "passage":
                idx = self._likeliest_sentences(idx, num_compared)
            else:
                idx = self._likeliest_units(idx, num_compared, top_k)
        scores = self.score(idx)
        best = top(scores, top_k)
        return idx[best], scores[best]

    def score(self, idx: Ints) -> Floats:
        """Return the scores of some sections, documents or, for passages, sentences."""
        if self.by == "passage":
            return self.score_sentences(idx)
        sizes = self.snapshot.sizes(self.by)[idx]
        sentences = ranges(self.snapshot.starts(self.by)[idx], sizes)
        cosines = _cosines(self.snapshot.sentences, self._parts, sentences)
        cosines = relative(cosines, self._unrelated[self._part_idx])
        return self._score_units(idx, _highest(cosines, sizes), self._section_cosines(idx))

    def score_sentences(self, idx: Ints) -> Floats:
        """Return the scores of some sentences: `(len(idx),)` float64."""
        snapshot, vectors = self.snapshot, self._vectors[:1]
        of_sentence, of_section, of_words, of_section_words = self._sentence_weights
        sections, owner = np.unique(snapshot.section_idx[idx], return_inverse=True)
        unrelated = self._unrelated[:1]
        section_cosines = relative(_cosines(snapshot.sections, vectors, sections), unrelated)
        of_sections = (
            of_section * section_cosines[:, 0].astype(np.float64)
            + of_section_words * self._words[SECTION][sections]
        )
        cosines = relative(_cosines(snapshot.sentences, vectors, idx), unrelated)
        cosines = cosines[:, 0].astype(np.float64)
        scores = of_sentence * cosines + of_words * self._words[SENTENCE][idx] + of_sections[owner]
        rounded: Floats = scores.round(5)
        return rounded

    @property
    def _words(self) -> dict[int, npt.NDArray[np.float32]]:
        """How well each text matches the words of the query, by kind."""
        return self._matching.result()

    @property
    def _parts(self) -> Tensor:
        """`(parts, dimension)`, what the sentences of a section or document are compared with."""
        return self._vectors[self._part_idx]

    @property
    def _part_idx(self) -> slice:
        """Which of the vectors these are."""
        return slice(1, None) if self.by == "document" else slice(1)

    def _section_cosines(self, idx: Ints) -> npt.NDArray[np.float32] | None:
        """Return the cosines of some sections and the query: `(len(idx),)`; None of documents."""
        if self.by == "document":
            return None
        cosines = _cosines(self.snapshot.sections, self._parts, idx)[:, 0]
        return relative(cosines, self._unrelated[:1])

    def _score_units(
        self,
        idx: Ints,
        closest: npt.NDArray[np.float32],
        section_cosines: npt.NDArray[np.float32] | None,
    ) -> Floats:
        """Return the scores of some sections or documents: `(len(idx),)` float64.

        Args:
            idx: Their indices.
            closest: `(len(idx), parts)`, the highest cosine of a sentence in them.
            section_cosines: `(len(idx),)`, the cosines of sections; None for documents.
        """
        if section_cosines is None:
            of_closest, of_words = self._weights.documents
            scores = of_closest * closest.mean(1, dtype=np.float64)
            scores += of_words * self._words[DOCUMENT][idx]
        else:
            of_closest, of_section, of_words = self._weights.sections
            scores = of_closest * closest[:, 0].astype(np.float64)
            scores += of_section * section_cosines.astype(np.float64)
            scores += of_words * self._words[SECTION][idx]
        rounded: Floats = scores.round(5)
        return rounded

    def _likeliest_sentences(self, idx: Ints, num_compared: int) -> Ints:
        """Select the sentences whose scores, estimated from signs, are highest."""
        snapshot = self.snapshot
        of_sentence, of_section, of_words, of_section_words = self._sentence_weights
        vector = self._vectors[0].numpy()
        unrelated = self._unrelated[:1]
        estimates = relative(snapshot.sentence_codes.cosines(vector), unrelated)
        estimates *= of_sentence
        section_cosines = relative(snapshot.section_codes.cosines(vector), unrelated)
        of_sections = of_section * section_cosines + of_section_words * self._words[SECTION]
        estimates += of_words * self._words[SENTENCE]
        estimates += np.repeat(of_sections, snapshot.section_sizes)
        if len(idx) < len(estimates):
            estimates = estimates[idx]
        return idx[top(estimates, num_compared, in_order=False)]

    def _likeliest_units(self, idx: Ints, num_compared: int, top_k: int) -> Ints:
        """Select the sections or documents whose scores are highest.

        All scores are estimated from signs. In the likeliest units, the sentences that may be the
        closest one are then compared: those whose estimate is at most `_MARGIN` below the highest
        in the unit.

        Args:
            idx: Their indices.
            num_compared: Number of sentences to compare.
            top_k: Number of units to find.
        """
        snapshot, parts = self.snapshot, self._parts
        sizes, starts = snapshot.sizes(self.by), snapshot.starts(self.by)
        codes, unrelated = snapshot.sentence_codes, self._unrelated[self._part_idx]
        cosines = [
            relative(codes.cosines(part), of_part)
            for part, of_part in zip(parts.numpy(), unrelated, strict=True)
        ]
        highest = [_highest(part_cosines, sizes) for part_cosines in cosines]
        section_cosines = None
        if self.by == "section":
            estimated = snapshot.section_codes.cosines(parts[0].numpy())
            section_cosines = relative(estimated, unrelated[0])[idx]
        estimates = self._score_units(idx, np.stack(highest, axis=1)[idx], section_cosines)
        order = idx[np.argsort(-estimates)]

        are_near = [
            part_cosines >= np.repeat(part_highest - margin, sizes)
            for part_cosines, part_highest, margin in zip(
                cosines, highest, _MARGIN / (1 - unrelated), strict=True
            )
        ]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.sum(are_near, axis=0))])
        num_near = ends[starts + sizes] - ends[starts]
        likely = order[: 1 + np.searchsorted(np.cumsum(num_near[order]), num_compared)]
        sentences = ranges(starts[likely], sizes[likely])
        closest = np.zeros((len(likely), len(parts)), np.float32)
        for part, is_near in enumerate(are_near):
            near = is_near[sentences]
            exact = np.full(len(sentences), -np.inf, np.float32)
            vector = parts[part : part + 1]
            compared = _cosines(snapshot.sentences, vector, sentences[near])[:, 0]
            exact[near] = relative(compared, unrelated[part])
            closest[:, part] = _highest(exact, sizes[likely])
        scores = self._score_units(likely, closest, self._section_cosines(likely))
        return likely[top(scores, _CANDIDATES_PER_RESULT * top_k, in_order=False)]


def find(
    query: str, snapshot: Snapshot, encoder: Encoder, by: Unit, top_k: int, allowed: Mask | None
) -> list[Hit]:
    """Find what best matches a query, among the allowed sentences and what contains them."""
    if not snapshot.num_documents:
        return []
    request = Request(query, snapshot, encoder, by)
    if by == "passage":
        return _passages(request, top_k, allowed)
    best, scores = request.best(top_k, allowed)
    return _hits(request, best, scores, allowed)


def _passages(request: Request, top_k: int, allowed: Mask | None) -> list[Hit]:
    """Return the passages of allowed sentences that match best; see `tasks.passages`."""
    snapshot = request.snapshot
    # A passage has at most this many sentences, so these suffice to start each of them.
    best, _ = request.best(top_k * MAX_SENTENCES, allowed)
    sections = snapshot.section_idx[best]
    starts = np.maximum(best - MAX_SENTENCES + 1, snapshot.section_starts[sections])
    ends = snapshot.section_starts[sections] + snapshot.section_sizes[sections]
    idx = np.unique(ranges(starts, np.minimum(best + MAX_SENTENCES, ends) - starts))
    if allowed is not None:
        idx = idx[allowed[idx]]
    if not len(idx):
        return []
    scores = request.score_sentences(idx)
    spans = list(_spans(snapshot, "sentences", idx).values())
    documents = snapshot.sentence_document[idx]
    languages = [snapshot.languages[document] for document in documents]
    begins_run = (np.diff(idx) > 1) | (np.diff(snapshot.section_idx[idx]) > 0)
    runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(begins_run)])
    words = [num_words(x.text, language) for x, language in zip(spans, languages, strict=True)]
    return [
        Hit(
            join_spans(spans[first : last + 1], languages[best_one]),
            spans[best_one],
            float(scores[best_one]),
            int(snapshot.numbers[documents[best_one]]),
            is_likely(float(scores[best_one]), request.encoder),
        )
        for first, best_one, last in windows(scores.tolist(), runs.tolist(), words, top_k)
    ]


def _highest(values: npt.NDArray[np.float32], sizes: Ints) -> npt.NDArray[np.float32]:
    """Return the highest value of each range of rows: `(ranges, ...)`; 0 where there is none.

    Args:
        values: `(rows, ...)`.
        sizes: `(ranges,)`, how many rows each range has; one range follows the other.
    """
    highest = np.zeros((len(sizes), *values.shape[1:]), np.float32)
    holding = sizes > 0
    if holding.any():
        firsts = (np.cumsum(sizes) - sizes)[holding]
        highest[holding] = np.maximum.reduceat(values, firsts, axis=0)
    return highest


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return the indices in some ranges, one range after the other.

    Example:
        >>> ranges(np.array([7, 2]), np.array([2, 3])).tolist()
        [7, 8, 2, 3, 4]
    """
    total = int(sizes.sum())
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(total)


def top(scores: Floats, top_k: int, *, in_order: bool = True) -> Ints:
    """Return the indices of the highest scores, highest first; ties keep their order.

    Args:
        scores: `(scores,)`.
        top_k: How many.
        in_order: If false, their order does not matter, and all that equal the last are returned.

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
    if not in_order:
        return candidates
    return candidates[np.argsort(-scores[candidates], kind="stable")[:top_k]]


def _hits(request: Request, best: Ints, scores: Floats, allowed: Mask | None) -> list[Hit]:
    """Return the hits of some sections or documents, with their places."""
    if not len(best):
        return []
    snapshot, by = request.snapshot, request.by
    closest = _closest_sentences(request, best, allowed)
    documents = snapshot.sentence_document[closest]
    sentences = _spans(snapshot, "sentences", closest)
    is_section = by == "section"
    spans = _spans(snapshot, "sections", best) if is_section else _document_spans(snapshot, best)
    return [
        Hit(
            spans[int(unit)],
            sentences[int(sentence)],
            float(score),
            int(number),
            is_likely(float(best_score), request.encoder),
            by,
        )
        for unit, sentence, score, number, best_score in zip(
            best,
            closest,
            scores,
            snapshot.numbers[documents],
            request.score_sentences(closest),
            strict=True,
        )
    ]


def _closest_sentences(request: Request, best: Ints, allowed: Mask | None) -> Ints:
    """Return the sentence that matches best in each of some sections or documents.

    Those of a section are the sentences directly in it or, if there are none, all.
    """
    snapshot = request.snapshot
    starts, sizes = snapshot.starts(request.by)[best], snapshot.sizes(request.by)[best]
    if request.by == "section":
        sizes = np.where(sizes > 0, sizes, snapshot.section_totals[best])
    idx = ranges(starts, sizes)
    scores = request.score_sentences(idx)
    if allowed is not None:
        scores[~allowed[idx]] = -np.inf
    ends = np.cumsum(sizes)
    return np.array(
        [
            start + int(scores[end - size : end].argmax())
            for start, size, end in zip(starts, sizes, ends, strict=True)
        ]
    )


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
    vectors: npt.NDArray[np.float16], queries: Tensor, idx: Ints
) -> npt.NDArray[np.float32]:
    """Return the products of some vectors, of `(vectors, dimension)`, and of queries."""
    products = torch.empty(len(idx), len(queries))
    # All of them, in order, need not be picked.
    are_all = len(idx) == len(vectors) and np.array_equal(idx, np.arange(len(vectors)))

    def multiply(first: int, end: int) -> None:
        half = np.empty((_ROWS_PER_CHUNK, vectors.shape[1]), np.float16)
        widened = torch.empty(_ROWS_PER_CHUNK, vectors.shape[1])
        for start in range(first, end, _ROWS_PER_CHUNK):
            chunk = slice(start, min(start + _ROWS_PER_CHUNK, end))
            size = chunk.stop - start
            if are_all:
                some = vectors[chunk]
            else:  # indices are within bounds, and numpy writes directly only with "clip"
                some = vectors.take(idx[chunk], axis=0, out=half[:size], mode="clip")
            widened[:size].copy_(torch.from_numpy(some))
            torch.mm(widened[:size], queries.T, out=products[chunk])

    in_threads(multiply, len(idx), _ROWS_PER_CHUNK)
    return products.numpy()
