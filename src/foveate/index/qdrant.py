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
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from foveate.index.engine import OF_DOCUMENTS, Ids, Matches
from foveate.index.schema import TERMS, TIMES, in_microseconds, schema
from foveate.index.state import LibraryError, ModelRecord, State
from foveate.index.statistics import Totals, WordCounts
from foveate.tasks.weights import Level, held_back, rarity, term_weights

if TYPE_CHECKING:
    from foveate.index.lance import LanceEngine

_STATE = str(UUID(int=0))
_WORDS = UUID(int=1)
"""The namespace of the points that count words."""

_POINTS = 512
_DOCUMENTS = 64
"""How many points are sent, and of how many documents rows are read, at a time."""

_INDEXED = {
    "key": models.PayloadSchemaType.INTEGER,
    "level": models.PayloadSchemaType.KEYWORD,
    "document": models.PayloadSchemaType.INTEGER,
    "content_hash": models.PayloadSchemaType.INTEGER,
}


class QdrantStore:
    """A library in Qdrant, which can be searched but not changed.

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
        """Turn errors of the client into readable messages.

        Raises:
            OSError: Qdrant cannot be reached.
        """
        try:
            yield
        except ApiException as error:
            reason = " ".join(str(error).split())
            raise OSError(
                f"the library {self.place} cannot be reached ({reason}): check its address and key"
            ) from error

    def exists(self) -> bool:
        """Return whether there is a library."""
        with self.explained():
            return self.client.collection_exists(self.collection)

    def engine(self) -> "QdrantEngine":
        """Return the library, to be searched.

        Raises:
            FileNotFoundError: There is none.
        """
        state = self._state()
        if state is None:
            raise FileNotFoundError(
                f"there is no library in {self.place}: `foveate library export DIR {self.place}` "
                "makes one"
            )
        return QdrantEngine(self, state)

    def open(self) -> None:
        """Check that there is a library.

        Raises:
            FileNotFoundError: There is none.
        """
        self.engine()

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes when the library does."""
        state = self._state()
        return () if state is None else (state.version,)

    def _state(self) -> State | None:
        if not self.exists():
            return None
        with self.explained():
            points = self.client.retrieve(self.collection, [_STATE])
        if not points:
            return None
        held: dict[str, Any] = points[0].payload or {}
        model, totals = ModelRecord(**held["model"]), Totals(*map(tuple, held["totals"]))
        return State(
            **held | {"model": model, "totals": totals, "unrelated": (*held["unrelated"],)}
        )

    def write(self, engine: "LanceEngine") -> int:
        """Add the documents of a library that are not there yet, and remove those that are gone.

        Returns:
            The number of rows that were added.

        Raises:
            LibraryError: The collection holds something else.
        """
        held = self._state()
        if held is not None and held.library != engine.state.library:
            raise LibraryError(f"{self.place} holds another library: name a new collection")
        with self.explained():
            if not self.exists():
                self._create(engine.state.model.dimension)
            level = _filter(OF_DOCUMENTS)
            points = self.scroll(["document"], level)
            there = {(point.payload or {})["document"] for point in points}
            documents = engine.read(["document"], OF_DOCUMENTS)["document"].to_pylist()
            if gone := list(there.difference(documents)):
                selector = models.FilterSelector(filter=_filter({"document": gone}))
                self.client.delete(self.collection, selector)
            new = sorted(set(documents) - there)
            number = 0
            for start in range(0, len(new), _DOCUMENTS):
                some = {"document": new[start : start + _DOCUMENTS]}
                rows = engine.read(engine.table.schema.names, some)
                # A document is there once its own row is, which is its last.
                self._send(_points(rows.sort_by("key"), engine.state.totals))
                number += rows.num_rows
            counts = WordCounts.total(list(engine.store.word_counts(engine.table).values()))
            words = zip(counts.words.to_pylist(), counts.frequencies.tolist(), strict=True)
            version = {"version": engine.state.version}
            self._send(
                _point(_id(word), {"frequencies": having, **version}) for word, having in words
            )
            self._send([_point(_STATE, asdict(engine.state))])
            # Words that no text has any more are those of an earlier version.
            no_row = models.IsEmptyCondition(is_empty=models.PayloadField(key="level"))
            current = _filter({"version": [engine.state.version]})
            outdated = models.Filter(must=[no_row], must_not=[current])
            self.client.delete(self.collection, models.FilterSelector(filter=outdated))
        return number

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

    def __init__(self, store: QdrantStore, state: State) -> None:
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
            if name == "content":
                values = [value and base64.b64decode(value) for value in values]
            arrays.append(pa.array(values, of_columns.field(name).type))
        return pa.table(arrays, names=list(columns))

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
        ranges = [models.Range(gte=x.start, lt=x.stop) for x in values if isinstance(x, range)]
        if ranges:
            inside = [models.FieldCondition(key=column, range=bounds) for bounds in ranges]
            must.append(models.Filter(should=[*inside]))
        else:
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
        values = frequencies / (frequencies + held_back(length))
        sparse = dict(zip(map(_dimension, terms.tolist()), values.tolist(), strict=True))
        payload = {name: value for name, value in row.items() if value is not None}
        payload |= {name: row[name].isoformat() for name in TIMES}
        if row["content"] is not None:
            payload["content"] = base64.b64encode(row["content"]).decode()
        of_terms = models.SparseVector(indices=list(sparse), values=list(sparse.values()))
        yield _point(row["key"], payload, vector=vector, terms=of_terms)


def _of(columns: Sequence[str]) -> dict[str, Any]:
    """Return the options that ask for some columns."""
    payload = [name for name in columns if name != "vector"]
    return {"with_payload": payload, "with_vectors": ["vector"] if "vector" in columns else False}
