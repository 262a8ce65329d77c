"""A library in Qdrant: a collection with the rows of one that Lance holds, which it searches.

The collection has a point for each row: its vector, its terms as a sparse vector, and its other
columns. A point for each word counts it, and one holds the library's state.
"""

import base64
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, Self
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from foveate.index.engine import OF_DOCUMENTS, Ids, Matches
from foveate.index.lance import LanceEngine
from foveate.index.schema import TERMS, TIMES, in_microseconds, schema
from foveate.index.state import LibraryError, State
from foveate.index.statistics import Totals, WordCounts
from foveate.tasks.bm25 import saturated
from foveate.tasks.weights import Level, rarity, term_weights

_STATE = str(UUID(int=0))
_WORDS = UUID(int=1)
"""The namespace of the points that count words."""

_POINTS = 512
"""How many points are sent or read at a time."""

_INDEXED: Final = {
    "level": models.PayloadSchemaType.KEYWORD,
    "document": models.PayloadSchemaType.INTEGER,
    "content_hash": models.PayloadSchemaType.INTEGER,
}

_DOCUMENTS = 64
"""Of how many documents rows are sent at a time."""


class QdrantCopy:
    """A copy of a library, which can be searched but not changed; see `Engine`.

    Rows are proposed by their keys, which are the numbers of their points. Points have no versions:
    what is searched is the newest state.

    Args:
        place: "qdrant://HOST:PORT/COLLECTION".
        options: Options of `QdrantClient`, such as `api_key`, which `QDRANT_API_KEY` says too.
    """

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        self.place = place
        address, _, self._collection = place.removeprefix("qdrant://").partition("/")
        host, _, port = address.partition(":")
        if not (host and self._collection):
            raise ValueError(f"{place} names no collection: write qdrant://HOST:6333/COLLECTION")
        given = {"api_key": os.environ.get("QDRANT_API_KEY"), **(options or {})}
        self._client = QdrantClient(host=host, port=int(port or 6333), **given)
        self.state: State

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the client into an OSError with a readable message."""
        try:
            yield
        except ApiException as error:
            reason = " ".join(str(error).split())
            raise OSError(
                f"the library {self.place} cannot be reached ({reason}): check its address and key"
            ) from error

    def stamp(self) -> State | None:
        """Return the state of the library that was copied; None if there is no copy."""
        with self._explained():
            if not self._client.collection_exists(self._collection):
                return None
            points = self._client.retrieve(self._collection, [_STATE])
        return State.from_dict(points[0].payload or {}) if points else None

    def exists(self) -> bool:
        """Return whether there is a copy."""
        return self.stamp() is not None

    def engine(self) -> Self:
        """Return what searches the copy; raise a FileNotFoundError if there is none."""
        state = self.stamp()
        if state is None:
            raise FileNotFoundError(
                f"there is no library in {self.place}: `foveate library export DIR {self.place}` "
                "makes one"
            )
        self.state = state
        return self

    open = engine

    def write(self, engine: LanceEngine) -> int:
        """Add the documents of a library that are not there yet, and remove those that are gone.

        Returns the number of rows that were added. Another library that is there is a LibraryError.
        """
        state, held = engine.state, self.stamp()
        if held is not None and held.library != state.library:
            raise LibraryError(f"{self.place} holds another library: choose a new name")
        with self._explained():
            if not self._client.collection_exists(self._collection):
                self._create(state.model.dimension)
            found = self._scroll(["document"], _filter(OF_DOCUMENTS))
            there = {(point.payload or {})["document"] for point in found}
            wanted = {*engine.read(["document"], OF_DOCUMENTS)["document"].to_pylist()}
            self._delete(_filter({"document": sorted(there - wanted)}))
            new, number = sorted(wanted - there), 0
            for start in range(0, len(new), _DOCUMENTS):
                some = {"document": new[start : start + _DOCUMENTS]}
                # That of a document is its last: where it is sent, the others have been.
                rows = engine.read(engine.table.schema.names, some).sort_by("key")
                self._send(_points(rows, state.totals))
                number += rows.num_rows
            counts = WordCounts.total([*engine.store.word_counts(engine.table).values()])
            words = zip(counts.words.to_pylist(), counts.frequencies.tolist(), strict=True)
            version = {"version": state.version}
            self._send(_point(_id(word), {"frequencies": n, **version}) for word, n in words)
            self._send([_point(_STATE, asdict(state))])
            # Words that no text has any more are those of an earlier version.
            no_row = models.IsEmptyCondition(is_empty=models.PayloadField(key="level"))
            newest = _filter({"version": [state.version]})
            self._delete(models.Filter(must=[no_row], must_not=[newest]))
        return number

    def _create(self, dimension: int) -> None:
        distance, halves = models.Distance.DOT, models.Datatype.FLOAT16
        kind = models.VectorParams(size=dimension, distance=distance, datatype=halves, on_disk=True)
        sparse = {"terms": models.SparseVectorParams()}
        self._client.create_collection(self._collection, {"vector": kind}, sparse)
        for column, of_column in _INDEXED.items():
            self._client.create_payload_index(self._collection, column, of_column)

    def _send(self, points: Iterable[models.PointStruct]) -> None:
        self._client.upload_points(self._collection, points, batch_size=_POINTS, wait=True)

    def _delete(self, outdated: models.Filter) -> None:
        self._client.delete(self._collection, models.FilterSelector(filter=outdated))

    def _scroll(
        self, columns: Sequence[str], wanted: models.Filter, limit: int | None = None
    ) -> Iterator[models.Record]:
        """Yield the points that satisfy a filter, or some of them."""
        options: dict[str, Any] = {"limit": limit or _POINTS, **_of(columns)}
        records, offset = self._client.scroll(self._collection, wanted, **options)
        yield from records
        while offset is not None and limit is None:
            records, offset = self._client.scroll(
                self._collection, wanted, offset=offset, **options
            )
            yield from records

    def condition(
        self, where: Sequence[str], path: str | None, section: str | None, document: int | None
    ) -> models.Filter:
        """See `Engine`."""
        if path is not None or section is not None:
            raise ValueError(
                "a library in Qdrant cannot be searched by path or section: give a filter of "
                "Qdrant on its columns, or search the library that it was exported from"
            )
        try:
            given = [models.Filter.model_validate_json(condition) for condition in where]
        except ValueError as error:
            raise ValueError(
                f"the condition {' and '.join(where)!r} is no filter of Qdrant in JSON: write it "
                'like {"must": [{"key": "format", "match": {"value": "md"}}]}'
            ) from error
        matches = {"level": ["sentence"]} | ({} if document is None else {"document": [document]})
        return models.Filter(must=[*given, _filter(matches)])

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        k: int,
        level: Level,
        where: models.Filter | None = None,
    ) -> tuple[Ids, Ids]:
        """See `Engine`."""
        nearest = [self._propose(vector.tolist(), "vector", where, k) for vector in vectors]
        matching: Ids = np.zeros(0, np.int64)
        if terms:
            weights = term_weights(self.rarity(terms, level), level).tolist()
            query = _sparse(terms, weights)
            matching = self._propose(query, "terms", _filter({"level": [level]}, where), k)
        return np.concatenate(nearest), matching

    def _propose(self, query: Any, using: str, where: models.Filter | None, k: int) -> Ids:
        options: dict[str, Any] = {"using": using, "limit": k, "with_payload": False}
        with self._explained():
            found = self._client.query_points(
                self._collection, query, query_filter=where, **options
            )
        return np.array([point.id for point in found.points], np.int64)

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        rows = self.fetch(np.unique(ids), columns)
        return rows.take(pc.index_in(pa.array(ids), rows["key"]))

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], where: Any = None
    ) -> pa.Table:
        """See `Engine`."""
        return self.read(columns, {"key": keys}, where).sort_by("key")

    def read(
        self,
        columns: Sequence[str],
        matches: Matches,
        where: models.Filter | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """See `Engine`."""
        with self._explained():
            points = [*self._scroll(columns, _filter(matches, where), limit)]
        kinds = schema(self.state.model.dimension)
        return pa.table({name: _column(name, points, kinds.field(name).type) for name in columns})

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """See `Engine`."""
        ids = [_id(term) for term in terms]
        with self._explained():
            points = self._client.retrieve(self._collection, ids)
        having = {point.id: (point.payload or {})["frequencies"] for point in points}
        idx = list(TERMS).index(level)
        counts = np.array([having[name][idx] if name in having else 0 for name in ids])
        return rarity(counts, self.state.totals.num_texts(level))


def _column(name: str, points: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return the values of a column in points."""
    if name == "vector":
        vectors = np.array([point.vector["vector"] for point in points], np.float16)
        return pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), kind.list_size)
    values = [point.payload.get(name) for point in points]
    if pa.types.is_binary(kind):
        values = [value and base64.b64decode(value) for value in values]
    return pa.array(values, pa.string()).cast(kind) if name in TIMES else pa.array(values, kind)


