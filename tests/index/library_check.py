"""What is wrong in a library: its rows are compared with those that its documents make now."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foveate import Index
from foveate.index.lance import LanceEngine
from foveate.index.rows import make_rows, read_document, renumber
from foveate.index.schema import documents_of, places_of, vectors_of
from foveate.index.sources import FileRecord
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
    if _is_out_of_place(engine):
        yield "rows are not where their keys say"
    if np.array(engine.state.totals).tolist() != totals.tolist():
        yield f"{engine.state.totals} are counted instead of {totals.tolist()}"
    held = WordCounts.total(list(engine.store.word_counts(engine.table).values()))
    if wrong := WordCounts.total([held], [counts]).words.to_pylist():
        yield f"words are not counted as they should be: {wrong[:9]}"


def _is_out_of_place(engine: LanceEngine) -> bool:
    """Return whether a row is not as far from others of its document as `places_of` says."""
    rows = engine.store.read(engine.table, ["key"], "document >= 0", with_row_id=True)
    keys, addresses = rows["key"].to_numpy(), rows["_rowid"].to_numpy().astype(np.int64)
    of_files = np.stack([documents_of(keys), addresses >> 32])
    firsts = np.concatenate([of_files, addresses[None] - places_of(keys)])
    return len(np.unique(of_files, axis=1).T) != len(np.unique(firsts, axis=1).T)


def _of_document(engine: LanceEngine, number: int, found: pa.Table) -> Iterator[str]:
    row = found.filter(pc.equal(found["level"], "document")).to_pylist()[0]
    file = FileRecord(row["file"], row["sha256"], row["size"], 0, 0)
    made = make_rows([(file, row["member"], read_document(engine, number))])
    expected = renumber(made, number).sort_by("key")
    if found["key"] != expected["key"]:
        yield f"{found.num_rows:,} rows instead of {expected.num_rows:,}"
        return
    for column in expected.column_names:
        if column not in NOT_OF_CONTENT and found[column] != expected[column]:
            yield f"differs from its text in its {column}"
    lengths = np.linalg.norm(vectors_of(found["vector"]), axis=1)
    if not (np.abs(lengths - 1) < 1e-2).all():  # float16 rounds it
        yield "damaged vectors"
