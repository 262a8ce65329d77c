"""Changes to a library's table.

All changes of a writer become visible in one commit of Lance. What a writer that was killed has
written is in no version, and Lance removes it a week later. Each commit replaces the row that
counts what the library holds, so that of two writers who begin with the same version, Lance lets
one commit and refuses the other. On a disk, a lock tells the second one before it has done work.

When files are merged, old versions are removed; a reader that was still using one starts over.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.lance import HEAD, METADATA, TABLE, LockedError, Store, lance, one_of
from foveate.index.schema import LEVELS, SCHEMA_VERSION, TERMS, schema
from foveate.index.state import LibraryError, ModelRecord, check_model
from foveate.index.statistics import WordCounts, count

_log = logging.getLogger(__name__)

_LOCK = "writer.lock"

MAX_FRAGMENTS = 32
"""Number of small files from which they are merged when nothing more is added."""

ROWS_PER_MERGE = 100_000
"""Rows from which what was added is merged and indexed while more is added."""

ROWS_PER_FILE = 2**19
"""Rows of which a file is left as it is when others are merged."""

ROWS_WITHOUT_INDEX = 20_000
"""Rows that are scanned about as fast as they are looked up."""

LEAST_FOR_VECTOR_INDEX = 50_000
"""Rows from which vectors get an index; fewer are all compared."""

_TRAINED_ON = 64
"""Vectors for each partition of an index that its centroids are trained on. With 256, which is
Lance's default, 1.4 million rows take 148 instead of 51 s, and no more is found."""

_FILE_VERSION = "2.1"
"""In 2.2, a value of a column that is the same in many rows, such as a language, takes 2 ms."""

WORD_INDEX: Final[dict[str, Any]] = {
    "base_tokenizer": "whitespace",
    "max_token_length": None,
    "with_position": False,
    **dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding"), False),
}
"""Options of an index of words, which spaces separate."""

_KEYS_PER_PAGE = 512
"""Of an index of hashes, of which each one that is looked up reads one page."""

_INDEXES = {
    "content_hash": "BTREE",
    "document": "ZONEMAP",
    "file": "ZONEMAP",
    "level": "BITMAP",
    **dict.fromkeys(TERMS.values(), "INVERTED"),
}
"""Columns by which rows are looked up. What is added together is stored together, which is when a
zone map suffices."""