def _points(rows: pa.Table, totals: Totals) -> Iterator[models.PointStruct]:
    """Return rows as points; a term's value is what BM25 makes of how often it occurs."""
    for row in in_microseconds(rows).to_pylist():
        vector, level = row.pop("vector"), row["level"]
        listed = {of_level: row.pop(column) for of_level, column in TERMS.items()}
        terms, frequencies = np.unique(listed[level].split(), return_counts=True)
        values = saturated(frequencies, frequencies.sum() / totals.mean_length(level)).tolist()
        payload = {name: value for name, value in row.items() if value is not None}
        for name, value in payload.items():
            if isinstance(value, bytes):
                payload[name] = base64.b64encode(value).decode()
        payload |= {name: row[name].isoformat() for name in TIMES}
        yield _point(row["key"], payload, vector=vector, terms=_sparse(terms.tolist(), values))


def _point(idx: int | str, payload: dict[str, Any], **vectors: Any) -> models.PointStruct:
    return models.PointStruct(id=idx, payload=payload, vector=vectors)


def _sparse(terms: Iterable[str], values: Iterable[float]) -> models.SparseVector:
    """Return a vector with a dimension for each term; a few terms share one."""
    entries = {zlib.crc32(term.encode()): one for term, one in zip(terms, values, strict=True)}
    return models.SparseVector(indices=[*entries], values=[*entries.values()])


def _filter(matches: Matches, where: models.Filter | None = None) -> models.Filter:
    """Return the filter of points that match and satisfy a condition."""
    must: list[Any] = [where] if where else []
    for column, given in matches.items():
        values = np.asarray(given).tolist()
        by_value = models.FieldCondition(key=column, match=models.MatchAny(any=values))
        must.append(models.HasIdCondition(has_id=values) if column == "key" else by_value)
    return models.Filter(must=must)


def _of(columns: Sequence[str]) -> dict[str, Any]:
    """Return the options that ask for some columns."""
    payload = [name for name in columns if name != "vector"]
    return {"with_payload": payload, "with_vectors": ["vector"] if "vector" in columns else False}


def _id(word: str) -> str:
    return str(uuid5(_WORDS, word))
