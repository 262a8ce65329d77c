"""A library's table on a disk or in an object store, and how it is changed.

All changes of a writer become visible in one commit of Lance. What a writer that was killed has
written is in no version, and is removed when files are merged. Each commit replaces the row that
counts what the library holds, so that of two writers who begin with the same version, Lance lets
one commit and refuses the other. On a disk, a lock tells the second one before it has done work.

When files are merged, old versions are removed; a reader that was still using one starts over.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.lock import LockedError, write_lock
from foveate.index.schema import SCHEMA_VERSION, TERMS, schema
from foveate.index.statistics import Totals, WordCounts, count

_TABLE = "library.lance"
_METADATA = b"foveate"
_HEAD = -1
"""The key of the row that counts what a library holds; those that count words are below."""

_CACHED_BYTES = 2**30
"""What Lance may keep in memory of indexes; half as much of what it knows of files."""

MAX_FRAGMENTS = 32
"""Number of small files from which they are merged."""

ROWS_PER_FILE = 2**20

ROWS_WITHOUT_INDEX = 20_000
"""Rows that are scanned about as fast as they are looked up."""

LEAST_FOR_VECTOR_INDEX = 50_000
"""Rows from which vectors get an index; fewer are all compared."""

_INDEXES = {
    "key": "BTREE",
    "content_hash": "BTREE",
    "document": "ZONEMAP",
    "file": "ZONEMAP",
    "level": "BITMAP",
}
"""Columns by which rows are looked up. What is added together is stored together, which is when a
zone map suffices."""

_INDEXES |= dict.fromkeys(TERMS.values(), "INVERTED")
_WORDS = {"base_tokenizer": "whitespace", "max_token_length": None, "with_position": False}
_WORDS |= dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding"), False)

CONDITION_ERRORS = ("Execution error", "Invalid user input", "Schema error")
"""What Lance's message says if a condition cannot be evaluated for some values, or parsed."""

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_LIMITS = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


IN_MEMORY = "a model in memory"
"""The name of a model that cannot be loaded by name: its weights are in no file."""


class LibraryError(ValueError):
    """A library cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model that made a library's vectors.

    Attributes:
        name: Name or path of its checkpoint; None for the default model.
        sha256: Hash of its weights.
        context: What it reads at once, see `Encoder`.
        dimension: Length of its vectors.
        options: See `Encoder.options`.
    """

    name: str | None
    sha256: str
    context: str
    dimension: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def loading(self) -> dict[str, Any]:
        """The options with which `Encoder.from_pretrained` loads it."""
        return {"context": self.context, **self.options}

    @property
    def is_default(self) -> bool:
        """Whether it is foveate's own, as it is loaded without options."""
        return self.name is None and self.context == "tree" and not self.options


