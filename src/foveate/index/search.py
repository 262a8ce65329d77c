"""Search in a library: the results of `foveate.tasks.search`, without reading the documents.

The engine proposes the sentences whose vectors are closest to the query's, and the texts that have
its rarest words. All of these are then scored as `foveate.tasks.relevance` scores them. BM25 needs
the terms of a text and the counts of `foveate.index.statistics`, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.documents import Span
from foveate.documents.language import FALLBACK
from foveate.index.engine import OF_DOCUMENTS, Engine, Ids, keys_of, of_level
from foveate.index.rows import SPAN_COLUMNS, spans_of
from foveate.index.schema import (
    TOKEN_BYTES,
    documents_of,
    pack_keys,
    positions_of,
    tokens_of,
    vectors_of,
)
from foveate.tasks.arguments import Unit
from foveate.tasks.bm25 import Words
from foveate.tasks.explain import explain
from foveate.tasks.hits import Hit
from foveate.tasks.passages import MAX_SENTENCES, join_spans, num_words, windows
from foveate.tasks.scorer import EncodedQuery, Scorer
from foveate.tasks.weights import Level, is_likely, weighted_mean, with_names

if TYPE_CHECKING:
    from foveate.inference import Encoder
    from foveate.inference.query_encoder import QueryEncoder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_CANDIDATES = 250
"""How many rows each way of searching proposes, at least."""

_CANDIDATES_PER_RESULT = 4

_COUNTING = 0.9
"""Of the weight of all words, the share of those by which texts are proposed. The others are
frequent, so that they count little, and are looked up slowly."""

_UNITS_PER_RESULT = 8
"""Sections or documents that each way of searching proposes for each one that is looked for."""

_COMPARED_PER_RESULT = 2
"""Sections or documents, of which all sentences are compared at a time, for each one that is looked
for."""

_BEST_PER_PASSAGE = 2
"""Sentences around which passages are looked for at first, for each one that is looked for."""

_LEAST_UNITS = 60
"""How many sections or documents each way of searching proposes, at least."""

_SCORED = ("key", "section_position", "vector", "hashes", "tokens")
"""What a sentence is scored by. Each column of a few hundred rows costs a millisecond."""

_PLACED = ("key", "section_position", "vector")
"""What the section or document of a sentence is proposed by."""

_ORDER = ("file", "member", "key")
"""The order of what matches equally."""

_NEIGHBOURS = (*_SCORED, "file", "member", "text", "language", "content_hash")
_SIZES = ("first_sentence", "own_sentences", "all_sentences")


class LibraryQuery:
    """A query with which the parts of a library are compared, as by `foveate.tasks.relevance`.

    The vectors of the library are float16, so scores differ from those of
    `foveate.tasks.search` by up to about 1e-4.

    Args:
        query: The query.
        engine: The library.
        encoder: The model that made it.
        by: What to find. Passages are found by their sentences, which are compared in their place.
        condition: What the sentences must satisfy, see `foveate.index.conditions.as_condition`.

    Attributes:
        copied: Hashes of the content of documents among the units that there are several of.
    """

    def __init__(
        self,
        query: str,
        engine: Engine,
        encoder: "Encoder | QueryEncoder",
        by: Unit,
        condition: Any = None,
    ) -> None:
        self.engine = engine
        self.encoder = encoder
        self.by = by
        self.condition = condition
        unrelated = np.array(engine.state.unrelated, np.float32)
        # Only documents are compared with each sentence of the query.
        self.query = EncodedQuery.encode(
            query, language_of(engine), encoder, unrelated, by_sentence=by == "document"
        )
        self.scorer = Scorer(self.query, engine.rarity)
        self.copied: list[int] = []
        self._of_sections: dict[int, tuple[float, float]] = {}  # by their keys
        self._parts = self.query.sentences if by == "document" else slice(1)

    def sentences(self, top_k: int) -> pa.Table:
        """Return the sentences that match best, best first, with a column `score`."""
        proposed = np.unique(np.concatenate(self._candidates(top_k, "sentence")))
        rows = of_level(self.engine.take(proposed, _SCORED), "sentence")
        scores = self.score_sentences(rows)
        rows = rows.append_column("score", pa.array(scores))
        return rows.take(np.lexsort((keys_of(rows), -scores))[:top_k])

    def units(self, top_k: int) -> tuple[pa.Table, Floats, pa.Table]:
        """Find the sections or documents that match best.

        Returns:
            Their rows, best first; their scores; and the sentences in them that satisfy the
            condition, in their order. Those of a section are the sentences directly in it or, if
            there are none, all.
        """
        level: Level = "section" if self.by == "section" else "document"
        # Only sentences say whether they satisfy a condition.
        nearest, matching = self._candidates(top_k, "sentence" if self.condition else level)
        num_units = max(_LEAST_UNITS, _UNITS_PER_RESULT * top_k)
        matching = matching[:num_units]
        proposed = self.engine.take(np.concatenate([matching, nearest]), _PLACED)
        of_words = proposed[: len(matching)]
        close = of_level(proposed[len(matching) :], "sentence")
        owners, cosines = self._owners(close), self._cosines(close)
        # Their texts are long, so that only the likeliest are read.
        by_closeness = owners[np.argsort(-cosines.mean(1), kind="stable")].tolist()
        keys = [*dict.fromkeys(by_closeness)][:num_units]
        keys += (self._owners(of_words) if self.condition else keys_of(of_words)).tolist()
        keys += keys_of(of_level(proposed, level)).tolist()
        columns = [*_ORDER, *_SIZES, "content_hash", *(["vector"] * (level == "section")), "hashes"]
        rows = self.engine.fetch(np.array(keys, np.int64), columns)
        if not rows.num_rows:
            return rows, np.zeros(0), rows
        rows, self.copied = _without_copies(self._with_scores(rows, level))
        rows = rows.sort_by("key")
        least = np.full((rows.num_rows, cosines.shape[1]), -1.0)
        is_there = np.isin(owners, keys_of(rows))
        place = np.searchsorted(keys_of(rows), owners[is_there])
        np.maximum.at(least, place, cosines[is_there])
        # A sentence that was not proposed is less close than all that were for that part.
        per_part = max(len(cosines) // cosines.shape[1], 1)
        most = np.maximum(least, np.sort(cosines, 0)[-per_part:].min(0, initial=1))
        most[rows["own_sentences"].to_numpy() == 0] = 0
        if self.condition:  # which may exclude the closest sentences
            least[:] = -1
        scores, inside = self._compare(rows, least, most, top_k)
        best = _order(scores, rows)[:top_k]
        rows, scores = rows.take(best), scores[best]

        allowed = inside.filter(pa.array(np.isin(self._owners(inside), keys_of(rows))))
        if self.condition:
            kept = self.engine.fetch(keys_of(allowed), ["key"], self.condition)
            allowed = allowed.filter(pa.array(np.isin(keys_of(allowed), keys_of(kept))))
        without = rows.filter(pc.equal(rows["own_sentences"], 0))
        if without.num_rows:
            allowed = pa.concat_tables([allowed, self._inside(without, "all_sentences")])
        _, first = np.unique(keys_of(allowed), return_index=True)  # sections may be in sections
        return rows, scores, allowed.take(first)

    def _compare(
        self, rows: pa.Table, least: Floats, most: Floats, top_k: int
    ) -> tuple[Floats, pa.Table]:
        """Compare the sentences of all sections or documents that may be among the best.

        Args:
            rows: What `_with_scores` returns.
            least: `(rows, parts)`, what the highest cosine of a sentence in them is at least.
            most: What it is at most; both become what it is.
            top_k: How many are looked for.

        Returns:
            The scores, too low for those that are not among the best; and the sentences compared.
        """
        is_compared = np.zeros(rows.num_rows, np.bool_)
        inside: list[pa.Table] = []
        while True:
            scores, at_most = self._score_units(rows, least), self._score_units(rows, most)
            threshold = np.partition(scores, -top_k)[-top_k] if top_k < len(scores) else -np.inf
            remaining = np.flatnonzero(~is_compared & (at_most >= threshold))
            if not len(remaining):
                return scores, pa.concat_tables(inside)
            order = np.argsort(-at_most[remaining], kind="stable")
            compared = remaining[order[: _COMPARED_PER_RESULT * top_k]]
            sentences = self._inside(rows.take(compared))
            cosines, owners = self._cosines(sentences), self._owners(sentences)
            for i, key in zip(compared, keys_of(rows)[compared], strict=True):
                of_unit = cosines[owners == key]
                least[i] = most[i] = of_unit.max(0) if len(of_unit) else 0
            is_compared[compared] = True
            inside.append(sentences)

    def _inside(self, units: pa.Table, number: str = "own_sentences") -> pa.Table:
        """Return the first sentences in sections or documents, as many as a column says."""
        firsts = _first_keys(units)
        runs = map(np.arange, firsts, firsts + units[number].to_numpy())
        return self.engine.fetch(np.concatenate([*runs]), _SCORED)

    def _candidates(self, top_k: int, level: Level) -> tuple[Ids, Ids]:
        """Have the engine propose rows, see `Engine.candidates`."""
        k = max(LEAST_CANDIDATES, _CANDIDATES_PER_RESULT * top_k)
        k = min(k, sum(self.engine.state.totals.texts))
        weights = self.scorer.term_weights(level)
        order = np.argsort(-weights, kind="stable")
        number = np.searchsorted(weights[order].cumsum(), _COUNTING * weights.sum()) + 1
        rarest = [self.query.terms[i] for i in order[:number]]
        vectors = self.query.vectors[self._parts]
        return self.engine.candidates(vectors, rarest, k, level, self.condition)

    def spans(self, keys: Ints) -> dict[int, Span]:
        """Return the spans of rows with some keys, by their keys."""
        rows = self.engine.fetch(keys, ["key", *SPAN_COLUMNS])
        return dict(zip(rows["key"].to_pylist(), spans_of(rows), strict=True))

    def score_sentences(self, rows: pa.Table) -> Floats:
        """Return the scores of some sentences: `(rows,)`; see `tasks.relevance`."""
        of_tokens = np.zeros(rows.num_rows)
        if self.query.tokens is not None and not rows["tokens"].null_count and rows.num_rows:
            of_tokens = self.query.match_tokens(*tokens_of(rows["tokens"]))
        of_sections = self._match_sections(_section_keys(rows))
        words = _words(rows)
        features = [
            self.query.cosines(vectors_of(rows["vector"]))[:, 0],
            of_sections[:, 0],
            of_tokens,
            self._match_words(words, "sentence"),
            of_sections[:, 1],
        ]
        scores = weighted_mean(np.stack(features, 1), self.query.weights.sentences)
        return with_names(scores, self.scorer.match_names(words))

    def _match_sections(self, keys: Ints) -> Floats:
        """Return r and b of some sections: `(keys, 2)`."""
        if new := sorted({*keys.tolist()} - self._of_sections.keys()):
            rows = self.engine.fetch(np.array(new), ["key", "hashes", "vector"])
            cosines = self.query.cosines(vectors_of(rows["vector"]))[:, 0]
            words = self._match_words(_words(rows), "section")
            pairs = zip(cosines.tolist(), words.tolist(), strict=True)
            self._of_sections.update(zip(rows["key"].to_pylist(), pairs, strict=True))
        return np.array([self._of_sections[key] for key in keys.tolist()]).reshape(-1, 2)

    def _with_scores(self, rows: pa.Table, level: Level) -> pa.Table:
        """Return sections or documents with what their scores are without the closest sentence."""
        weights = self.query.weights
        *_, of_words = weights.sections if level == "section" else weights.documents
        scores = of_words * self._match_words(_words(rows), level)
        if level == "section":
            scores += weights.sections[1] * self.query.cosines(vectors_of(rows["vector"]))[:, 0]
            rows = rows.drop_columns(["vector"])
        return rows.drop_columns(["hashes"]).append_column("score", pa.array(scores))

    def _score_units(self, rows: pa.Table, closest: Floats) -> Floats:
        """Return the scores of some sections or documents: `(rows,)`.

        Args:
            rows: What `_with_scores` returns.
            closest: `(rows, parts)`, the highest cosine of a sentence in them.
        """
        of_query = self.query.weights
        weights = of_query.sections if self.by == "section" else of_query.documents
        scores: Floats = weights[0] * closest.mean(1) + rows["score"].to_numpy()
        return scores.round(5)

    def _owners(self, sentences: pa.Table) -> Ints:
        """Return the key of the section or document that each sentence is directly in."""
        if self.by == "document":
            return pack_keys(documents_of(keys_of(sentences)), "document", 0)
        return _section_keys(sentences)

    def _cosines(self, rows: pa.Table) -> Floats:
        """Return r of rows and the parts of the query that they are compared with."""
        return self.query.cosines(vectors_of(rows["vector"]), self._parts)

    def _match_words(self, words: Words, level: Level) -> Floats:
        """Return b of `foveate.tasks.bm25.bm25` of texts of a level: `(texts,)`."""
        mean_length = self.engine.state.totals.mean_length(level)
        counts = words.count(self.query.terms)
        return self.scorer.match_words(counts, words.lengths, mean_length, level)


def find(
    query: str,
    engine: Engine,
    encoder: "Encoder | QueryEncoder",
    by: Unit,
    top_k: int,
    condition: Any,
) -> tuple[list[Hit], EncodedQuery | None]:
    """Find what best matches a query, among the sentences that satisfy a condition.

    Returns:
        The hits, and the query as it was compared; None if the library is empty.
    """
    if not engine.state.num_documents:
        return [], None
    request = LibraryQuery(query, engine, encoder, by, condition)
    find_hits = _passages if by == "passage" else _units
    return find_hits(request, top_k), request.query


def explained(
    hits: list[Hit], query: EncodedQuery | None, engine: Engine, encoder: "Encoder"
) -> list[Hit]:
    """Add the `matches` of hits, see `foveate.tasks.explain`."""
    if query is None or query.tokens is None or not hits:
        return hits
    places = [(hit.document_idx, hit.best.start) for hit in hits]
    numbers, starts = zip(*places, strict=True)
    matches = {"level": ["sentence"], "document": numbers, "start": starts}
    rows = engine.read(["document", "start", "tokens"], matches).to_pylist()
    signs = {
        (row["document"], row["start"]): np.frombuffer(row["tokens"], np.uint8)
        for row in rows
        if row["tokens"] is not None  # see TOKEN_BYTES
    }
    of_hits = [signs[one].reshape(-1, TOKEN_BYTES) if one in signs else None for one in places]
    return explain(query.text, query.tokens, hits, of_hits, query.language, encoder)


def _passages(request: LibraryQuery, top_k: int) -> list[Hit]:
    """Return the passages of sentences that match best; see `tasks.passages`."""
    # Each passage may take the best sentences that others would start from, but few take many.
    for number in (_BEST_PER_PASSAGE * top_k, MAX_SENTENCES * top_k):
        best = request.sentences(number)
        rows, copied = _without_copies(_around(request, best))
        if not rows.num_rows:
            return []
        scores, sections, keys = request.score_sentences(rows), _section_keys(rows), keys_of(rows)
        begins_run = (np.diff(keys) != 1) | (np.diff(sections) != 0)
        runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(begins_run)])
        languages = rows["language"].to_pylist()
        texts = zip(rows["text"].to_pylist(), languages, strict=True)
        words = [num_words(text, language) for text, language in texts]
        found = list(windows(scores.tolist(), runs.tolist(), words, top_k))
        _, last_best, _ = found[-1]
        if len(found) == top_k and scores[last_best] >= best["score"][-1].as_py():
            break
    shown = np.unique(np.concatenate([keys[first : last + 1] for first, _, last in found]))
    spans = request.spans(shown)
    hits = [
        Hit(
            join_spans(
                [spans[key] for key in keys[first : last + 1].tolist()], languages[best_one]
            ),
            spans[int(keys[best_one])],
            float(scores[best_one]),
            int(documents_of(keys[best_one])),
            is_likely(float(scores[best_one]), request.encoder),
        )
        for first, best_one, last in found
    ]
    return _with_copies(hits, request.engine, copied)


def _around(request: LibraryQuery, sentences: pa.Table) -> pa.Table:
    """Return sentences with those in the same sections that may be in passages with them."""
    keys = keys_of(sentences)[:, None] + np.arange(1 - MAX_SENTENCES, MAX_SENTENCES)
    # Positions before the first sentence of a document are those of no row.
    keys = np.unique(keys[positions_of(keys) < 2**29])
    rows = request.engine.fetch(keys, _NEIGHBOURS, request.condition)
    return rows.filter(pa.array(np.isin(_section_keys(rows), _section_keys(sentences))))


def _units(request: LibraryQuery, top_k: int) -> list[Hit]:
    """Return the sections or documents that match best, with the best sentence in each."""
    rows, scores, inside = request.units(top_k)
    if not rows.num_rows:
        return []
    keys, sentence_scores = keys_of(inside), request.score_sentences(inside)
    firsts = _first_keys(rows)
    starts = np.searchsorted(keys, firsts)
    places = zip(starts, np.searchsorted(keys, firsts + _num_inside(rows)), strict=True)
    best = np.array([start + sentence_scores[start:end].argmax() for start, end in places])
    spans = request.spans(np.unique(np.concatenate([keys_of(rows), keys[best]])))
    hits = [
        Hit(
            spans[key],
            spans[best_key],
            score,
            number,
            is_likely(best_score, request.encoder),
            request.by,
        )
        for key, best_key, score, number, best_score in zip(
            rows["key"].to_pylist(),
            keys[best].tolist(),
            scores.tolist(),
            documents_of(keys_of(rows)).tolist(),
            sentence_scores[best].tolist(),
            strict=True,
        )
    ]
    return _with_copies(hits, request.engine, request.copied)


@lru_cache(maxsize=1)
def language_of(engine: Engine) -> str:
    """Return the language of the first document, in which queries are taken to be."""
    rows = engine.read(["language"], OF_DOCUMENTS, limit=1)
    return (rows["language"][0].as_py() if rows.num_rows else None) or FALLBACK


def _words(rows: pa.Table) -> Words:
    """Return the words of texts."""
    lists = rows["hashes"].combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    return Words(lists.flatten().to_numpy(), lengths)


def _num_inside(units: pa.Table) -> Ints:
    """Return the number of sentences in sections or documents, see `LibraryQuery.inside`."""
    own, every = units["own_sentences"].to_numpy(), units["all_sentences"].to_numpy()
    numbers: Ints = np.where(own > 0, own, every).astype(np.int64)
    return numbers


def _section_keys(sentences: pa.Table) -> Ints:
    """Return the keys of the sections that sentences are directly in."""
    return pack_keys(documents_of(keys_of(sentences)), "section", sentences["section_position"])


def _first_keys(units: pa.Table) -> Ints:
    """Return the keys of the first sentences in sections or documents."""
    return pack_keys(documents_of(keys_of(units)), "sentence", units["first_sentence"])


def _without_copies(rows: pa.Table) -> tuple[pa.Table, list[int]]:
    """Return the rows of identical documents once, and the hashes of the content of these.

    They are those of the document whose file comes first.
    """
    rows = rows.sort_by([(name, "ascending") for name in _ORDER])
    numbers, hashes = documents_of(keys_of(rows)), rows["content_hash"].to_numpy()
    distinct, first, content = np.unique(hashes, return_index=True, return_inverse=True)
    is_kept = numbers == numbers[first][content]
    return rows.filter(pa.array(is_kept)), distinct[np.unique(content[~is_kept])].tolist()


def _with_copies(hits: list[Hit], engine: Engine, hashes: Sequence[int]) -> list[Hit]:
    """Name the other documents with the content of those that were found.

    Args:
        hits: What was found.
        engine: The library.
        hashes: Of the content of documents that there are several of.
    """
    if not hashes:
        return hits
    columns = ["document", "source", "content_hash"]
    copies = engine.read(columns, {"content_hash": hashes, **OF_DOCUMENTS})
    rows = copies.sort_by("source").to_pylist()
    hash_of = {row["document"]: row["content_hash"] for row in rows}
    return [
        replace(
            hit,
            copies=tuple(
                row["source"]
                for row in rows
                if row["content_hash"] == hash_of.get(hit.document_idx)
                and row["document"] != hit.document_idx
            ),
        )
        for hit in hits
    ]


def _order(scores: Floats, rows: pa.Table) -> Ints:
    """Return the indices of rows, best first; those with equal scores by file and place."""
    table = rows.select(_ORDER).append_column("score", pa.array(-scores))
    order = [(name, "ascending") for name in ("score", *_ORDER)]
    idx: Ints = pc.sort_indices(table, sort_keys=order).to_numpy().astype(np.int64)
    return idx
