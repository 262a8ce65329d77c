"""Verification of a library: its rows are compared with its documents."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.records import Entry, FileRecord, rows, unpack_document
from foveate.index.schema import LEVELS, vectors_of
from foveate.index.snapshot import Snapshot
from foveate.index.statistics import Totals, WordCounts, count
from foveate.index.store import LibraryError, Store, limits, reason_of

_MAX_ERROR = 1e-2  # of a vector's length, which is 1 but for the rounding to float16
_OF_FILE = ("sha256", "size", "modified", "indexed", "content")
"""Columns that do not follow from a document's content."""

_COUNTS_IN_MEMORY = 256

_NEW = "index the files into a new library"
_RESTORE_OR_NEW = "restore it from a copy of the library, or index the files into a new one"
_AGAIN = "remove it with `foveate library remove`, and index it again"


def verify(store: Store) -> list[str]:
    """Return a sentence for each problem in a library, which says what to do.

    Documents are read one at a time: each is unpacked, and its rows are compared with those that
    would be written for it now.

    Raises:
        OSError: A permission or a limit of the system keeps files from being read.
    """
    return list(_problems(store))


def _problems(store: Store) -> Iterator[str]:
    try:
        snapshot = Snapshot(store)
        outline = snapshot.read(["document", "source"], "level = 'document'").sort_by("document")
    except (LibraryError, OSError) as error:
        yield _unreadable("the table", error, _RESTORE_OR_NEW)
        return
    numbers = outline["document"].to_pylist()
    if len(set(numbers)) != len(numbers):
        yield f"several documents have the same number: {_NEW}"
    totals, counts = Totals(), list[WordCounts]()
    for number, source in zip(numbers, outline["source"].to_pylist(), strict=True):
        try:
            found = snapshot.read(snapshot.table.schema.names, f"document = {number}")
            for problem in _document_problems(found.sort_by("key"), source):
                yield f"{problem}: {_AGAIN}"
        except Exception as error:
            yield _unreadable(source, error, _AGAIN)
            continue
        of_document, words = count(found)
        totals += of_document
        counts.append(words)
        if len(counts) == _COUNTS_IN_MEMORY:
            counts = [WordCounts.total(counts)]
    yield from _count_problems(snapshot, totals, WordCounts.total(counts))


def _document_problems(found: pa.Table, source: str) -> Iterator[str]:
    """Compare the rows of a document with its content."""
    of_document = found.filter(pc.equal(found["level"], "document")).to_pylist()
    if len(of_document) != 1:
        yield f"{source} is there {len(of_document)} times"
        return
    [row] = of_document
    file = FileRecord(row["file"], row["sha256"], row["size"], 0, 0)
    entry = Entry(row["document"], file, row["member"], unpack_document(row["content"]))
    expected = rows([entry]).sort_by("key")
    for level in LEVELS:
        of_level, wanted = (one.filter(pc.equal(one["level"], level)) for one in (found, expected))
        if of_level.num_rows != wanted.num_rows:
            yield f"{source} has {of_level.num_rows:,} {level}s instead of {wanted.num_rows:,}"
            continue
        for column in wanted.column_names:
            if (
                column not in _OF_FILE
                and of_level[column].combine_chunks() != wanted[column].combine_chunks()
            ):
                yield f"{source} has {level}s that differ from its text in their {column}"
        lengths = np.linalg.norm(vectors_of(of_level["vector"]).astype(np.float32), axis=1)
        if not (np.abs(lengths - 1) < _MAX_ERROR).all():
            yield f"{source} has {level}s whose vectors are damaged"


def _count_problems(snapshot: Snapshot, totals: Totals, counts: WordCounts) -> Iterator[str]:
    """Compare what was counted in the rows of documents with what the library says it holds."""
    recorded = snapshot.totals
    if recorded.to_list()[1:] != totals.to_list()[1:]:
        yield (
            f"there are {totals.num_texts('document'):,} documents and "
            f"{totals.num_texts('sentence'):,} sentences instead of "
            f"{recorded.num_texts('document'):,} and {recorded.num_texts('sentence'):,}: {_NEW}"
        )
    try:
        held = WordCounts.total(list(snapshot.store.word_counts(snapshot.table).values()))
    except (LibraryError, OSError) as error:
        yield _unreadable("the count of words", error, _RESTORE_OR_NEW)
        return
    num_wrong = len(WordCounts.total([held], [counts]).words)
    if num_wrong:
        yield f"{num_wrong:,} words are not counted as they should be: {_NEW}"


def _unreadable(what: str, error: Exception, advice: str) -> str:
    """Return the sentence that says that something cannot be read, and why, on one line.

    Raises:
        OSError: A permission or a limit of the system is the reason, which is no problem of the
            library.
    """
    if isinstance(error, LibraryError | OSError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    reason = " ".join(reason_of(error).split())
    if limits(error):
        raise OSError(
            f"{what} cannot be read ({reason}), which is not damage: change the permission or the "
            "limit, and try again"
        ) from error
    return f"{what} cannot be read ({reason}): {advice}"
