"""What is wrong in a library: its rows are compared with those that its documents make now."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate import Index
from foveate.index.lance import LanceEngine
from foveate.index.records import FileRecord, read_document, renumber, rows
from foveate.index.schema import vectors_of
from foveate.index.statistics import WordCounts, count

NOT_OF_CONTENT = ("sha256", "size", "modified", "indexed", "content", "salience", "vector")
"""Columns that do not follow from a document's content."""


def problems(index: Index) -> list[str]:
    """Return what is wrong in the newest state of a library on a disk."""
    return list(_problems(LanceEngine(index._table)))


def _problems(engine: LanceEngine) -> Iterator[str]:
    totals, counts = np.zeros((2, 3), np.int64), WordCounts.total([])
    documents = engine.read(["document", "source"], {"level": ["document"]})
    for number, source in zip(*(column.to_pylist() for column in documents), strict=True):
        found = engine.read(engine.table.schema.names, {"document": [number]}).sort_by("key")
        yield from (f"{source}: {problem}" for problem in _of_document(engine, number, found))
        of_document, words = count(found)
        totals += of_document
        counts = WordCounts.total([counts, words])
    if np.array(engine.state.totals).tolist() != totals.tolist():
        yield f"{engine.state.totals} are counted instead of {totals.tolist()}"
    held = WordCounts.total(list(engine.store.word_counts(engine.table).values()))
    if wrong := WordCounts.total([held], [counts]).words.to_pylist():
        yield f"words are not counted as they should be: {wrong[:9]}"


def _of_document(engine: LanceEngine, number: int, found: pa.Table) -> Iterator[str]:
    row = found.filter(pc.equal(found["level"], "document")).to_pylist()[0]
    file = FileRecord(row["file"], row["sha256"], row["size"], 0, 0)
    made = rows([(file, row["member"], read_document(engine, number))])
    expected = renumber(made, number).sort_by("key")
    if found["key"] != expected["key"]:
        yield f"{found.num_rows:,} rows instead of {expected.num_rows:,}"
        return
    for column in expected.column_names:
        if column not in NOT_OF_CONTENT and found[column] != expected[column]:
            yield f"differs from its text in its {column}"
    lengths = np.linalg.norm(vectors_of(found["vector"]).astype(np.float32), axis=1)
    if not (np.abs(lengths - 1) < 1e-2).all():  # float16 rounds it
        yield "damaged vectors"
