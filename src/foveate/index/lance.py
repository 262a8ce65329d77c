"""A library's table of Lance, on a disk or in an object store, and a version of it as an engine."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.conditions import as_sql, evaluated, quote, reason_of
from foveate.index.engine import Ids, Matches, keys_of
from foveate.index.schema import LEVELS, SCHEMA_VERSION, TERMS, documents_of, places_of
from foveate.index.state import LibraryError, ModelRecord, State
from foveate.index.statistics import Totals, WordCounts, rarity_of
from foveate.tasks.weights import Level

TABLE = "library.lance"
METADATA = b"foveate"
HEAD = -1
"""The key of the row that counts what a library holds; those that count words are below. Their
document is -1."""

_CACHED_BYTES = 2**27
"""What Lance may keep in memory of indexes, and as much of what it knows about files. With 32 MiB
of that, the rows that are read among ten million sentences take 10 ms longer."""

_SEARCHED = 400_000
"""Vectors that are searched: in a larger library, those of the partitions whose centroids are
closest. Among ten million rows a partition has 230 kB, and is read from the disk unless it is among
the `_CACHED_BYTES`."""

REFINE = 4
"""How many times as many rows the index finds as are proposed: those whose vectors, which are read
for that, are closest."""

_KNOWN_DOCUMENTS = 100_000
"""Documents whose place is remembered."""


class LockedError(OSError):
    """Another process is writing to the library."""


class Store:
    """The table of a library.

    Args:
        place: The library's folder, or the URL of one in an object store.
        options: What gives access to the object store, see Lance's `storage_options`.
    """

    def __init__(self, place: str | Path, options: Mapping[str, str] | None = None) -> None:
        self.place = place
        self.options = dict(options or {})

    @property
    def uri(self) -> str:
        """The place of the table."""
        return f"{str(self.place).rstrip('/')}/{TABLE}"

    @property
    def folder(self) -> Path | None:
        """The folder on a disk; None in an object store."""
        return self.place if isinstance(self.place, Path) else None

    def exists(self) -> bool:
        """Return whether there is a library.

        Raises:
            OSError: The object store cannot be read.
        """
        return self._find() is not None

    def _find(self) -> Any:
        """Return the table; None if there is none."""
        with self.explained():
            try:
                return lance().dataset(
                    self.uri,
                    storage_options=self.options,
                    index_cache_size_bytes=_CACHED_BYTES,
                    metadata_cache_size_bytes=_CACHED_BYTES,
                )
            except ValueError as error:
                if "was not found" in str(error):
                    return None
                raise

    def open(self) -> Any:
        """Open the newest version of the table.

        Raises:
            FileNotFoundError: There is no library.
            LibraryError: It is damaged, or another program or version of foveate made it.
            OSError: It cannot be read for another reason.
        """
        table = self._find()
        if table is None:
            raise FileNotFoundError(
                f"there is no library in {self.place}: make one with "
                f"`foveate index PATH --library {self.place}` or Index.create"
            )
        made_by = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        if made_by.get("schema") != SCHEMA_VERSION:
            version = "another version of foveate" if made_by else "another program"
            raise LibraryError(
                f"the table in {self.place} was made by {version}: index the files into a new "
                "library"
            )
        return table

    def engine(self) -> "LanceEngine":
        """Return its newest version, to be searched."""
        return LanceEngine(self)

    def state_of(self, table: Any) -> State:
        """Return the state of an opened table."""
        made_by = json.loads(table.schema.metadata[METADATA])
        rows = self.read(table, ["totals"], f"document = -1 AND key = {HEAD}")
        if rows.num_rows != 1:
            raise self._unreadable("the row that counts what it holds is missing")
        next_document, *counts = rows["totals"][0].as_py()
        return State(
            ModelRecord(**made_by["model"]),
            table.version,
            made_by["library"],
            next_document,
            Totals(tuple(counts[: len(LEVELS)]), tuple(counts[len(LEVELS) :])),
            tuple(made_by["unrelated"]),
        )

    def word_counts(self, table: Any) -> dict[int, WordCounts]:
        """Return how often words occur: the counts in each row that has some, by its key."""
        columns = ("key", "words", "frequencies")
        rows = self.read(table, columns, f"document = -1 AND key < {HEAD}")
        return dict(zip(rows["key"].to_pylist(), WordCounts.of_rows(rows), strict=True))

    def read(
        self, table: Any, columns: Sequence[str], condition: str | None = None, **options: Any
    ) -> pa.Table:
        """Read some columns of the rows that satisfy a condition."""
        with self.explained():
            return table.scanner(list(columns), filter=condition, **options).to_table()

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes when the library does.

        Raises:
            FileNotFoundError: See `open`.
        """
        versions = Path(self.uri, "_versions")
        if self.folder is None or not versions.exists():
            return (self.open().version,)
        stat = versions.stat()
        return stat.st_mtime_ns, stat.st_ino

    def size(self) -> int:
        """Return the total size in bytes of the files of its newest version."""
        files = self.open().all_files().read_all()
        return int(pc.sum(files["size_bytes"]).as_py())

    @contextmanager
    def explained(self, *, is_write: bool = False) -> Iterator[None]:
        """Turn errors of Lance into readable messages.

        Raises:
            LibraryError: Files cannot be read.
            LockedError: Another process has changed the library since it was opened.
            OSError: Files cannot be written, or an object store cannot be reached.
            ValueError: A condition cannot be evaluated for some rows.
        """
        try:
            yield
        except (LibraryError, LockedError, FileNotFoundError):
            raise
        except (RuntimeError, ValueError, OSError, pa.ArrowException) as error:
            reason = reason_of(error)
            if "Execution error" in reason:
                raise ValueError(
                    f"a condition cannot be evaluated for some values ({reason}): leave these out"
                ) from error
            if "conflict" in reason.lower():
                raise LockedError(
                    f"another process has changed the library {self.place} meanwhile: run the same "
                    "command again, which continues from there"
                ) from error
            if is_write:
                raise OSError(
                    f"the library {self.place} cannot be written ({reason}): what was committed "
                    "before is whole; free some space or check the disk, and start again"
                ) from error
            if self.folder is None:
                raise OSError(
                    f"the library {self.place} cannot be reached ({reason}): check its address, "
                    "the credentials and the region, see `storage_options` of Index.open"
                ) from error
            raise self._unreadable(reason) from error

    def _unreadable(self, reason: str) -> LibraryError:
        return LibraryError(
            f"the library {self.place} cannot be read ({reason}): if that is no matter of "
            "permissions, restore it from a copy, or index the files into a new one"
        )


