"""Documents as rows of the table, without their vectors, and back."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import index
from pathlib import PurePath
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa

from foveate.documents import Box, Document, Span
from foveate.index.engine import Engine
from foveate.index.schema import TERMS, pack_keys, schema
from foveate.index.sources import FileRecord
from foveate.tasks.bm25 import hash_term
from foveate.tasks.terms import all_titles, terms, titles_above
from foveate.tasks.weights import Level

SPAN_COLUMNS = ("source", "text", "section", "start", "end", "page", "place", "speaker", "boxes")
"""Columns that make the `Span` of a row."""


def make_rows(documents: Sequence[tuple[FileRecord, int, Document]]) -> pa.Table:
    """Return the rows of some documents, numbered from 0, without their vectors.

    Those of a document are in the order of `foveate.index.schema`. Accents are composed (NFC), as
    conditions expect.

    Args:
        documents: The file that each comes from, its position in that file, and the document.
    """
    records = [row for number, one in enumerate(documents) for row in _records(number, *one)]
    return pa.Table.from_pylist(records, schema(None))


def renumber(table: pa.Table, first: int) -> pa.Table:
    """Renumber the rows of documents that are numbered from 0 to start from `first`."""
    numbers = table["document"].to_numpy() + first
    keys = table["key"].to_numpy() + pack_keys(first, "sentence", 0)
    for column, values in (("document", numbers), ("key", keys)):
        idx = table.column_names.index(column)
        table = table.set_column(idx, column, pa.array(values))
    return table


def _records(
    number: int, file: FileRecord, member: int, document: Document
) -> Iterator[dict[str, Any]]:
    """Return the rows of a document, except for its vectors."""
    spans = document.spans()
    walked = [section for _, section in document.walk()]
    section_of = np.repeat(np.arange(len(walked)), [one.num_own_sentences for one in walked])
    content = document.to_dict()
    common = {
        "document": number,
        "source": document.name,
        "file": file.name,
        "member": member,
        "title": normalize("NFC", document.title),
        "authors": [normalize("NFC", author) for author in document.authors],
        "date": document.date,
        "language": document.language,
        "format": PurePath(file.name).suffix.lower().removeprefix(".") or None,
        "size": file.size,
        "modified": file.modified,
        "indexed": file.noted,
        "num_sections": len(walked),
        "num_sentences": len(spans),
        "content_hash": _hash({**content, "source": None}),
    }
    sentence_terms = [terms(span.text, document.language) for span in spans]
    outline = terms(all_titles(document), document.language)
    sections = zip(walked, document.section_spans(), titles_above(document), strict=True)
    end = len(spans)
    for position, (section, span, titles) in reversed([*enumerate(sections)]):
        first = end - section.num_own_sentences
        yield {
            **common,
            **_place(number, "section", position, span),
            "first_sentence": first,
            "own_sentences": section.num_own_sentences,
            "all_sentences": section.num_sentences,
            **_terms("section", [terms(titles, document.language), *sentence_terms[first:end]]),
        }
        end = first
    yield {
        **common,
        **_place(number, "document", 0, _document_span(document)),
        "first_sentence": 0,
        "own_sentences": len(spans),
        "all_sentences": len(spans),
        "sha256": file.sha256,
        "content": zlib.compress(json.dumps(content, ensure_ascii=False).encode()),
        **_terms("document", [outline, *sentence_terms]),
    }
    for position, span in enumerate(spans):
        yield {
            **common,
            **_place(number, "sentence", position, span),
            "section_position": int(section_of[position]),
            **_terms("sentence", [sentence_terms[position]]),
        }


def _document_span(document: Document) -> Span:
    """Return the span of a document, as `foveate.tasks.embed.document_span` does."""
    sentences = list(document.sentences())
    span = document.span(sentences[0].start, sentences[-1].end)
    return replace(span, text=document.title, boxes=())


def _hash(content: dict[str, Any]) -> int:
    digest = hashlib.sha256(json.dumps(content).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _terms(level: Level, texts: Iterable[Sequence[str]]) -> dict[str, Any]:
    listed = [*chain.from_iterable(texts)]
    return {TERMS[level]: " ".join(listed), "hashes": [*map(hash_term, listed)]}


def _place(number: int, level: Level, position: int, span: Span) -> dict[str, Any]:
    return {
        "key": int(pack_keys(number, level, position)),
        "level": level,
        "position": position,
        "text": normalize("NFC", span.text),
        "speaker": span.speaker and normalize("NFC", span.speaker),
        "section": [normalize("NFC", title) for title in span.path],
        "start": span.start,
        "end": span.end,
        "page": span.page,
        "place": span.place,
        "boxes": [float(value) for box in span.boxes for value in box],
    }


def spans_of(rows: pa.Table) -> list[Span]:
    """Return the spans of rows with the `SPAN_COLUMNS`."""
    return [
        Span(
            document=row["source"],
            path=tuple(row["section"]),
            page=row["page"],
            start=row["start"],
            end=row["end"],
            text=row["text"],
            speaker=row["speaker"],
            place=row["place"],
            boxes=tuple(
                Box(int(row["boxes"][i]), *row["boxes"][i + 1 : i + 5])
                for i in range(0, len(row["boxes"]), 5)
            ),
        )
        for row in rows.select(SPAN_COLUMNS).to_pylist()
    ]


def read_document(engine: Engine, number: int) -> Document:
    """Return a document as it was when it was added.

    Raises:
        TypeError: Its number is not an integer.
        ValueError: There is no document with this number.
    """
    rows = engine.fetch(pack_keys([index(number)], "document", 0), ["key", "content"])
    if not rows.num_rows:
        raise ValueError(
            f"the library has no document number {number}: documents() lists those that it has"
        )
    return Document.from_dict(json.loads(zlib.decompress(rows["content"][0].as_py())))
