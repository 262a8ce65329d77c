"""The tables of a library, and the keys of their rows.

| table | a row for each |
|---|---|
| `documents` | document, with its file, its structure and its whole content |
| `sections` | section, with its vector |
| `sentences` | sentence, with its vector, its words and its place |
| `terms` | term, kind of text and batch of documents, with the texts that hold it |

A document has a number that is never reused. A section or sentence is identified by that and
its position in the document, packed into a `key`.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SCHEMA_VERSION = 1

_KEY_BITS = 32

SENTENCE, SECTION, DOCUMENT = KINDS = (0, 1, 2)
"""Kinds of texts whose terms are counted: sentences; the titles above the sentences of a section,
with the document's name; a document's name and the titles of its sections."""

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


def schemas(dimension: int | None) -> dict[str, pa.Schema]:
    """Return the schema of each table of a library.

    Args:
        dimension: Length of the vectors, the last column; None leaves out what the model computes.
    """
    salience = [] if dimension is None else [("salience", pa.float32())]
    vector = [] if dimension is None else [("vector", pa.list_(pa.float16(), dimension))]
    place = [
        ("section", pa.list_(pa.string())),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("page", pa.int32()),
        ("place", pa.string()),
    ]
    return {
        "documents": pa.schema(
            [
                ("document", pa.int64()),
                ("source", pa.string()),
                ("file", pa.string()),
                ("member", pa.int32()),  # position among the documents of the file
                ("title", pa.string()),
                ("authors", pa.list_(pa.string())),
                ("date", pa.string()),
                ("language", pa.string()),
                ("format", pa.string()),
                ("sha256", pa.string()),  # of the file
                ("size", pa.int64()),
                ("modified", pa.timestamp("ns", tz="UTC")),
                ("indexed", pa.timestamp("ns", tz="UTC")),
                ("num_sections", pa.int32()),
                ("num_sentences", pa.int32()),
                ("section_sizes", pa.list_(pa.int32())),  # sentences directly in each section
                ("section_totals", pa.list_(pa.int32())),  # with those of subsections
                ("sentence_lengths", pa.list_(pa.int32())),  # terms of each sentence
                ("heading_lengths", pa.list_(pa.int32())),  # terms of the titles above each section
                ("outline_length", pa.int32()),  # terms of the name and all titles
                ("content", pa.binary()),  # Document.to_dict() as compressed JSON
                *vector,
            ]
        ),
        "sections": pa.schema(
            [
                ("key", pa.int64()),
                ("document", pa.int64()),
                ("position", pa.int32()),
                ("text", pa.string()),  # the title
                *place,
                *vector,
            ]
        ),
        "sentences": pa.schema(
            [
                ("key", pa.int64()),
                ("document", pa.int64()),
                ("position", pa.int32()),
                ("text", pa.string()),
                ("speaker", pa.string()),
                *place,
                ("boxes", pa.list_(pa.float64())),  # five numbers each, see Box
                *salience,  # NULL if the model has no head for it
                *vector,
            ]
        ),
        "terms": pa.schema(
            [
                ("term", pa.string()),
                ("kind", pa.int8()),
                ("documents", pa.list_(pa.int64())),
                ("positions", pa.list_(pa.int32())),
                ("counts", pa.list_(pa.int32())),
            ]
        ),
    }


def pack_keys(documents: Any, positions: Any) -> npt.NDArray[np.int64]:
    """Return the keys of sections or sentences: document · 2³² + position.

    Example:
        >>> pack_keys([0, 2], [7, 1]).tolist()
        [7, 8589934593]
    """
    numbers = np.asarray(documents, np.int64), np.asarray(positions, np.int64)
    return (numbers[0] << _KEY_BITS) + numbers[1]
