"""Tables that change together: a library's state on disk, and how it is replaced.

Lance commits each table by itself, and a reader must never see the sentences of a document that
its other tables do not have. So the file `library.json` names the version of each table that
belongs to the library. A writer first writes new versions of the tables, which nobody sees, and
then replaces that file, which is atomic. What a writer that was killed left behind is undone by
the next one, which removes the manifests of later versions before it writes.

When tables are merged, their old versions are removed; a reader that was still using them starts
over with the new state. A tag in each table keeps Lance from removing the version that the file
names, whatever happens in between.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from operator import gt, lt
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from foveate.files import atomic_write
from foveate.index.lance import connect, limits, quote, read, reason_of, without_panics
from foveate.index.lock import write_lock
from foveate.index.postings import merge_postings
from foveate.index.schema import SCHEMA_VERSION, schemas

_STATE = "library.json"
_TAG = "library"  # marks the version of a table that the library's state names
_FOREVER = timedelta(days=36500)
_LAST_VERSION = 2**64 - 1

_IDS_PER_CONDITION = 1000

MAX_BATCHES = 16
"""Number of batches from which the postings of each term are merged when files are merged.

A term has a row in each batch, and to look up tens of rows is slow.
"""

_SENTENCES_PER_BATCH = 50_000
"""Large libraries may have a batch for each so many sentences, as merging rewrites all postings."""

_TERMS_PER_MERGE = 100_000

MAX_FRAGMENTS = 32
"""Number of files of a table from which they are merged."""

ROWS_WITHOUT_INDEX = 20_000
"""Rows that are scanned about as fast as they are looked up."""

_INDEXED = {
    "documents": ("document", "file"),
    "sections": ("key",),
    "sentences": ("key",),
    "terms": ("term",),
}
"""Columns by which rows are looked up."""


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


@dataclass(frozen=True, slots=True)
class State:
    """What a library consists of at one point in time.

    Attributes:
        model: The model that made its vectors.
        versions: The version of each table.
        next_document: Number of the next document.
        num_documents: Number of documents.
        num_sentences: Number of sentences.
        num_batches: Number of batches in which terms were written since they were last merged.
        library: Drawn at random when the library was created, so that another one that takes its
            place is noticed.
    """

    model: ModelRecord
    versions: dict[str, int]
    next_document: int = 0
    num_documents: int = 0
    num_sentences: int = 0
    num_batches: int = 0
    library: str = field(default_factory=lambda: uuid4().hex)


class Store:
    """The tables of a library in a folder.

    Args:
        folder: The library's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def exists(self) -> bool:
        """Return whether there is a library in the folder.

        Raises:
            LibraryError: The path is a file, or a folder with other contents.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise LibraryError(f"{self.folder} is a file: a library is a folder, name another path")
        return (self.folder / _STATE).exists()

    def read_state(self) -> State:
        """Read the current state.

        Raises:
            FileNotFoundError: There is no library.
            LibraryError: It is damaged, or another version of foveate made it.
        """
        if not self.exists():
            raise FileNotFoundError(
                f"there is no library in {self.folder}: make one with "
                f"`foveate index PATH --library {self.folder}` or Index.create"
            )
        path = self.folder / _STATE
        try:
            fields = json.loads(path.read_bytes())
            schema = int(fields["schema"])
            if schema == SCHEMA_VERSION:
                del fields["schema"]
                return State(**{**fields, "model": ModelRecord(**fields["model"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LibraryError(
                f"{path} is damaged ({error}): restore it from a copy of the library, or index the "
                "files into a new one"
            ) from error
        raise LibraryError(
            f"the library {self.folder} was made by another version of foveate (format {schema}, "
            f"not {SCHEMA_VERSION}): index the files into a new library, or use that foveate"
        )

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes when the state is replaced."""
        stat = (self.folder / _STATE).stat()
        return stat.st_mtime_ns, stat.st_ino

    def open_tables(self, state: State) -> dict[str, Any]:
        """Open the tables for reading, as of a given state.

        Raises:
            LibraryError: Files are damaged so that Lance cannot read them.
            OSError: Lance cannot read them for another reason.
        """
        connection = connect(self.folder)
        tables = {}
        with self.explained():
            for name, version in state.versions.items():
                tables[name] = connection.open_table(name)
                tables[name].checkout(version)
        return tables

    def unreadable(self, reason: str) -> LibraryError:
        """Return the error that says that the library cannot be read, and why."""
        return LibraryError(
            f"the library {self.folder} cannot be read ({reason}): if writing to it was cut off, "
            f"`foveate library compact {self.folder}` undoes that; otherwise restore it from a "
            "copy, or index the files into a new one"
        )

    @contextmanager
    def explained(self, *, is_write: bool = False) -> Iterator[None]:
        """Turn errors of Lance into readable messages.

        Raises:
            LibraryError: Files are damaged.
            OSError: Files cannot be read or written for another reason.
        """
        try:
            with without_panics():
                yield
        except (LibraryError, FileNotFoundError, MemoryError):
            raise
        except (RuntimeError, ValueError, OSError, pa.ArrowException) as error:
            reason = reason_of(error)
            if is_write:
                raise OSError(
                    f"the library {self.folder} cannot be written ({reason}): what was committed "
                    "before is whole; free some space or check the disk, and start again"
                ) from error
            if limits(error):
                raise OSError(
                    f"the library {self.folder} cannot be read ({reason}), which is not damage: "
                    "change the permission or the limit, and try again"
                ) from error
            raise self.unreadable(reason) from error

    @contextmanager
    def writing(self, model: ModelRecord) -> Iterator["Writer"]:
        """Provide a writer while no other process writes, creating the library if necessary.

        Args:
            model: The model that makes the vectors.

        Raises:
            LockedError: Another process is writing.
            LibraryError: The library was made by another model, or is damaged.
            OSError: The folder cannot be written to.
        """
        is_new = not self.exists()
        if is_new and self.folder.exists() and not self._is_ours():
            raise LibraryError(
                f"{self.folder} is a folder that holds something else: name a new one"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with write_lock(self.folder):
            if not self.exists():
                with self.explained(is_write=True):
                    self._create(model)
            state = self.read_state()
            check_model(self.folder, state.model, model)
            with self.explained(is_write=True):
                writer = Writer(self, state, self._recover(state))
            yield writer

    def write_state(self, state: State) -> None:
        """Replace the state."""
        fields = {"schema": SCHEMA_VERSION, **asdict(state)}
        with atomic_write(self.folder / _STATE) as path, path.open("w", encoding="utf-8") as file:
            json.dump(fields, file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    def _is_ours(self) -> bool:
        """Return whether a folder holds at most what is left if making a library is interrupted."""
        tables = {f"{name}.lance" for name in schemas(1)}
        names = {path.name for path in self.folder.iterdir()}
        return all(name in tables or name.startswith((".", "writer.")) for name in names)

    def _create(self, model: ModelRecord) -> None:
        connection = connect(self.folder)
        for name in connection.list_tables().tables:  # which a writer that was killed has left
            connection.drop_table(name)
        versions = {
            name: connection.create_table(name, schema=schema).version
            for name, schema in schemas(model.dimension).items()
        }
        self.write_state(State(model, versions))

    def _recover(self, state: State) -> dict[str, Any]:
        """Undo what a writer that was killed has left, and open the tables for writing."""
        for name, version in state.versions.items():
            self.forget(name, partial(lt, version))
        connection = connect(self.folder)
        tables = {name: connection.open_table(name) for name in state.versions}
        for name, table in tables.items():
            self.tag(name, table)
        return tables

    def forget(self, name: str, is_unneeded: Callable[[int], bool]) -> None:
        """Remove the manifests of versions of a table that are not needed."""
        for version, path in _manifests(self.folder / f"{name}.lance").items():
            if is_unneeded(version):
                path.unlink()

    def tag(self, name: str, table: Any) -> None:
        """Keep Lance from removing the latest version of a table."""
        try:
            tags = table.tags.list()
        except RuntimeError:  # a full disk may have left an empty file, which Lance cannot read
            (self.folder / f"{name}.lance" / "_refs" / "tags" / f"{_TAG}.json").unlink()
            tags = table.tags.list()
        if _TAG not in tags:
            table.tags.create(_TAG, table.version)
        elif tags[_TAG]["version"] != table.version:
            table.tags.update(_TAG, table.version)


class Writer:
    """Changes to a library, which become visible together when they are committed.

    Args:
        store: The library, whose lock is held.
        state: Its state.
        tables: Its tables, opened for writing.
    """

    def __init__(self, store: Store, state: State, tables: dict[str, Any]) -> None:
        self.store = store
        self.state = state
        self.tables = tables
        self.next_document = state.next_document
        self.num_batches = state.num_batches

    def new_documents(self, number: int) -> int:
        """Reserve this many numbers, which no other document had or will have; return the first."""
        self.next_document += number
        return self.next_document - number

    def add(self, rows: Mapping[str, pa.Table]) -> None:
        """Write the rows of a batch of documents."""
        self.num_batches += 1
        with self.store.explained(is_write=True):
            for name, table in rows.items():
                if table.num_rows:
                    self.tables[name].add(table)

    def delete(self, documents: Sequence[int]) -> None:
        """Delete documents with their sections and sentences; their terms remain, unused."""
        for start in range(0, len(documents), _IDS_PER_CONDITION):
            ids = ", ".join(map(str, documents[start : start + _IDS_PER_CONDITION]))
            with self.store.explained(is_write=True):
                for name in ("documents", "sections", "sentences"):
                    self.tables[name].delete(f"document IN ({ids})")

    def commit(self) -> None:
        """Make the changes visible."""
        with self.store.explained(is_write=True):
            state = replace(
                self.state,
                versions={name: table.version for name, table in self.tables.items()},
                next_document=self.next_document,
                num_batches=self.num_batches,
                num_documents=self.tables["documents"].count_rows(),
                num_sentences=self.tables["sentences"].count_rows(),
            )
            self.store.write_state(state)
        self.state = state

    def tidy(self, *, is_end: bool) -> None:
        """Optimize if there is reason to, so that a small change does not rewrite everything.

        Args:
            is_end: Whether nothing will be added soon, so that building indexes pays off.
        """
        with self.store.explained():
            is_due = any(self._is_untidy(*one, is_end=is_end) for one in self.tables.items())
        if is_due:
            self.optimize()

    def _is_untidy(self, name: str, table: Any, *, is_end: bool) -> bool:
        """Return whether there is reason to optimize a table."""
        if table.stats()["fragment_stats"]["num_fragments"] >= MAX_FRAGMENTS:
            return True
        if not is_end:
            return False
        indexed = {one.columns[0]: one.num_indexed_rows for one in table.list_indices()}
        least = min(indexed.get(column, 0) for column in _INDEXED[name])
        return bool(table.count_rows() - least >= ROWS_WITHOUT_INDEX)

    def optimize(self, *, merges_terms: bool = False) -> None:
        """Merge small files and bring indexes up to date; then remove what is no longer needed.

        Everything that was written must have been committed. Tables above some size get the
        indexes that make rows of a given key, term or file quick to find.

        Args:
            merges_terms: Merge the postings of each term even if there are few batches.
        """
        with self.store.explained(is_write=True):
            for name, version in self.state.versions.items():
                # Lance would read them, to find out what else is not needed.
                self.store.forget(name, partial(gt, version))
            many = max(MAX_BATCHES, self.state.num_sentences // _SENTENCES_PER_BATCH)
            if self.num_batches >= many or merges_terms:
                self._merge_terms()
            for name, table in self.tables.items():
                indexed = {index.columns[0] for index in table.list_indices()}
                for column in _INDEXED[name]:
                    if column not in indexed and table.count_rows() >= ROWS_WITHOUT_INDEX:
                        _create_index(table, column)
                before = None
                while table.version != before:  # what was merged may then be merged with the rest
                    before = table.version
                    table.optimize(cleanup_older_than=_FOREVER)
            self.commit()
            for name, table in self.tables.items():
                self.store.tag(name, table)
                with warnings.catch_warnings():
                    # It warns of readers of replaced versions, which begin again; and the lock
                    # keeps other writers out, so that what they left unfinished may go too.
                    warnings.simplefilter("ignore")
                    table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def _merge_terms(self) -> None:
        """Merge the postings of each term into one row, without those of deleted documents.

        A few terms at a time are read, as committed, and rewritten.
        """
        committed = self.store.open_tables(self.state)["terms"]
        live = read(self.tables["documents"], ("document",))["document"].to_numpy()
        names = np.sort(read(committed, ("term",))["term"].to_numpy(zero_copy_only=False))
        firsts = list(dict.fromkeys(names[::_TERMS_PER_MERGE]))
        self.tables["terms"].delete("true")
        for first, after in zip_longest(firsts, firsts[1:]):
            condition = f"term >= {quote(first)}"
            if after is not None:
                condition += f" AND term < {quote(after)}"
            rows = read(committed, committed.schema.names, condition)
            self.tables["terms"].add(merge_postings(rows, live))
        self.num_batches = 0


def _manifests(table: Path) -> dict[int, Path]:
    """Return the manifests in the folder of a table, each the list of a version's files."""
    found = {}
    for path in table.glob("_versions/*.manifest"):
        if path.stem.isdecimal():
            number = int(path.stem)
            # The last one comes first, unless an early version of Lance named it.
            is_reversed = len(path.stem) == len(str(_LAST_VERSION))
            found[_LAST_VERSION - number if is_reversed else number] = path
    return found


def _create_index(table: Any, column: str) -> None:
    from lancedb.index import BTree

    table.create_index(column, config=BTree())


def check_model(folder: Path, recorded: ModelRecord, given: ModelRecord) -> None:
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
        f"the library {folder} was made by {made_by} (SHA-256 {recorded.sha256[:12]}…), and its "
        f"vectors cannot be compared with those of {given.name or 'the default model'} "
        f"({given.sha256[:12]}…): name that model, or index the files into a new library"
    )
