"""Verification of a library: its rows are compared with its documents."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.lance import LanceEngine
from foveate.index.records import Entry, FileRecord, rows, unpack_document
from foveate.index.schema import LEVELS, vectors_of
from foveate.index.state import LibraryError
from foveate.index.statistics import Totals, WordCounts, count
from foveate.index.store import Store, reason_of

_MAX_ERROR = 1e-2  # of a vector's length, which is 1 but for the rounding to float16
_OF_FILE = ("sha256", "size", "modified", "indexed", "content")
"""Columns that do not follow from a document's content."""

_NEW = "index the files into a new library"
_AGAIN = "remove it with `foveate library remove`, and index it again"


def verify(store: Store) -> Iterator[str]:
    """Yield a sentence for each problem in a library, which says what to do.

    Documents are read one at a time: each is unpacked, and its rows are compared with those that
    would be written for it now.
    """
    try:
        engine = LanceEngine(store)
        outline = engine.read(["document", "source"], "level = 'document'").sort_by("document")
    except LibraryError as error:
        yield str(error)
        return
    totals, counts = Totals(), WordCounts.total([])
    for row in outline.to_pylist():
        number, source = row["document"], row["source"]
        try:
            found = engine.read(engine.table.schema.names, f"document = {number}")
            for problem in _document_problems(found.sort_by("key"), source):
                yield f"{problem}: {_AGAIN}"
        except Exception as error:  # whatever damaged bytes lead to
            yield f"{source} cannot be read ({reason_of(error)}): {_AGAIN}"
            continue
        of_document, words = count(found)
        totals += of_document
        counts = WordCounts.total([counts, words])
    if engine.state.totals.to_list() != totals.to_list():
        yield (
            f"there are {totals.num_texts('document'):,} documents and "
            f"{totals.num_texts('sentence'):,} sentences instead of "
            f"{engine.state.num_documents:,} and {engine.state.num_sentences:,}: {_NEW}"
        )
    held = WordCounts.total(list(store.word_counts(engine.table).values()))
    if num_wrong := len(WordCounts.total([held], [counts]).words):
        yield f"{num_wrong:,} words are not counted as they should be: {_NEW}"


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
