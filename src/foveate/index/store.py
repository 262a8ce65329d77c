"""A library's table on a disk or in an object store, and how it is changed.

All changes of a writer become visible in one commit of Lance. What a writer that was killed has
written is in no version, and Lance removes it a week later. Each commit replaces the row that
counts what the library holds, so that of two writers who begin with the same version, Lance lets
one commit and refuses the other. On a disk, a lock tells the second one before it has done work.

When files are merged, old versions are removed; a reader that was still using one starts over.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.schema import SCHEMA_VERSION, TERMS, schema
from foveate.index.state import LibraryError, ModelRecord, State
from foveate.index.statistics import Totals, WordCounts, count

if TYPE_CHECKING:
    from foveate.index.lance import LanceEngine

_log = logging.getLogger(__name__)

_TABLE = "library.lance"
_LOCK = "writer.lock"
_METADATA = b"foveate"
_HEAD = -1
"""The key of the row that counts what a library holds; those that count words are below."""

_CACHED_BYTES = 2**29
"""What Lance may keep in memory of indexes; a quarter as much of what it knows of files."""

MAX_FRAGMENTS = 32
"""Number of small files from which they are merged."""

ROWS_PER_FILE = 2**19
"""Rows of which a file is left as it is when others are merged."""

ROWS_WITHOUT_INDEX = 20_000
"""Rows that are scanned about as fast as they are looked up."""

LEAST_FOR_VECTOR_INDEX = 50_000
"""Rows from which vectors get an index; fewer are all compared."""

_WORDS = {"base_tokenizer": "whitespace", "max_token_length": None, "with_position": False}
_WORDS |= dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding"), False)

_KEYS_PER_PAGE = 512

_FILE_VERSION = "2.1"
"""In 2.2, a value of a column that is the same in many rows, such as a language, takes 2 ms."""

_INDEXES = {
    "key": "BTREE",
    "content_hash": "BTREE",
    "document": "ZONEMAP",
    "file": "ZONEMAP",
    "level": "BITMAP",
    **dict.fromkeys(TERMS.values(), "INVERTED"),
}
"""Columns by which rows are looked up. What is added together is stored together, which is when a
zone map suffices."""


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
        return f"{str(self.place).rstrip('/')}/{_TABLE}"

    @property
    def folder(self) -> Path | None:
        """The folder on a disk; None in an object store."""
        return self.place if isinstance(self.place, Path) else None

    def exists(self) -> bool:
        """Return whether there is a library.

        Raises:
            LibraryError: The path is a file.
            OSError: The object store cannot be read.
        """
        if self.folder and self.folder.exists() and not self.folder.is_dir():
            raise LibraryError(f"{self.folder} is a file: a library is a folder, name another path")
        return self._find() is not None

    def _find(self) -> Any:
        """Return the table; None if there is none."""
        with self.explained():
            try:
                return lance().dataset(
                    self.uri,
                    storage_options=self.options,
                    index_cache_size_bytes=_CACHED_BYTES,
                    metadata_cache_size_bytes=_CACHED_BYTES // 4,
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
        table = self._find() if self.exists() else None
        if table is None:
            raise FileNotFoundError(
                f"there is no library in {self.place}: make one with "
                f"`foveate index PATH --library {self.place}` or Index.create"
            )
        made_by = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if made_by.get("schema") != SCHEMA_VERSION:
            version = "another version of foveate" if made_by else "another program"
            raise LibraryError(
                f"the table in {self.place} was made by {version}: index the files into a new "
                "library"
            )
        return table

    def engine(self) -> "LanceEngine":
        """Return its newest version, to be searched."""
        from foveate.index.lance import LanceEngine

        return LanceEngine(self)

    def state_of(self, table: Any) -> State:
        """Return the state of an opened table."""
        made_by = json.loads(table.schema.metadata[_METADATA])
        rows = self.read(table, ["totals"], f"key = {_HEAD}")
        if rows.num_rows != 1:
            raise self.unreadable("the row that counts what it holds is missing")
        next_document, *counts = rows["totals"][0].as_py()
        return State(
            ModelRecord(**made_by["model"]),
            table.version,
            made_by["library"],
            next_document,
            Totals.from_list(counts),
            tuple(made_by["unrelated"]),
        )

    def word_counts(self, table: Any) -> dict[int, WordCounts]:
        """Return how often words occur: the counts in each row that has some, by its key."""
        rows = self.read(table, ["key", "words", "frequencies"], f"key < {_HEAD}")
        lists = zip(rows["words"], rows["frequencies"], strict=True)
        counts = [WordCounts.from_lists(one.values, two.values.to_numpy()) for one, two in lists]
        return dict(zip(rows["key"].to_pylist(), counts, strict=True))

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

    def unreadable(self, reason: str) -> LibraryError:
        """Return the error that says that the library cannot be read, and why."""
        return LibraryError(
            f"the library {self.place} cannot be read ({reason}): if that is no matter of "
            "permissions, restore it from a copy, or index the files into a new one"
        )

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
            raise self.unreadable(reason) from error

    @contextmanager
    def writing(
        self, model: ModelRecord, unrelated: Callable[[], Sequence[float]]
    ) -> Iterator["Writer"]:
        """Provide a writer while no other process writes, creating the library if necessary.

        Args:
            model: The model that makes the vectors.
            unrelated: Returns that of the `State` of a library to create.

        Raises:
            LockedError: Another process is writing.
            LibraryError: The library was made by another model, or is damaged.
            OSError: The folder cannot be written to.
        """
        if self.folder is None:
            yield self._writer(model, unrelated)
            return
        others = {_TABLE, _LOCK}
        if self.folder.exists() and {one.name for one in self.folder.iterdir()} - others:
            raise LibraryError(
                f"{self.folder} is a folder that holds something else: name a new one"
            )
        with write_lock(self.folder):
            yield self._writer(model, unrelated)

    def _writer(self, model: ModelRecord, unrelated: Callable[[], Sequence[float]]) -> "Writer":
        if not self.exists():
            of_model = list(unrelated())
            with self.explained(is_write=True):
                self._create(model, of_model)
        table = self.open()
        check_model(self.place, self.state_of(table).model, model)
        with self.explained(is_write=True):
            known = {one.name for one in table.describe_indices()}
            for column, kind in _INDEXES.items():
                if f"{column}_idx" not in known:
                    of_kind, options = _index(kind)
                    table.create_scalar_index(column, of_kind, **options)
        return Writer(self, table)

    def _create(self, model: ModelRecord, unrelated: Sequence[float]) -> None:
        made_by = {"schema": SCHEMA_VERSION, "library": uuid4().hex, "model": asdict(model)}
        made_by["unrelated"] = unrelated
        columns = schema(model.dimension).with_metadata({_METADATA: json.dumps(made_by).encode()})
        head = _special_row(columns, _HEAD, totals=[0, *Totals().to_list()])
        lance().write_dataset(
            head, self.uri, storage_options=self.options, data_storage_version=_FILE_VERSION
        )


def _index(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return how Lance is asked for an index of a kind."""
    from lance.indices import IndexConfig

    if kind == "BTREE":  # of small pages, of which each key that is looked up reads one
        return IndexConfig("btree", {"zone_size": _KEYS_PER_PAGE}), {}
    return kind, _WORDS if kind == "INVERTED" else {}