@contextmanager
def writing(store: Store, model: ModelRecord, unrelated: Sequence[float]) -> Iterator["Writer"]:
    """Provide a writer while no other process writes, creating the library if necessary.

    Args:
        store: The library.
        model: The model that makes the vectors.
        unrelated: That of the `State` of a library to create.

    Raises:
        LockedError: Another process is writing.
        LibraryError: The library was made by another model, or is damaged; or the folder holds
            something else.
        OSError: The folder cannot be written to.
    """
    with nullcontext() if store.folder is None else write_lock(store.folder):
        if not store.exists():
            _create(store, model, unrelated)
        table = store.open()
        check_model(store.place, store.state_of(table).model, model)
        with store.explained(is_write=True):
            _add_indexes(table)
        yield Writer(store, table)


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder, which is made if necessary.

    The operating system releases the lock when the process ends, however it ends.

    Raises:
        LibraryError: The folder holds something else than a library.
        LockedError: Another process holds the lock.
        OSError: The folder cannot be written to.
    """
    from filelock import FileLock, Timeout

    if folder.is_dir() and {one.name for one in folder.iterdir()} - {TABLE, _LOCK}:
        raise LibraryError(f"{folder} is a folder that holds something else: name a new one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK).acquire(timeout=0)
    except Timeout as error:
        raise LockedError(
            f"another process is writing to the library {folder}: wait until it has ended; the "
            "library can be searched meanwhile"
        ) from error
    except OSError as error:
        raise type(error)(
            f"the library {folder} cannot be written to ({error.strerror}): it can only be searched"
        ) from error
    with lock:
        yield


def _create(store: Store, model: ModelRecord, unrelated: Sequence[float]) -> None:
    made_by = {"schema": SCHEMA_VERSION, "library": uuid4().hex, "model": asdict(model)}
    made_by["unrelated"] = list(unrelated)
    columns = schema(model.dimension).with_metadata({METADATA: json.dumps(made_by).encode()})
    head = special_row(columns, HEAD, totals=[0] * (1 + 2 * len(LEVELS)))
    options = {"storage_options": store.options, "data_storage_version": _FILE_VERSION}
    with store.explained(is_write=True):
        lance().write_dataset(head, store.uri, **options)


def _add_indexes(table: Any) -> None:
    """Make the indexes that a table does not have yet."""
    from lance.indices import IndexConfig

    known = {one.name for one in table.describe_indices()}
    for column, kind in _INDEXES.items():
        if f"{column}_idx" not in known:
            small_pages = IndexConfig("btree", {"zone_size": _KEYS_PER_PAGE})
            options = WORD_INDEX if kind == "INVERTED" else {}
            table.create_scalar_index(column, small_pages if kind == "BTREE" else kind, **options)


class WrittenRows(NamedTuple):
    """Rows of documents that were written, and are in no version yet.

    Attributes:
        fragments: What Lance needs to commit them.
        totals: How many texts and terms they have, see `count`.
        counts: In how many texts each word is.
        next_document: The number after that of their last document.
    """

    fragments: list[Any]
    totals: npt.NDArray[np.int64]
    counts: WordCounts
    next_document: int


def write(rows: pa.Table, table: Any, store: Store) -> WrittenRows:
    """Write the rows of documents beside a table, to be committed later."""
    with store.explained(is_write=True):
        fragments = _write(rows, table, store)
    return WrittenRows(fragments, *count(rows), pc.max(rows["document"]).as_py() + 1)


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
        self.next_document = state.next_document
        self._totals = np.array(state.totals)
        self._counts = store.word_counts(table)
        self._added: list[WrittenRows] = []
        self._outdated: list[int] = []

    def new_documents(self, number: int) -> int:
        """Reserve this many numbers, which no other document had or will have; return the first."""
        self.next_document += number
        return self.next_document - number

    def add(self, written: WrittenRows) -> None:
        """Have rows committed."""
        self.next_document = max(self.next_document, written.next_document)
        self._added.append(written)

    def delete(self, documents: Sequence[int]) -> None:
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
        outdated = one_of("document", self._outdated)
        old = self.table.scanner(["level", *TERMS.values()], filter=outdated).to_table()
        old_totals, old_counts = count(old)
        totals = sum((one.totals for one in self._added), self._totals - old_totals)
        counts = WordCounts.total([one.counts for one in self._added], [old_counts])
        merged = []
        for key in sorted(self._counts):  # the newest first, which are the smallest
            if len(self._counts[key].words) > 2 * len(counts.words):
                break
            counts = WordCounts.total([counts, self._counts[key]])
            merged.append(key)
        key = min(self._counts, default=HEAD) - 1
        columns = self.table.schema
        head = [self.next_document, *totals.ravel().tolist()]
        rows = [
            special_row(columns, HEAD, totals=head),
            special_row(columns, key, words=counts.words, frequencies=counts.frequencies.ravel()),
        ]
        fragments = [one for written in self._added for one in written.fragments]
        fragments += _write(pa.concat_tables(rows), self.table, self.store)
        replaced = one_of("key", [HEAD, *merged])
        self._replace(f"document = -1 AND {replaced} OR {outdated}", fragments)
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
            is_end: Whether nothing will be added soon, so that an index of vectors pays off.
        """
        with self.store.explained():
            num_new = self.table.stats.index_stats("level_idx")["num_unindexed_rows"]
            is_due = num_new >= (ROWS_WITHOUT_INDEX if is_end else ROWS_PER_MERGE)
            if is_end and not is_due:
                sizes = [one.count_rows() for one in self.table.get_fragments()]
                num_small = sum(size < ROWS_PER_FILE for size in sizes)
                is_due = num_small >= MAX_FRAGMENTS or self._lacks_vector_index()
        if is_due:
            self.optimize(with_vectors=is_end)

    def _lacks_vector_index(self) -> bool:
        has_index = any(one.name == "vector_idx" for one in self.table.describe_indices())
        return not has_index and self.table.count_rows() >= LEAST_FOR_VECTOR_INDEX

    def optimize(self, *, with_vectors: bool = True) -> None:
        """Merge small files and bring indexes up to date; then remove what is no longer needed.

        Everything that was written must have been committed.

        Args:
            with_vectors: Whether to make an index of vectors if there is none and it is time to.
        """
        with self.store.explained(is_write=True):
            table = self.table
            _log.info("%s: merging files and updating indexes", self.store.place)
            table.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FILE)
            table.optimize.optimize_indices()
            if with_vectors and self._lacks_vector_index():
                num_rows = table.count_rows()
                _log.info("%s: indexing the vectors of %s rows", self.store.place, f"{num_rows:,}")
                table = table.create_index(
                    "vector",
                    "IVF_RQ",
                    metric="dot",
                    num_partitions=round(num_rows**0.5),
                    sample_rate=_TRAINED_ON,
                    num_bits=1,
                )
            table.cleanup_old_versions(timedelta(0))
            self.table = table


def _write(rows: pa.Table, table: Any, store: Store) -> list[Any]:
    from lance.fragment import write_fragments

    fragments: list[Any] = write_fragments(rows, table, storage_options=store.options)
    return fragments


def special_row(columns: pa.Schema, key: int, **values: Any) -> pa.Table:
    """Return a row that is of no document."""
    given = {"key": key, "document": -1, **values}
    arrays = [
        pa.array([given[column.name]], column.type)
        if column.name in given
        else pa.nulls(1, column.type)
        for column in columns
    ]
    return pa.table(arrays, schema=columns)
