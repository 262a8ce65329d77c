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
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from foveate.index.copies import Copy
from foveate.index.engine import OF_DOCUMENTS, Ids, Matches
from foveate.index.schema import TERMS, TIMES, in_microseconds, schema
from foveate.index.state import State
from foveate.index.statistics import Totals, WordCounts
from foveate.tasks.bm25 import saturated
from foveate.tasks.weights import Level, rarity, term_weights

_STATE = str(UUID(int=0))
_WORDS = UUID(int=1)
"""The namespace of the points that count words."""

_POINTS = 512
"""How many points are sent or read at a time."""

_INDEXED = {
    "key": models.PayloadSchemaType.INTEGER,
    "level": models.PayloadSchemaType.KEYWORD,
    "document": models.PayloadSchemaType.INTEGER,
    "content_hash": models.PayloadSchemaType.INTEGER,
}


class QdrantCopy(Copy):
    """A copy in Qdrant; see `Copy`.

    Args:
        place: "qdrant://HOST:PORT/COLLECTION".
        options: Options of `QdrantClient`, such as `api_key`, which `QDRANT_API_KEY` says too.
    """

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        self.place = place
        address, _, self.collection = place.removeprefix("qdrant://").partition("/")
        host, _, port = address.partition(":")
        if not (host and self.collection):
            raise ValueError(f"{place} names no collection: write qdrant://HOST:6333/COLLECTION")
        given = {"api_key": os.environ.get("QDRANT_API_KEY"), **(options or {})}
        self.client = QdrantClient(host=host, port=int(port or 6333), **given)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """See `Copy`."""
        try:
            yield
        except ApiException as error:
            reason = " ".join(str(error).split())
            raise OSError(
                f"the library {self.place} cannot be reached ({reason}): check its address and key"
            ) from error

    def state(self) -> State | None:
        """See `Copy`."""
        with self.explained():
            if not self.client.collection_exists(self.collection):
                return None
            points = self.client.retrieve(self.collection, [_STATE])
        return State.from_dict(points[0].payload or {}) if points else None

    def searched(self, state: State) -> "QdrantEngine":
        """See `Copy`."""
        return QdrantEngine(self, state)

    def documents(self, dimension: int) -> set[int]:
        """See `Copy`."""
        if not self.client.collection_exists(self.collection):
            self._create(dimension)
        points = self.scroll(["document"], _filter(OF_DOCUMENTS))
        return {(point.payload or {})["document"] for point in points}

    def remove(self, documents: Sequence[int]) -> None:
        """See `Copy`."""
        selector = models.FilterSelector(filter=_filter({"document": documents}))
        self.client.delete(self.collection, selector)

    def send(self, rows: pa.Table, state: State) -> None:
        """See `Copy`; the row of a document itself is its last."""
        self._send(_points(rows, state.totals))

    def finish(self, counts: WordCounts, state: State) -> None:
        """See `Copy`."""
        words = zip(counts.words.to_pylist(), counts.frequencies.tolist(), strict=True)
        version = {"version": state.version}
        self._send(_point(_id(word), {"frequencies": having, **version}) for word, having in words)
        self._send([_point(_STATE, asdict(state))])
        # Words that no text has any more are those of an earlier version.
        no_row = models.IsEmptyCondition(is_empty=models.PayloadField(key="level"))
        outdated = models.Filter(must=[no_row], must_not=[_filter({"version": [state.version]})])
        self.client.delete(self.collection, models.FilterSelector(filter=outdated))

    def _create(self, dimension: int) -> None:
        vectors = models.VectorParams(
            size=dimension,
            distance=models.Distance.DOT,
            datatype=models.Datatype.FLOAT16,
            on_disk=True,
        )
        self.client.create_collection(
            self.collection,
            vectors_config={"vector": vectors},
            sparse_vectors_config={"terms": models.SparseVectorParams()},
        )
        for column, kind in _INDEXED.items():
            self.client.create_payload_index(self.collection, column, kind)

    def _send(self, points: Iterable[models.PointStruct]) -> None:
        self.client.upload_points(self.collection, points, batch_size=_POINTS, wait=True)

    def scroll(
        self, columns: Sequence[str], wanted: models.Filter, limit: int | None = None
    ) -> list[models.Record]:
        """Read the points that satisfy a filter, or some of them."""
        found: list[models.Record] = []
        offset = None
        while limit is None or len(found) < limit:
            records, offset = self.client.scroll(
                self.collection, wanted, limit=limit or _POINTS, offset=offset, **_of(columns)
            )
            found += records
            if offset is None:
                break
        return found