class Written(NamedTuple):
    """Rows of documents that were written, and are in no version yet.

    Attributes:
        fragments: What Lance needs to commit them.
        totals: How many texts and terms they have.
        counts: In how many texts each word is.
        next_document: The number after that of their last document.
    """

    fragments: list[Any]
    totals: Totals
    counts: WordCounts
    next_document: int


def write(rows: pa.Table, table: Any, store: Store) -> Written:
    """Write the rows of documents beside a table, to be committed later."""
    with store.explained(is_write=True):
        fragments = _write(rows, table, store)
    return Written(fragments, *count(rows), pc.max(rows["document"]).as_py() + 1)


class Writer:
    """Changes to a library, which become visible together when they are committed.

    Args:
        store: The library, whose lock is held.
        table: The newest version of its table.
    """

    def __init__(self, store: Store, table: Any) -> None:
        self.store = store
        self.table = table
        state = store.state_of(table)
        self._totals, self.next_document = state.totals, state.next_document
        self._counts = store.word_counts(table)
        self._added: list[Written] = []
        self._outdated: list[int] = []

    def new_documents(self, number: int) -> int:
        """Reserve this many numbers, which no other document had or will have; return the first."""
        self.next_document += number
        return self.next_document - number

    def add(self, rows: pa.Table) -> None:
        """Write the rows of a batch of documents."""
        self.add_written(write(rows, self.table, self.store))

    def add_written(self, written: Written) -> None:
        """Have rows committed that another process has written."""
        self.next_document = max(self.next_document, written.next_document)
        self._added.append(written)

    def delete(self, documents: Iterable[int]) -> None:
        """Delete documents with their sections and sentences."""
        self._outdated += documents

    def commit(self) -> None:
        """Make the changes visible."""
        if not self._added and not self._outdated:
            return
        with self.store.explained(is_write=True):
            self._commit()
        self._added, self._outdated = [], []

    def _commit(self) -> None:
        totals = sum((one.totals for one in self._added), self._totals)
        removed = []
        outdated = "FALSE"
        if self._outdated:
            outdated = f"document IN ({', '.join(map(str, self._outdated))})"
            old = self.table.scanner(["level", *TERMS.values()], filter=outdated).to_table()
            of_old, counts_of_old = count(old)
            totals, removed = totals - of_old, [counts_of_old]
        counts = WordCounts.total([one.counts for one in self._added], removed)
        merged = []
        for key in sorted(self._counts):  # the newest first, which are the smallest
            if len(self._counts[key].words) > 2 * len(counts.words):
                break
            counts = WordCounts.total([counts, self._counts[key]])
            merged.append(key)
        key = min(self._counts, default=_HEAD) - 1
        columns = self.table.schema
        head = [self.next_document, *totals.to_list()]
        rows = [
            _special_row(columns, _HEAD, totals=head),
            _special_row(columns, key, words=counts.words, frequencies=counts.frequencies.ravel()),
        ]
        replaced = ", ".join(map(str, (_HEAD, *merged)))
        fragments = [one for written in self._added for one in written.fragments]
        fragments += _write(pa.concat_tables(rows), self.table, self.store)
        self._replace(f"key IN ({replaced}) OR {outdated}", fragments)
        self._totals = totals
        self._counts = {k: one for k, one in self._counts.items() if k not in merged}
        self._counts[key] = counts

    def _replace(self, condition: str, fragments: Sequence[Any]) -> None:
        """Commit new fragments in place of the rows that satisfy a condition."""
        addresses = self.table.scanner([], filter=condition, with_row_address=True).to_table()
        touched = np.unique(addresses["_rowaddr"].to_numpy() >> np.uint64(32)).tolist()
        updated, emptied = [], []
        for number in touched:
            left = self.table.get_fragment(number).delete(condition)
            if left is None:
                emptied.append(number)
            else:
                updated.append(left)
        change = lance().LanceOperation.Update(
            removed_fragment_ids=emptied, updated_fragments=updated, new_fragments=list(fragments)
        )
        self.table = lance().LanceDataset.commit(
            self.table, change, read_version=self.table.version, max_retries=0
        )

    def tidy(self, *, is_end: bool) -> None:
        """Optimize if there is reason to, so that a small change does not rewrite everything.

        Args:
            is_end: Whether nothing will be added soon, so that building indexes pays off.
        """
        with self.store.explained():
            sizes = [one.count_rows() for one in self.table.get_fragments()]
            is_due = sum(size < ROWS_PER_FILE for size in sizes) >= MAX_FRAGMENTS
            if is_end and not is_due:
                indexed = self.table.stats.index_stats("key_idx")
                is_due = indexed["num_unindexed_rows"] >= ROWS_WITHOUT_INDEX
        if is_due:
            self.optimize(with_vectors=is_end)

    def optimize(self, *, with_vectors: bool = True) -> None:
        """Merge small files and bring indexes up to date; then remove what is no longer needed.

        Everything that was written must have been committed.

        Args:
            with_vectors: Whether to make an index of vectors if there is none and it is time to.
        """
        with self.store.explained(is_write=True):
            table, num_rows = self.table, self.table.count_rows()
            _log.info("%s: merging files and updating indexes", self.store.place)
            table.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FILE)
            table.optimize.optimize_indices()
            has_index = any(one.name == "vector_idx" for one in table.describe_indices())
            if with_vectors and not has_index and num_rows >= LEAST_FOR_VECTOR_INDEX:
                _log.info("%s: indexing the vectors of %s rows", self.store.place, f"{num_rows:,}")
                table = table.create_index(
                    "vector", "IVF_RQ", metric="dot", num_partitions=round(num_rows**0.5)
                )
            table.cleanup_old_versions(timedelta(0))
            self.table = table


