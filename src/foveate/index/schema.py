"""The table of a library, and the keys of its rows.

There is one Lance table, so that one commit of Lance changes the library as a whole. It has a row
for each document, for each of its sections and for each of its sentences, and a few rows that count
words, see `foveate.index.statistics`. All rows of a document have its metadata, so that a condition
on them is one that Lance evaluates while it searches.

A document has a number that is never reused. A row has a `key`, made of the number of its document,
its level and its position. The rows of a document are stored one after another: its sections from
the last to the first, itself, its sentences. So a key says where its row is, from any other row of
the document, see `places_of`.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.tasks.weights import Level

SCHEMA_VERSION = 7

LEVELS: Final[tuple[Level, ...]] = ("sentence", "section", "document")

_DOCUMENT_BITS, _LEVEL_BITS = 32, 30

TERMS: Final[dict[Level, str]] = {level: f"{level}_terms" for level in LEVELS}
"""The column with the terms of a text, by its level: of a sentence; of the titles above the
sentences of a section, with the document's name, and of these sentences; of a document's name, the
titles of its sections, and its sentences. They are joined by spaces for the indexes of words; to be
counted, they are in `hashes` too, in which comparing is fifty times as fast."""

TOKEN_BYTES: Final = 16
"""Of the signs of the vector of a token; vectors of other sizes are not kept."""

_SIGN_AND_MOVED: Final = np.int32(-0x70002000)
"""The bits of a float32 that are those of a float16: the sign, and fifteen from the 13th on."""

_COMPRESSED = {"lance-encoding:compression": "zstd"}

TIMES: Final = ("modified", "indexed")
"""Columns of times, in nanoseconds."""

DOCUMENT_COLUMNS: Final = {
    "source": "name of the document: its file, or its place in a file that holds several",
    "file": "absolute path of the file that it was read from: file LIKE '%/papers/%'",
    "title": "title; empty if it has none",
    "authors": "names of its authors, as a list: array_has(authors, 'Ann Lee')",
    "date": "when it was published: '2020', '2020-03' or '2020-03-31'; NULL if nobody said",
    "language": "ISO 639 code of the language",
    "format": "suffix of the file, such as pdf",
    "size": "bytes of the file",
    "modified": "when the file was last changed",
    "indexed": "when it was added",
    "num_sentences": "number of sentences",
    "num_sections": "number of sections",
}
"""Columns of documents that a condition may name, and what they hold."""

SENTENCE_COLUMNS: Final = {
    "text": "the sentence",
    "section": "titles of the sections around it, as a list: array_has(section, 'Methods')",
    "page": "page, from 1; NULL for formats without pages",
    "speaker": "who says it; NULL if the document does not say",
    "place": "page, line, paragraph or time, in words",
}
"""Columns of sentences that a condition may name, and what they hold."""


def schema(dimension: int | None) -> pa.Schema:
    """Return the schema of a library.

    Args:
        dimension: Length of the vectors, the last column; None leaves out what the model computes.
    """
    of_model = []
    if dimension is not None:
        vector = pa.list_(pa.float16(), dimension)
        # There is no salience, and there are no vectors of tokens, if the model has no head for it.
        of_model = [("salience", pa.float32()), ("tokens", pa.binary()), ("vector", vector)]
    return pa.schema(
        [
            ("key", pa.int64()),
            ("document", pa.int64()),
            ("level", pa.string()),
            ("position", pa.int32()),  # among those of its level in the document
            ("section_position", pa.int32()),  # of the section that a sentence is directly in
            ("begins_line", pa.bool_()),  # of a sentence, see NearbySentence.separator
            ("first_sentence", pa.int32()),  # position of the first one in a section
            ("own_sentences", pa.int32()),  # number of those directly in a section or document
            ("all_sentences", pa.int32()),  # the same with those of subsections
            ("text", pa.string()),  # of a section or document, the title
            ("speaker", pa.string()),
            ("section", pa.list_(pa.string())),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("page", pa.int32()),
            ("place", pa.string()),
            ("boxes", pa.list_(pa.float64())),  # five numbers each, see Box
            ("source", pa.string()),
            ("file", pa.string()),
            ("member", pa.int32()),  # position among the documents of the file
            ("title", pa.string()),
            ("authors", pa.list_(pa.string())),
            ("date", pa.string()),
            ("language", pa.string()),
            ("format", pa.string()),
            ("size", pa.int64()),
            ("modified", pa.timestamp("ns", tz="UTC")),
            ("indexed", pa.timestamp("ns", tz="UTC")),
            ("num_sections", pa.int32()),
            ("num_sentences", pa.int32()),
            ("content_hash", pa.int64()),  # equal for documents that differ only in their names
            ("sha256", pa.string()),  # of the file of a document
            ("content", pa.binary()),  # Document.to_dict() of a document as compressed JSON
            *(pa.field(column, pa.string(), metadata=_COMPRESSED) for column in TERMS.values()),
            ("hashes", pa.list_(pa.uint32())),  # see foveate.tasks.bm25.hash_term
            ("words", pa.list_(pa.string())),  # these three are of rows that count words
            ("frequencies", pa.list_(pa.int32())),
            ("totals", pa.list_(pa.int64())),
            *of_model,
        ]
    )


def pack_keys(documents: Any, level: Level, positions: Any) -> npt.NDArray[np.int64]:
    """Return the keys of rows: document · 2³² + level · 2³⁰ + position.

    Example:
        >>> pack_keys([0, 2], "sentence", [7, 1]).tolist()
        [7, 8589934593]
    """
    numbers = np.asarray(documents, np.int64), np.asarray(positions, np.int64)
    return (numbers[0] << _DOCUMENT_BITS) + (LEVELS.index(level) << _LEVEL_BITS) + numbers[1]


def documents_of(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of the documents of rows from their keys."""
    return keys >> _DOCUMENT_BITS