class QdrantEngine:
    """A library in Qdrant; see `Engine`.

    Args:
        store: Where it is.
        state: See `Engine`.
    """

    def __init__(self, store: QdrantCopy, state: State) -> None:
        self.store = store
        self.state = state

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
            weights = term_weights(self.rarity(terms, level), level)
            values = dict(zip(map(_dimension, terms), weights, strict=True))
            query = models.SparseVector(indices=list(values), values=list(values.values()))
            matching = self._propose(query, "terms", _filter({"level": [level]}, where), k)
        return np.concatenate(nearest), matching

    def _propose(self, query: Any, using: str, where: models.Filter | None, k: int) -> Ids:
        with self.store.explained():
            response = self.store.client.query_points(
                self.store.collection,
                query,
                using=using,
                limit=k,
                query_filter=where,
                with_payload=False,
            )
        return np.array([point.id for point in response.points], np.int64)

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        client, collection = self.store.client, self.store.collection
        with self.store.explained():
            found = client.retrieve(collection, np.unique(ids).tolist(), **_of(columns))
        points = {point.id: point for point in found}
        return self._rows([points[idx] for idx in ids.tolist()], columns)

    def _rows(self, points: Sequence[Any], columns: Sequence[str]) -> pa.Table:
        """Return the rows that points are."""
        of_columns = schema(self.state.model.dimension)
        arrays = []
        for name in columns:
            if name == "vector":
                vectors = np.array([point.vector["vector"] for point in points], np.float16)
                size = self.state.model.dimension
                arrays.append(pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), size))
                continue
            values: list[Any] = [point.payload.get(name) for point in points]
            if name in TIMES:
                values = [datetime.fromisoformat(value) for value in values]
            kind = of_columns.field(name).type
            if pa.types.is_binary(kind):
                values = [value and base64.b64decode(value) for value in values]
            arrays.append(pa.array(values, kind))
        return pa.table(arrays, names=list(columns))

    def fetch(
        self,
        keys: npt.NDArray[np.int64],
        columns: Sequence[str],
        where: models.Filter | None = None,
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
        with self.store.explained():
            found = self.store.scroll(columns, _filter(matches, where), limit)
        return self._rows(found, columns)

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """See `Engine`."""
        ids = [_id(term) for term in terms]
        with self.store.explained():
            points = self.store.client.retrieve(self.store.collection, ids)
        having = {point.id: (point.payload or {})["frequencies"] for point in points}
        idx = list(TERMS).index(level)
        counts = np.array([having[name][idx] if name in having else 0 for name in ids])
        return rarity(counts, self.state.totals.num_texts(level))


def _filter(matches: Matches, where: models.Filter | None = None) -> models.Filter:
    """Return the filter of points that match and satisfy a condition."""
    must: list[Any] = [where] if where else []
    for column, values in matches.items():
        match = models.MatchAny(any=np.asarray(values).tolist())
        must.append(models.FieldCondition(key=column, match=match))
    return models.Filter(must=must)


def _id(word: str) -> str:
    return str(uuid5(_WORDS, word))


def _dimension(term: str) -> int:
    """Return the dimension of a term in sparse vectors; a few share one."""
    return zlib.crc32(term.encode())


def _point(idx: int | str, payload: dict[str, Any], **vectors: Any) -> models.PointStruct:
    return models.PointStruct(id=idx, payload=payload, vector=vectors)


def _points(rows: pa.Table, totals: Totals) -> Iterator[models.PointStruct]:
    """Return the points of rows.

    The value of a term is what `foveate.tasks.bm25.bm25` makes of how often it occurs.
    """
    for row in in_microseconds(rows).to_pylist():
        vector, level = row.pop("vector"), row["level"]
        listed = {of_level: row.pop(column) for of_level, column in TERMS.items()}
        terms, frequencies = np.unique(listed[level].split(), return_counts=True)
        length = frequencies.sum() / totals.mean_length(level)
        values = saturated(frequencies, length)
        sparse = dict(zip(map(_dimension, terms.tolist()), values.tolist(), strict=True))
        payload = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in row.items()
            if value is not None
        }
        payload |= {name: row[name].isoformat() for name in TIMES}
        of_terms = models.SparseVector(indices=list(sparse), values=list(sparse.values()))
        yield _point(row["key"], payload, vector=vector, terms=of_terms)


def _of(columns: Sequence[str]) -> dict[str, Any]:
    """Return the options that ask for some columns."""
    payload = [name for name in columns if name != "vector"]
    return {"with_payload": payload, "with_vectors": ["vector"] if "vector" in columns else False}