def _write(rows: pa.Table, table: Any, store: Store) -> list[Any]:
    from lance.fragment import write_fragments

    fragments: list[Any] = write_fragments(rows, table, storage_options=store.options)
    return fragments


def _special_row(columns: pa.Schema, key: int, **values: Any) -> pa.Table:
    """Return a row that is of no document."""
    given = {"key": key, "document": -1, **values}
    arrays = [
        pa.array([given[column.name]], column.type)
        if column.name in given
        else pa.nulls(1, column.type)
        for column in columns
    ]
    return pa.table(arrays, schema=columns)


def lance() -> Any:
    """Import Lance."""
    os.environ.setdefault("LANCE_LOG", "error")  # its warnings are for its developers
    import lance

    return lance


def quote(value: str) -> str:
    """Quote a string for SQL.

    Example:
        >>> print(quote("Moby's whale"))
        'Moby''s whale'
    """
    return "'" + value.replace("'", "''") + "'"


def quote_list(values: Iterable[str]) -> str:
    """Quote a list of strings for SQL's IN."""
    return f"({', '.join(map(quote, values))})"


def reason_of(error: BaseException) -> str:
    """Return what an error of Lance says, without the place in its code that comes after it."""
    return str(error).partition("\n")[0].split(", /")[0]


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder, which is made if necessary.

    The operating system releases the lock when the process ends, however it ends.

    Raises:
        LockedError: Another process holds the lock.
        OSError: The folder cannot be written to.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(
            f"another process is writing to the library {folder}: wait until it has ended; the "
            "library can be searched meanwhile"
        ) from error
    except OSError as error:
        raise type(error)(
            f"the library {folder} cannot be written to ({error.strerror}): it can only be searched"
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_model(place: str | Path, recorded: ModelRecord, given: ModelRecord) -> None:
    """Refuse a model other than the one that made a library.

    Raises:
        LibraryError: The models, or options that their vectors of documents depend on, differ.
    """
    settings = [
        {name: value for name, value in model.loading.items() if name != "query_prompt"}
        for model in (recorded, given)
    ]
    if recorded.sha256 == given.sha256 and settings[0] == settings[1]:
        return
    made_by = recorded.name or "foveate's default model"
    if recorded.sha256 == given.sha256:
        made_by += "".join(f" with {name}={value!r}" for name, value in settings[0].items())
    raise LibraryError(
        f"the library {place} was made by {made_by} (SHA-256 {recorded.sha256[:12]}…), and its "
        f"vectors cannot be compared with those of {given.name or 'the default model'} "
        f"({given.sha256[:12]}…): name that model, or index the files into a new library"
    )
