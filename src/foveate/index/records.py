"""Documents as rows of the tables, without their vectors, and back."""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from foveate.documents import Box, Document, Span
from foveate.index.postings import PostingsBuilder
from foveate.index.schema import DOCUMENT, SECTION, SENTENCE, pack_keys, schemas
from foveate.tasks.terms import all_titles, titles_above

SPAN_COLUMNS = (
    *("key", "document", "position", "text", "section", "start", "end"),
    *("page", "place", "speaker", "boxes"),
)
"""Columns of a sentence that make its `Span`."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The file that documents were read from, by which changes are noticed.

    Attributes:
        name: Its absolute path; of documents that were not read from a file, their name.
        sha256: Hash of its content.
        size: Its size in bytes.
        modified: When it was last changed, in nanoseconds since 1970.
        noted: When all this was recorded, in nanoseconds since 1970.
    """

    name: str
    sha256: str
    size: int
    modified: int
    noted: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A document to add.

    Attributes:
        number: Its number in the library.
        file: The file that it comes from.
        member: Its position among the documents of that file.
        document: The document.
    """

    number: int
    file: FileRecord
    member: int
    document: Document


def rows(entries: Sequence[Entry]) -> dict[str, pa.Table]:
    """Return the rows of each table that hold some documents, without their vectors."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    postings = PostingsBuilder()
    for entry in entries:
        _add_document(entry, records, postings)
    return {
        name: postings.table(schema)
        if name == "terms"
        else pa.Table.from_pylist(records[name], schema)
        for name, schema in schemas(None).items()
    }


def renumber(tables: Mapping[str, pa.Table], first: int) -> dict[str, pa.Table]:
    """Renumber the rows of documents that are numbered from 0 to start from `first`.

    Args:
        tables: The rows of each table, see `rows`.
        first: The number of the first document.
    """
    renumbered = {}
    for name, table in tables.items():
        changed: dict[str, pa.Array] = {}
        if name == "terms":
            lists = table["documents"].combine_chunks()
            numbers = pa.array(lists.flatten().to_numpy() + first)
            changed["documents"] = pa.ListArray.from_arrays(lists.offsets, numbers)
        else:
            numbers = table["document"].to_numpy() + first
            changed["document"] = pa.array(numbers)
            if "key" in table.column_names:
                changed["key"] = pa.array(pack_keys(numbers, table["position"].to_numpy()))
        for column, values in changed.items():
            table = table.set_column(table.column_names.index(column), column, values)
        renumbered[name] = table
    return renumbered


def _add_document(
    entry: Entry, records: dict[str, list[dict[str, Any]]], postings: PostingsBuilder
) -> None:
    """Add the rows of a document, except for its vectors."""
    document, number = entry.document, entry.number
    spans = document.spans()
    walked = list(document.walk())
    sentence_lengths = [
        postings.add(SENTENCE, number, position, span.text) for position, span in enumerate(spans)
    ]
    heading_lengths = [
        postings.add(SECTION, number, position, titles)
        for position, titles in enumerate(titles_above(document))
    ]
    outline_length = postings.add(DOCUMENT, number, 0, all_titles(document))

    for position, span in enumerate(document.section_spans()):
        records["sections"].append(_place(number, position, span))
    for position, span in enumerate(spans):
        boxes = [float(value) for box in span.boxes for value in box]
        records["sentences"].append(
            {**_place(number, position, span), "speaker": span.speaker, "boxes": boxes}
        )
    content = json.dumps(document.to_dict(), ensure_ascii=False).encode()
    records["documents"].append(
        {
            "document": number,
            "source": document.name,
            "file": entry.file.name,
            "member": entry.member,
            "title": document.title,
            "authors": list(document.authors),
            "date": document.date,
            "language": document.language,
            "format": PurePath(entry.file.name).suffix.lower().removeprefix(".") or None,
            "sha256": entry.file.sha256,
            "size": entry.file.size,
            "modified": entry.file.modified,
            "indexed": entry.file.noted,
            "num_sections": len(walked),
            "num_sentences": len(spans),
            "section_sizes": [section.num_own_sentences for _, section in walked],
            "section_totals": [section.num_sentences for _, section in walked],
            "sentence_lengths": sentence_lengths,
            "heading_lengths": heading_lengths,
            "outline_length": outline_length,
            "content": zlib.compress(content),
        }
    )


def _place(number: int, position: int, span: Span) -> dict[str, Any]:
    return {
        "key": int(pack_keys(number, position)),
        "document": number,
        "position": position,
        "text": span.text,
        "section": list(span.path),
        "start": span.start,
        "end": span.end,
        "page": span.page,
        "place": span.place,
    }


def spans_of(rows: pa.Table, sources: dict[int, str]) -> Iterator[tuple[int, Span]]:
    """Return the key and the span of each row with the `SPAN_COLUMNS`, or those of a section.

    Args:
        rows: The rows.
        sources: The name of each document, by its number.
    """
    for row in rows.to_pylist():
        numbers = row.get("boxes") or ()
        boxes = tuple(
            Box(int(numbers[i]), *numbers[i + 1 : i + 5]) for i in range(0, len(numbers), 5)
        )
        yield (
            row["key"],
            Span(
                document=sources[row["document"]],
                path=tuple(row["section"]),
                page=row["page"],
                start=row["start"],
                end=row["end"],
                text=row["text"],
                speaker=row.get("speaker"),
                place=row["place"],
                boxes=boxes,
            ),
        )


def unpack_document(content: bytes) -> Document:
    """Return the document of a row's `content`."""
    return Document.from_dict(json.loads(zlib.decompress(content)))