def positions_of(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions of rows from their keys."""
    return keys & ((1 << _LEVEL_BITS) - 1)


def places_of(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where rows are stored, counted from the first sentence of their document."""
    before = np.where(are_of(keys, "document"), -1, -2 - positions_of(keys))
    return np.where(are_of(keys, "sentence"), positions_of(keys), before)


def are_of(keys: npt.NDArray[np.int64], level: Level) -> npt.NDArray[np.bool_]:
    """Return whether rows are of a level, from their keys."""
    of_level: npt.NDArray[np.bool_] = (keys >> _LEVEL_BITS) % 4 == LEVELS.index(level)
    return of_level


def in_microseconds(rows: pa.Table) -> pa.Table:
    """Return rows with the times of `TIMES` as Python has them, which knows no nanoseconds."""
    for name in TIMES:
        times = rows[name].cast(pa.timestamp("us", tz="UTC"), safe=False)
        rows = rows.set_column(rows.column_names.index(name), name, times)
    return rows


def vectors_of(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Return a column of vectors as an array `(rows, dimension)`."""
    halves = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    # NumPy's own conversion of float16 takes eight times as long. Their five bits of exponent
    # become the last of eight, and the power of two makes up for the difference of the biases.
    moved = halves.view(np.int16).astype(np.int32)
    moved <<= 13
    moved &= _SIGN_AND_MOVED
    vectors: npt.NDArray[np.float32] = moved.view(np.float32)
    vectors *= np.float32(2**112)
    return vectors.reshape(-1, column.type.list_size)


def tokens_of(
    column: pa.ChunkedArray,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the signs of the vectors of tokens of sentences, and how many each sentence has."""
    values = column.combine_chunks()
    lengths = pc.binary_length(values).to_numpy().astype(np.int64)
    tokens = np.frombuffer(bytearray().join(values.to_pylist()), np.uint8)
    return tokens.reshape(-1, TOKEN_BYTES), lengths // TOKEN_BYTES
