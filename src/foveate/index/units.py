"""Units of files, which whoever has one reads, encodes and writes into a library's place.

That is the process that calls `Index.add`, or a worker of a cluster. What has been written becomes
visible when the builder commits it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foveate.documents import Document, NotADocumentError, read_documents
from foveate.index.lance import Store
from foveate.index.records import FileRecord, renumber, rows
from foveate.index.sources import Source
from foveate.index.writer import Written, write

if TYPE_CHECKING:
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
        replaced: The numbers of the documents that it replaces.
    """

    record: FileRecord
    content: Source | Sequence[Document]
    replaced: Sequence[int] = ()


Unit = list[File]
"""Files whose documents are encoded together."""


@dataclass(slots=True)
class Added:
    """What became of a unit.

    Attributes:
        written: Its documents, a few at a time.
        num_characters: Number of their characters.
        sizes: Of each of its files, the numbers of documents and of their sentences; None if it
            could not be read.
        failures: The name of what could not be read, and why.
        skipped: The files, found in a folder, that hold no document.
    """

    written: list[Written] = field(default_factory=list)
    num_characters: int = 0
    sizes: list[tuple[int, int] | None] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


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


def add_unit(
    unit: Unit,
    store: Store,
    encoder: "Callable[[], Encoder]",
    new_documents: Callable[[int], int],
    options: Mapping[str, Any],
) -> Added:
    """Read, encode and write the files of a unit, a few documents at a time.

    Args:
        unit: The files.
        store: The library.
        encoder: Returns the model, which is not asked for if there are no documents.
        new_documents: Reserves so many numbers for documents, and returns the first.
        options: Options of `read_documents`.
    """
    added = Added()
    batch: list[tuple[FileRecord, int, Document]] = []
    unwritten = 0  # characters

    def write_batch() -> None:
        made = renumber(_encode(batch, encoder()), new_documents(len(batch)))
        added.written.append(write(made, store.open(), store))
        batch.clear()

    for file in unit:
        failures: list[tuple[str, Exception]] = []
        num_documents = num_sentences = 0
        for document in _documents(file, options, failures):
            batch.append((file.record, num_documents, document))
            num_documents += 1
            num_sentences += sum(1 for _ in document.sentences())
            added.num_characters += len(document.text)
            unwritten += len(document.text)
            if unwritten >= BATCH_CHARACTERS:
                write_batch()
                unwritten = 0
        if num_documents or not failures:
            added.sizes.append((num_documents, num_sentences))
        else:
            added.sizes.append(None)
        if not (num_documents or failures):
            added.skipped.append(file.record.name)
        added.failures += failures
    if batch:
        write_batch()
    return added


def _documents(
    file: File, options: Mapping[str, Any], failures: list[tuple[str, Exception]]
) -> Iterable[Document]:
    """Read the documents of a file, adding to `failures` what of it cannot be read."""
    if not isinstance(file.content, Source):
        return file.content
    is_found = file.content.is_found

    def note(name: str, error: Exception) -> None:
        if not (is_found and isinstance(error, NotADocumentError)):
            failures.append((name, error))

    return read_documents(file.content.path, on_error=note, **options)


def _encode(documents: Sequence[tuple[FileRecord, int, Document]], encoder: "Encoder") -> pa.Table:
    """Return the rows of documents, numbered from 0."""
    from foveate.index.vectors import add_vectors  # which loads torch

    vectors = encoder.encode([document for *_, document in documents], show_progress=False)
    for *_, document in documents:
        encoder.forget(document)  # which the library keeps
    return add_vectors(rows(documents), vectors)
