"""A library in LanceDB Cloud or Enterprise: a table with the rows of one that Lance holds.

The row of the key `HEAD` has the library's state in JSON, and the one below it counts words.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final

import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.index import FTS, Bitmap, BTree, IvfRq
from lancedb.query import MatchQuery
from lancedb.remote.errors import LanceDBClientError

from foveate.index.conditions import as_sql, evaluated, reason_of
from foveate.index.copies import Copy
from foveate.index.engine import OF_DOCUMENTS, Ids, Matches
from foveate.index.lance import HEAD, REFINE, as_filter, num_probes, one_of
from foveate.index.schema import TERMS, schema
from foveate.index.state import State
from foveate.index.statistics import WordCounts, rarity_of
from foveate.index.writer import LEAST_FOR_VECTOR_INDEX, WORD_INDEX, special_row
from foveate.tasks.weights import Level

_INDEXES: Final = {
    "key": BTree(),
    "content_hash": BTree(),
    "document": BTree(),
    "level": Bitmap(),
    **dict.fromkeys(TERMS.values(), FTS(**WORD_INDEX)),
}


class CloudCopy(Copy):
    """A copy in LanceDB Cloud or Enterprise; see `Copy`.

    Args:
        place: "db://DATABASE/TABLE".
        options: Options of `lancedb.connect`: `api_key`, `region`, `host_override`. What is not
            given is in `LANCEDB_API_KEY`, `LANCEDB_REGION` and `LANCEDB_HOST_OVERRIDE`.
    """

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        self.place = place
        database, _, self._name = place.removeprefix("db://").partition("/")
        if not (database and self._name):
            raise ValueError(f"{place} names no table: write db://DATABASE/TABLE")
        names = {name: f"LANCEDB_{name.upper()}" for name in ("api_key", "region", "host_override")}
        given = {name: os.environ[one] for name, one in names.items() if one in os.environ}
        given |= options or {}
        if "api_key" not in given:
            raise ValueError(f"{place} asks for a key: set LANCEDB_API_KEY")
        self._connection = lancedb.connect(f"db://{database}", **given)
        self._table: Any = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """See `Copy`."""
        try:
            yield
        except LanceDBClientError as error:
            raise OSError(
                f"the library {self.place} cannot be reached ({reason_of(error)}): check its name, "
                "LANCEDB_API_KEY and LANCEDB_REGION"
            ) from error

    def state(self) -> State | None:
        """See `Copy`."""
        if self.table is None:
            return None
        rows = self.read(["content"], f"key = {HEAD}")
        return State.from_dict(json.loads(rows["content"][0].as_py())) if rows.num_rows else None

    @property
    def table(self) -> Any:
        """The table; None if there is none."""
        if self._table is None:
            with self.explained():
                try:
                    self._table = self._connection.open_table(self._name)
                except ValueError as error:
                    if "was not found" not in str(error):
                        raise
        return self._table

    def read(self, columns: Sequence[str], condition: str, limit: int | None = None) -> pa.Table:
        """Read some columns of the rows that satisfy a condition."""
        query = self.table.search().where(condition).select(list(columns))
        with self.explained():
            return (query.limit(limit) if limit else query).to_arrow()

    def searched(self, state: State) -> "CloudEngine":
        """See `Copy`."""
        return CloudEngine(self, state)

    def documents(self, dimension: int) -> set[int]:
        """See `Copy`."""
        if self.table is None:
            self._table = self._connection.create_table(self._name, schema=schema(dimension))
        return {*self.read(["document"], as_filter(OF_DOCUMENTS))["document"].to_pylist()}

    def remove(self, documents: Sequence[int]) -> None:
        """See `Copy`."""
        self.table.delete(one_of("document", documents))

    def send(self, rows: pa.Table, state: State) -> None:
        """See `Copy`."""
        self.table.add(rows)

    def finish(self, counts: WordCounts, state: State) -> None:
        """See `Copy`."""
        columns = self.table.schema
        words = {"words": counts.words, "frequencies": counts.frequencies.ravel()}
        rows = [
            special_row(columns, HEAD, content=json.dumps(asdict(state)).encode()),
            special_row(columns, HEAD - 1, **words),
        ]
        merge = self.table.merge_insert("key").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(pa.concat_tables(rows), on_bad_vectors="null")
        known = {column for one in self.table.list_indices() for column in one.columns}
        missing = {column: index for column, index in _INDEXES.items() if column not in known}
        if "vector" not in known and sum(state.totals.texts) >= LEAST_FOR_VECTOR_INDEX:
            missing["vector"] = IvfRq(distance_type="dot")
        for column, index in missing.items():
            self.table.create_index(column, config=index)


class CloudEngine:
    """A library in LanceDB Cloud or Enterprise; see `Engine`. Rows are proposed by their keys.

    Args:
        copy: Where it is.
        state: See `Engine`.
    """

    def __init__(self, copy: CloudCopy, state: State) -> None:
        self.state = state
        self._copy = copy

    def condition(
        self, where: Sequence[str], path: str | None, section: str | None, document: int | None
    ) -> str:
        """See `Engine`."""
        condition = as_sql(where, path, section, document)
        with evaluated(where, LanceDBClientError):
            self._copy.table.search().where(condition).select(["key"]).limit(1).to_arrow()
        return condition

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        k: int,
        level: Level,
        where: str | None = None,
    ) -> tuple[Ids, Ids]:
        """See `Engine`."""
        probes = num_probes(sum(self.state.totals.texts))
        search = self._copy.table.search
        nearest = [
            search(vector, vector_column_name="vector")
            .distance_type("dot")
            .nprobes(probes)
            .refine_factor(REFINE)
            for vector in vectors
        ]
        matching: Ids = np.zeros(0, np.int64)
        if terms:
            query = MatchQuery(" ".join(terms), TERMS[level])
            matching = self._propose(search(query, query_type="fts"), k, where)
        return np.concatenate([self._propose(one, k, where) for one in nearest]), matching

    def _propose(self, query: Any, k: int, where: str | None) -> Ids:
        limited = query.select(["key"]).limit(k)
        with self._copy.explained():
            rows = (limited.where(where) if where else limited).to_arrow()
        keys: Ids = rows["key"].to_numpy()
        return keys

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        rows = self.fetch(np.unique(ids), columns)
        return rows.take(pc.index_in(pa.array(ids), rows["key"]))

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """See `Engine`."""
        return self.read(columns, {"key": keys}, where).sort_by("key")

    def read(
        self,
        columns: Sequence[str],
        matches: Matches,
        where: str | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """See `Engine`."""
        return self._copy.read(columns, as_filter(matches, where), limit)

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """See `Engine`."""
        return rarity_of(terms, level, self._counts, self.state.totals)

    @cached_property
    def _counts(self) -> list[WordCounts]:
        return WordCounts.of_rows(self._copy.read(["words", "frequencies"], f"key = {HEAD - 1}"))
