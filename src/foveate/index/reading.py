"""Reading and encoding files in units, whose documents become rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from foveate.documents import Document, NotADocumentError, read_documents
from foveate.documents.members import ErrorHandler
from foveate.index.records import FileRecord, rows
from foveate.index.sources import Source
from foveate.index.vectors import add_vectors
from foveate.index.writer import Written
from foveate.inference import Encoder

BATCH_CHARACTERS = 2**19
"""Characters of the documents that are in memory, and are encoded, at a time.

Files are grouped into units of so many bytes. The last bits of a vector depend on what is encoded
with it, so the units must be the same whoever encodes them.
"""

FILES_PER_UNIT = 256


@dataclass(frozen=True, slots=True)
class File:
    """A file to add.

    Attributes:
        record: What identifies it.
        content: Where to read it, or its documents.
    """

    record: FileRecord
    content: Source | Sequence[Document]


Unit = list[File]
"""Files whose documents are encoded together."""


class Done(NamedTuple):
    """A file whose last document has been read.

    Attributes:
        file: The file.
        num_documents: Number of its documents; None if it could not be read.
        num_sentences: Number of their sentences.
    """

    file: FileRecord
    num_documents: int | None
    num_sentences: int


@dataclass(frozen=True, slots=True)
class Part:
    """Documents of a unit.

    Attributes:
        rows: Their rows, in which documents are numbered from 0. None if there are no documents,
            or the rows are written.
        written: What was written, if they are.
        num_documents: Number of documents.
        num_characters: Number of their characters.
        done: The files that end here; a file that does not end here continues in the next part.
        failures: The name of what could not be read, and why.
        skipped: The files, found in a folder, that hold no document.
        is_last: Whether this is the last part of its unit.
    """

    rows: pa.Table | None
    written: Written | None
    num_documents: int
    num_characters: int
    done: Sequence[Done]
    failures: Sequence[tuple[str, Exception]]
    skipped: Sequence[str]
    is_last: bool


def group_files(files: Iterable[File]) -> Iterator[Unit]:
    """Group files that are read one after another."""
    unit: Unit = []
    size = 0
    for file in files:
        unit.append(file)
        size += file.record.size
        if size >= BATCH_CHARACTERS or len(unit) == FILES_PER_UNIT:
            yield unit
            unit, size = [], 0
    if unit:
        yield unit


def read_unit(unit: Unit, options: Mapping[str, Any], encoder: Encoder) -> Iterator[Part]:
    """Read and encode the files of a unit, a few documents at a time.

    Args:
        unit: The files.
        options: Options of `read_documents`.
        encoder: The model.
    """
    read: list[tuple[FileRecord, int, Document]] = []
    done: list[Done] = []
    failures: list[tuple[str, Exception]] = []
    skipped: list[str] = []
    num_characters = num_failures = 0

    def note(name: str, error: Exception) -> None:
        nonlocal num_failures
        is_found = isinstance(file.content, Source) and file.content.is_found
        if not (is_found and isinstance(error, NotADocumentError)):
            failures.append((name, error))
            num_failures += 1

    def part(*, is_last: bool) -> Part:
        encoded = None
        if read:
            vectors = encoder.encode([document for *_, document in read], show_progress=False)
            encoded = add_vectors(rows(read), vectors)
        return Part(encoded, None, len(read), num_characters, done, failures, skipped, is_last)

    for file in unit:
        num_documents = num_sentences = 0
        failures_before = num_failures
        for document in _documents(file, options, note):
            read.append((file.record, num_documents, document))
            num_documents += 1
            num_sentences += sum(1 for _ in document.sentences())
            num_characters += len(document.text)
            if num_characters >= BATCH_CHARACTERS:
                yield part(is_last=False)
                read, done, failures, skipped, num_characters = [], [], [], [], 0
        is_read = num_documents > 0 or num_failures == failures_before
        if is_read and not num_documents:
            skipped.append(file.record.name)
        done.append(Done(file.record, num_documents if is_read else None, num_sentences))
    yield part(is_last=True)


def _documents(
    file: File, options: Mapping[str, Any], on_error: ErrorHandler
) -> Iterable[Document]:
    if isinstance(file.content, Source):
        return read_documents(file.content.path, on_error=on_error, **options)
    return file.content