class LanceEngine:
    """A library's newest version at the time when this is made; see `Engine`.

    Args:
        store: The library.

    Attributes:
        store: The library.
        table: Its table.
        state: See `Engine`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = store.open()
        self.state = store.state_of(self.table)
        self._threads = ThreadPoolExecutor(4)
        self._sizes = {one.fragment_id: one.physical_rows for one in self.table.get_fragments()}
        self._firsts: dict[int, tuple[int, int]] = {}

    def condition(
        self, where: Sequence[str], path: str | None, section: str | None, document: int | None
    ) -> str:
        """See `Engine`."""
        condition = as_sql(where, path, section, document)
        with evaluated(where, (ValueError, RuntimeError, OSError)):
            self.table.scanner(["key"], filter=condition, limit=1).to_table()
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
        from lance.query import MatchQuery

        by_vector = {
            "column": "vector",
            "k": k,
            "metric": "dot",
            "nprobes": num_probes(sum(self.state.totals.texts)),
            "refine_factor": REFINE,
        }
        nearest = [
            self._threads.submit(self._propose, where, nearest={**by_vector, "q": vector})
            for vector in vectors
        ]
        matching: Ids = np.zeros(0, np.int64)
        if terms:
            query = MatchQuery(" ".join(terms), TERMS[level])
            matching = self._propose(where, full_text_query=query, limit=k)
        return np.concatenate([future.result() for future in nearest]), matching

    def _propose(self, where: str | None, **query: Any) -> Ids:
        options: dict[str, Any] = {"with_row_id": True, "disable_scoring_autoprojection": True}
        rows = self.store.read(self.table, [], where, prefilter=True, **options, **query)
        ids: Ids = rows["_rowid"].to_numpy().astype(np.int64)
        return ids

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        rows = self._at(ids, columns)
        keys = keys_of(rows)
        if len(self._firsts) > _KNOWN_DOCUMENTS:
            self._firsts.clear()
        fragments, rows_before = ids >> 32, ids % 2**32
        firsts = (rows_before - places_of(keys)).tolist()
        found = zip(fragments.tolist(), firsts, strict=True)
        self._firsts |= zip(documents_of(keys).tolist(), found, strict=True)
        return rows

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """See `Engine`."""
        keys = np.unique(keys)
        addresses = self._addresses(keys)
        known, first = np.unique(addresses[addresses >= 0], return_index=True)
        known = known[np.argsort(first)]  # in the order of the keys
        if where is None:
            rows = self._at(known, columns)
        else:
            rows = self.read(columns, {"_rowid": known}, where)
        # Where no row has a key, that of another document may be.
        if not (is_wanted := np.isin(keys_of(rows), keys)).all():
            rows = rows.filter(pa.array(is_wanted))
        if len(unknown := keys[addresses < 0]):
            matches = {"document": np.unique(documents_of(unknown)), "key": unknown}
            rows = pa.concat_tables([rows, self.read(columns, matches, where)])
        is_sorted = (np.diff(keys_of(rows)) > 0).all()
        return rows if is_sorted else rows.sort_by("key")

    def _addresses(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the addresses of rows, beside those that were taken; -1 where that is unknown.

        To look rows up by their document and key takes 3.6 times as long among 400,000.
        """
        documents, of_key = np.unique(documents_of(keys), return_inverse=True)
        firsts = [self._firsts.get(one, (-1, 0)) for one in documents.tolist()]
        sizes = np.array([self._sizes.get(fragment, 0) for fragment, _ in firsts], np.int64)
        fragments, rows_before = np.array(firsts, np.int64).reshape(-1, 2).T
        within = rows_before[of_key] + places_of(keys)
        # A document may begin in one file and end in the next.
        is_there = (within >= 0) & (within < sizes[of_key])
        return np.where(is_there, (fragments[of_key] << 32) + within, -1)

    def _at(self, addresses: Ids, columns: Sequence[str]) -> pa.Table:
        """Read the rows at some addresses, in this order, without those that were deleted."""
        with self.store.explained():
            # Private: `_rowid IN (…)` takes 1.1 times as long for rows far apart, 1.8 for runs.
            rows: pa.Table = self.table._take_rows(addresses.tolist(), list(columns))
        return rows

    def read(
        self,
        columns: Sequence[str],
        matches: Matches,
        where: str | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """See `Engine`."""
        return self.store.read(self.table, columns, as_filter(matches, where), limit=limit)

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """See `Engine`."""
        return rarity_of(terms, level, self._counts, self.state.totals)

    @cached_property
    def _counts(self) -> list[WordCounts]:
        return list(self.store.word_counts(self.table).values())


def num_probes(num_rows: int) -> int:
    """Return how many partitions of an index of vectors are searched, of √rows."""
    return round(_SEARCHED / math.sqrt(num_rows))


def as_filter(matches: Matches, where: str | None = None) -> str:
    """Return the condition that rows match and satisfy another one."""
    wanted = [f"({one_of(column, values)})" for column, values in matches.items()]
    return " AND ".join([*wanted, *filter(None, [where])])


def one_of(column: str, values: Iterable[Any]) -> str:
    """Return the condition that a column has one of some values."""
    listed = [quote(value) if isinstance(value, str) else str(value) for value in values]
    return f"{column} IN ({', '.join(listed) or 'NULL'})"


def lance() -> Any:
    """Import Lance."""
    os.environ.setdefault("LANCE_LOG", "error")  # its warnings are for its developers
    import lance

    return lance
