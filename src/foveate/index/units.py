"""Units of files, which whoever has one reads, encodes and writes into a library's place.

That is the process that calls `Index.add`, or a worker of a cluster. What has been written becomes
visible when the builder commits it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foveate.documents import Document, NotADocumentError, read_documents
from foveate.documents.files import read_data
from foveate.index.lance import Store
from foveate.index.rows import make_rows, renumber
from foveate.index.sources import FileRecord, Source, read
from foveate.index.writer import WrittenRows, write

if TYPE_CHECKING:
    from foveate.inference import Encoder

BATCH_CHARACTERS = 2**18
"""Characters of the documents that are in memory, and are encoded, at a time.

Files are grouped into units of so many bytes. The last bits of a vector depend on what is encoded
with it, so the units must be the same whoever encodes them. Two cores take some five seconds.
"""

FILES_PER_UNIT = 256


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is new or may have changed.

    Attributes:
        record: What is known of it.
        content: Where to read it, or its documents.
        replaced: The numbers of the documents that it replaces.
        sha256: Hash of the content that these were read from.
    """

    record: FileRecord
    content: Source | Sequence[Document]
    replaced: Sequence[int] = ()
    sha256: str | None = None


Unit = list[NewFile]
"""Files whose documents are encoded together."""


@dataclass(slots=True)
class Added:
    """What became of a unit.

    Attributes:
        written: Its documents, a few at a time.
        sizes: Of each of its files, the numbers of documents and of their sentences; None if the
            library is left as it was.
        num_unchanged: How many files had not changed.
        failures: The name of what could not be read, and why.
        skipped: The files, found in a folder, that no reader takes or that hold no document.
    """

    written: list[WrittenRows] = field(default_factory=list)
    sizes: list[tuple[int, int] | None] = field(default_factory=list)
    num_unchanged: int = 0
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def group_files(files: Iterable[NewFile]) -> Iterator[Unit]:
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
        try:
            record, documents = _read(file, options, failures)
        except OSError as error:
            failures.append((file.record.name, error))
            record, documents = file.record, ()
        if documents is None:
            added.num_unchanged += 1
            added.sizes.append(None)
            continue
        for document in documents:
            batch.append((record, num_documents, document))
            num_documents += 1
            num_sentences += sum(1 for _ in document.sentences())
            unwritten += len(document.text)
            if unwritten >= BATCH_CHARACTERS:
                write_batch()
                unwritten = 0
        is_left = bool(failures) and not num_documents
        added.sizes.append(None if is_left else (num_documents, num_sentences))
        if not (num_documents or failures):
            added.skipped.append(record.name)
        added.failures += failures
    if batch:
        write_batch()
    return added


def _read(
    file: NewFile, options: Mapping[str, Any], failures: list[tuple[str, Exception]]
) -> tuple[FileRecord, Iterable[Document] | None]:
    """Read a file, adding to `failures` what of it cannot be read.

    Returns:
        What identifies it; and its documents, or None if it has not changed.

    Raises:
        OSError: It cannot be opened.
    """
    source = file.content
    if not isinstance(source, Source):
        return file.record, source
    content, sha256 = read(source)
    if not sha256:
        return file.record, ()
    if sha256 == file.sha256:
        return file.record, None

    def note(name: str, error: Exception) -> None:
        if not (source.is_found and isinstance(error, NotADocumentError)):
            failures.append((name, error))

    path, options = source.path, {**options, "on_error": note}
    documents = (
        read_documents(path, **options)
        if path.is_dir()
        else read_data(content, file.record.name, file_name=path.name, **options)
    )
    return replace(file.record, sha256=sha256), documents


def _encode(documents: Sequence[tuple[FileRecord, int, Document]], encoder: "Encoder") -> pa.Table:
    """Return the rows of documents, numbered from 0."""
    from foveate.index.vectors import add_vectors  # which loads torch

    vectors = encoder.encode([document for *_, document in documents], show_progress=False)
    for *_, document in documents:
        encoder.forget(document)  # which the library keeps
    return add_vectors(make_rows(documents), vectors)