@dataclass(frozen=True, slots=True)
class State:
    """What a library consists of at one point in time.

    Attributes:
        model: The model that made its vectors.
        version: The version of its table.
        library: Drawn at random when the library was created, so that another one that takes its
            place is noticed.
        next_document: Number of the next document.
        num_documents: Number of documents.
        num_sentences: Number of sentences.
        unrelated: `(dimension,)`, the mean of the vectors of sentences that have nothing to do with
            each other, see `foveate.tasks.relevance`.
    """

    model: ModelRecord
    version: int
    library: str
    next_document: int
    num_documents: int
    num_sentences: int
    unrelated: tuple[float, ...]


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
            LibraryError: The path is a file, or a library of another version.
            OSError: The object store cannot be read.
        """
        if self.folder is None:
            return self._find() is not None
        if self.folder.exists() and not self.folder.is_dir():
            raise LibraryError(f"{self.folder} is a file: a library is a folder, name another path")
        if (self.folder / "library.json").exists():
            raise LibraryError(
                f"the library {self.folder} was made by an earlier version of foveate: index the "
                "files into a new library"
            )
        return any(Path(self.uri, "_versions").glob("*.manifest"))

    def _find(self) -> Any:
        """Return the table; None if there is none."""
        with self.explained():
            try:
                return lance().dataset(
                    self.uri,
                    storage_options=self.options,
                    index_cache_size_bytes=_CACHED_BYTES,
                    metadata_cache_size_bytes=_CACHED_BYTES // 2,
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

    def state_of(self, table: Any) -> State:
        """Return the state of an opened table."""
        made_by = json.loads(table.schema.metadata[_METADATA])
        totals = self.totals(table)
        return State(
            ModelRecord(**made_by["model"]),
            table.version,
            made_by["library"],
            totals.num_added,
            totals.num_texts("document"),
            totals.num_texts("sentence"),
            tuple(made_by["unrelated"]),
        )

    def totals(self, table: Any) -> Totals:
        """Return what an opened table holds."""
        rows = self.read(table, ["totals"], f"key = {_HEAD}")
        if rows.num_rows != 1:
            raise self.unreadable("the row that counts what it holds is missing")
        return Totals.from_list(rows["totals"][0].as_py())

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
        if self.folder is None or not self.exists():
            return (self.open().version,)
        stat = Path(self.uri, "_versions").stat()
        return stat.st_mtime_ns, stat.st_ino

    def size(self) -> int:
        """Return the total size in bytes of the files of its newest version."""
        files = self.open().all_files().read_all()
        return int(pc.sum(files["size_bytes"]).as_py())

    def unreadable(self, reason: str) -> LibraryError:
        """Return the error that says that the library cannot be read, and why."""
        for path in Path(self.uri, "_versions").glob("*.manifest") if self.folder else ():
            if not path.stat().st_size:
                return LibraryError(
                    f"the library {self.place} cannot be read: {path} is empty, as a failure of "
                    "power leaves it; delete that file, and the library is as it was before"
                )
        return LibraryError(
            f"the library {self.place} cannot be read ({reason}): restore it from a copy, or index "
            "the files into a new one"
        )

    @contextmanager
    def explained(self, *, is_write: bool = False) -> Iterator[None]:
        """Turn errors of Lance into readable messages.

        Raises:
            LibraryError: Files are damaged.
            LockedError: Another process has changed the library since it was opened.
            OSError: Files cannot be read or written for another reason.
        """
        try:
            with without_panics():
                yield
        except (LibraryError, LockedError, FileNotFoundError, MemoryError):
            raise
        except (RuntimeError, ValueError, OSError, pa.ArrowException) as error:
            reason = reason_of(error)
            if CONDITION_ERRORS[0] in reason:
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
            if limits(error):
                raise OSError(
                    f"the library {self.place} cannot be read ({reason}), which is not damage: "
                    "change the permission or the limit, and try again"
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
        if not self.exists() and self.folder.exists() and not self._is_ours():
            raise LibraryError(
                f"{self.folder} is a folder that holds something else: name a new one"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
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
                    options = _WORDS if kind == "INVERTED" else {}
                    table.create_scalar_index(column, kind, **options)
        return Writer(self, table)

    def _is_ours(self) -> bool:
        """Return whether a folder holds at most what is left if making a library is interrupted."""
        assert self.folder is not None
        return all(
            one.name == _TABLE or one.name.startswith((".", "writer."))
            for one in self.folder.iterdir()
        )

    def _create(self, model: ModelRecord, unrelated: Sequence[float]) -> None:
        made_by = {"schema": SCHEMA_VERSION, "library": uuid4().hex, "model": asdict(model)}
        made_by["unrelated"] = unrelated
        columns = schema(model.dimension).with_metadata({_METADATA: json.dumps(made_by).encode()})
        head = _special_row(columns, _HEAD, totals=Totals().to_list())
        lance().write_dataset(head, self.uri, storage_options=self.options)


class Writer:
    """Changes to a library, which become visible together when they are committed.

    Args:
        store: The library, whose lock is held.
        table: The newest version of its table.
    """

    def __init__(self, store: Store, table: Any) -> None:
        self.store = store
        self.table = table
        self.next_document = store.state_of(table).next_document
        self._counts = store.word_counts(table)
        self._fragments: list[Any] = []  # that are not committed yet
        self._added: list[tuple[Totals, WordCounts]] = []
        self._outdated: list[int] = []

    def new_documents(self, number: int) -> int:
        """Reserve this many numbers, which no other document had or will have; return the first."""
        self.next_document += number
        return self.next_document - number

    def add(self, rows: pa.Table) -> None:
        """Write the rows of a batch of documents."""
        with self.store.explained(is_write=True):
            self._fragments += self._write(rows)
        self._added.append(count(rows))

    def delete(self, documents: Iterable[int]) -> None:
        """Delete documents with their sections and sentences."""
        self._outdated += documents

    def commit(self) -> None:
        """Make the changes visible."""
        if not self._fragments and not self._outdated:
            return
        with self.store.explained(is_write=True):
            num_committed = self.store.state_of(self.table).next_document
            # Those of a file that is given up are not in the table before they are committed.
            given_up = [number for number in self._outdated if number >= num_committed]
            self._commit([number for number in self._outdated if number < num_committed])
            if given_up:
                self._commit(given_up)
        self._outdated = []

    def _commit(self, numbers: Sequence[int]) -> None:
        """Commit what was added, without the documents with some numbers."""
        totals = sum((of_added for of_added, _ in self._added), self.store.totals(self.table))
        added, removed = [counts for _, counts in self._added], []
        outdated = f"document IN ({', '.join(map(str, numbers))})" if numbers else "FALSE"
        if numbers:
            old = self.table.scanner(["level", *TERMS.values()], filter=outdated).to_table()
            of_old, counts = count(old)
            totals, removed = totals - of_old, [counts]
        counts = WordCounts.total(added, removed)
        merged = []
        for key in sorted(self._counts):  # the newest first, which are the smallest
            if len(self._counts[key].words) > 2 * len(counts.words):
                break
            counts = WordCounts.total([counts, self._counts[key]])
            merged.append(key)
        key = min(self._counts, default=_HEAD) - 1
        columns = self.table.schema
        rows = [
            _special_row(columns, _HEAD, totals=totals.to_list()),
            _special_row(columns, key, words=counts.words, frequencies=counts.frequencies.ravel()),
        ]
        replaced = ", ".join(map(str, (_HEAD, *merged)))
        self._replace(
            f"key IN ({replaced}) OR {outdated}",
            [*self._fragments, *self._write(pa.concat_tables(rows))],
        )
        self._counts = {k: one for k, one in self._counts.items() if k not in merged}
        self._counts[key] = counts
        self._fragments, self._added = [], []

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

    def _write(self, rows: pa.Table) -> list[Any]:
        from lance.fragment import write_fragments

        fragments: list[Any] = write_fragments(rows, self.table, storage_options=self.store.options)
        return fragments

    def tidy(self, *, is_end: bool) -> None:
        """Optimize if there is reason to, so that a small change does not rewrite everything.

        Args:
            is_end: Whether nothing will be added soon, so that building indexes pays off.
        """
        with self.store.explained():
            sizes = [one.count_rows() for one in self.table.get_fragments()]
            is_due = sum(size < ROWS_PER_FILE // 2 for size in sizes) >= MAX_FRAGMENTS
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
            table = self.table
            table.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FILE)
            table.optimize.optimize_indices()
            has_index = any(one.name == "vector_idx" for one in table.describe_indices())
            if with_vectors and not has_index and table.count_rows() >= LEAST_FOR_VECTOR_INDEX:
                num_partitions = round(table.count_rows() ** 0.5)
                table = table.create_index(
                    "vector", "IVF_RQ", metric="dot", num_partitions=num_partitions
                )
            # The lock on a disk keeps other writers out, so what they left unfinished may go too.
            table.cleanup_old_versions(
                timedelta(0), delete_unverified=self.store.folder is not None
            )
            self.table = table


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


def limits(error: BaseException) -> bool:
    """Return whether an error is due to a permission or a limit of the system, not to a file.

    Lance gives the number of such an error only in its message.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (match := _OS_ERROR.search(str(error))):
        number = int(match[1])
    return number in _LIMITS


class LanceError(RuntimeError):
    """Lance failed in its own code, for which a file or a condition may be the reason."""


@contextmanager
def without_panics() -> Iterator[None]:
    """Raise a `LanceError` with a readable message instead of what Lance raises in a panic."""
    try:
        yield
    except BaseException as error:  # which PanicException is
        if type(error).__name__ != "PanicException" and "panicked" not in str(error):
            raise
        said, *_ = str(error).splitlines() or ["unknown error"]
        raise LanceError(f"Lance failed: {said}") from error


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
