"""Verification of a library: its tables are compared with its documents."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from foveate.index.lance import limits, read, read_batches, reason_of
from foveate.index.records import SPAN_COLUMNS, unpack_document
from foveate.index.schema import SENTENCE, pack_keys
from foveate.index.store import LibraryError, State, Store
from foveate.index.vectors import vectors_of

_MAX_ERROR = 1e-2  # of a vector's length, which is 1 but for the rounding to float16
_METADATA = ("title", "authors", "date", "language")
_PLACE = SPAN_COLUMNS[: SPAN_COLUMNS.index("boxes")]

_NEW = "index the files into a new library"
_RESTORE_OR_NEW = "restore it from a copy of the library, or index the files into a new one"
_AGAIN = "remove it with `foveate library remove`, and index it again"


def verify(store: Store) -> list[str]:
    """Return a sentence for each problem in a library, which says what to do.

    Documents are read one at a time: each is unpacked, and its sentences and sections are compared
    with those in the tables.

    Raises:
        OSError: A permission or a limit of the system keeps files from being read.
    """
    return list(_problems(store, store.read_state()))


def _problems(store: Store, state: State) -> Iterator[str]:
    try:
        tables = store.open_tables(state)
        outline = read(tables["documents"], ("document", "source", "sentence_lengths"))
    except Exception as error:  # whatever Lance raises
        yield _unreadable("the table of documents", error, _RESTORE_OR_NEW)
        return
    numbers = outline["document"].to_pylist()
    sources = dict(zip(numbers, outline["source"].to_pylist(), strict=True))
    if len(numbers) != state.num_documents:
        yield f"there are {len(numbers):,} documents instead of {state.num_documents:,}: {_NEW}"
    if len(sources) != len(numbers):
        yield f"several documents have the same number: {_NEW}"
    for number in sources:
        try:
            for problem in _document_problems(number, sources[number], tables):
                yield f"{problem}: {_AGAIN}"
        except Exception as error:
            yield _unreadable(sources[number], error, _AGAIN)
    for name in ("sections", "sentences"):
        try:
            found = read(tables[name], ("document",))["document"].to_numpy()
        except Exception as error:
            yield _unreadable(f"the table of {name}", error, _RESTORE_OR_NEW)
            continue
        num_orphans = int((~np.isin(found, numbers)).sum())
        if num_orphans:
            yield f"{num_orphans:,} {name} belong to no document: {_NEW}"
    yield from _term_problems(outline, tables)


def _document_problems(number: int, source: str, tables: dict[str, Any]) -> Iterator[str]:
    """Compare what the tables have of a document with its content."""
    rows = read(tables["documents"], ("content", *_METADATA), f"document = {number}")
    [row] = rows.to_pylist()
    document = unpack_document(row["content"])
    for name in _METADATA:
        expected = getattr(document, name)
        if row[name] != (list(expected) if name == "authors" else expected):
            yield f"{source} has another {name} in the table than in its content"
    first, after = pack_keys([number, number + 1], 0).tolist()
    condition = f"key >= {first} AND key < {after}"
    for name, spans in (("sections", document.section_spans()), ("sentences", document.spans())):
        has_speakers = name == "sentences"
        columns = _PLACE if has_speakers else _PLACE[:-1]
        rows = read(tables[name], (*columns, "vector"), condition).sort_by("position")
        if rows.num_rows != len(spans):
            yield f"{source} has {rows.num_rows:,} {name} instead of {len(spans):,}"
            continue
        if rows["key"].to_pylist() != pack_keys(number, np.arange(len(spans))).tolist():
            yield f"{source} has {name} with wrong keys"
        lengths = np.linalg.norm(vectors_of(rows["vector"]).astype(np.float32), axis=1)
        if not (np.abs(lengths - 1) < _MAX_ERROR).all():
            yield f"{source} has {name} whose vectors are damaged"
        for row, span in zip(rows.drop_columns("vector").to_pylist(), spans, strict=True):
            expected = (span.text, list(span.path), span.start, span.end, span.page, span.place)
            got = tuple(
                row[column] for column in ("text", "section", "start", "end", "page", "place")
            )
            if got != expected or (has_speakers and row["speaker"] != span.speaker):
                yield f"{source} has {name} that differ from its text, such as {span.place}"
                break


def _term_problems(outline: pa.Table, tables: dict[str, Any]) -> Iterator[str]:
    """Compare the number of terms of each document's sentences with those in the postings."""
    expected = {
        number: sum(lengths)
        for number, lengths in zip(
            outline["document"].to_pylist(), outline["sentence_lengths"].to_pylist(), strict=True
        )
    }
    counted = dict.fromkeys(expected, 0)
    columns = ("kind", "documents", "counts")
    try:
        for batch in read_batches(tables["terms"], columns, f"kind = {SENTENCE}"):
            documents = batch["documents"].flatten().to_numpy()
            counts = batch["counts"].flatten().to_numpy()
            unique, inverse = np.unique(documents, return_inverse=True)
            sums = np.bincount(inverse, counts, len(unique)).astype(int)
            for number, total in zip(unique.tolist(), sums.tolist(), strict=True):
                if number in counted:
                    counted[number] += total
    except Exception as error:
        yield _unreadable("the table of terms", error, _RESTORE_OR_NEW)
        return
    num_wrong = sum(counted[number] != total for number, total in expected.items())
    if num_wrong:
        yield f"the words of {num_wrong:,} documents are not counted as they should be: {_NEW}"


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
