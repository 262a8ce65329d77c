"""Adding files and documents to a library, and removing them."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from foveate.documents import Document, NotADocumentError, read_documents
from foveate.documents.members import ErrorHandler
from foveate.index.records import Entry, FileRecord, rows
from foveate.index.sources import Source, describe
from foveate.index.store import Writer, quote_list, read
from foveate.inference import Encoder

BATCH_CHARACTERS = 2**19
"""Characters of the documents that are in memory, and are encoded, at a time."""

COMMIT_CHARACTERS = 2**21
"""Characters after which what was added becomes visible: so much is lost if the process is killed.

A file is never added in part: what is committed ends with the last document of a file.
"""

_FILES_PER_LOOKUP = 256


@dataclass(slots=True)
class Changes:
    """What was done to a library.

    Attributes:
        added: Number of files that were added.
        updated: Number of files that had changed, and were replaced.
        unchanged: Number of files that had not changed.
        removed: Number of files that were removed.
        num_documents: Number of documents that were added.
        num_sentences: Number of their sentences.
        failures: The name of each file, or part of one, that could not be read, and why. A file
            that was added before and cannot be read anymore stays in the library as it was.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    num_documents: int = 0
    num_sentences: int = 0
    failures: list[tuple[str, Exception]] = field(default_factory=list)


class Known(NamedTuple):
    """A file that is in a library, and the numbers of its documents."""

    record: FileRecord
    numbers: list[int]


class Builder:
    """Adds documents to a library, some at a time.

    Args:
        writer: The writer.
        load_encoder: Gives the model, which is needed only if something is to be added.
        on_error: Called with the name of what cannot be read, and the error.
        on_file: Called after each file.
        options: Options of `read_documents`.
    """

    def __init__(
        self,
        writer: Writer,
        load_encoder: Callable[[], Encoder],
        on_error: ErrorHandler | None = None,
        on_file: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        self.writer = writer
        self._load_encoder = load_encoder
        self.changes = Changes()
        self._on_error = on_error
        self._on_file = on_file or (lambda: None)
        self._options = options
        self._entries: list[Entry] = []
        self._batch_characters = self._uncommitted = 0
        self._waiting: set[str] = set()  # files whose documents are in `_entries`
        self._outdated: list[int] = []

    def add_sources(self, sources: Iterable[Source]) -> None:
        """Add those files that are new or have changed."""
        remaining = iter(sources)
        while chunk := list(islice(remaining, _FILES_PER_LOOKUP)):
            known = look_up(self.writer, [str(source.path) for source in chunk])
            for source in chunk:
                if str(source.path) not in self._waiting:
                    self._add_source(source, known.get(str(source.path)))
                self._on_file()

    def _add_source(self, source: Source, known: Known | None) -> None:
        try:
            record = describe(source, known.record if known else None)
        except (OSError, ValueError) as error:
            self.fail(str(source.path), error)
            return
        if known and known.record.sha256 == record.sha256:
            self.changes.unchanged += 1
            return
        errors_before = len(self.changes.failures)
        num_added = self.add_file(record, self._read(source))
        if num_added or len(self.changes.failures) == errors_before:
            self._replace(known, num_added)

    def _read(self, source: Source) -> Iterator[Document]:
        def note(name: str, error: Exception) -> None:
            if not (source.is_found and isinstance(error, NotADocumentError)):
                self.fail(name, error)

        return read_documents(source.path, on_error=note, **self._options)

    def fail(self, name: str, error: Exception) -> None:
        """Note what cannot be read, or raise the error."""
        if self._on_error is None:
            raise error
        self.changes.failures.append((name, error))
        self._on_error(name, error)

    def add_documents(self, documents: Sequence[Document]) -> None:
        """Add documents that were not read from files, or were read by the caller.

        Those of the same name belong together, and replace those of that name which the library
        has. The name of one without any is the hash of its content.
        """
        groups: dict[str, list[Document]] = {}
        for document in documents:
            groups.setdefault(document.name or f"sha256:{_hash([document])}", []).append(document)
        known = look_up(self.writer, list(groups))
        now = time.time_ns()
        for name, group in groups.items():
            size = sum(len(document.text.encode()) for document in group)
            record = FileRecord(name, _hash(group), size, now, now)
            if name in known and known[name].record.sha256 == record.sha256:
                self.changes.unchanged += 1
            else:
                self._replace(known.get(name), self.add_file(record, group))
            self._on_file()

    def add_file(self, record: FileRecord, documents: Iterable[Document]) -> int:
        """Add the documents of a file, and return how many there are."""
        member = -1
        self._waiting.add(record.name)
        for member, document in enumerate(documents):
            self._entries.append(Entry(self.writer.new_document(), record, member, document))
            self._batch_characters += len(document.text)
            if self._batch_characters >= BATCH_CHARACTERS:
                self._write()
        return member + 1

    def _replace(self, known: Known | None, num_added: int) -> None:
        """Note that a file is complete, and what it replaces."""
        if known:
            self._outdated += known.numbers
            self.changes.updated += 1
        elif num_added:
            self.changes.added += 1
        if self._uncommitted + self._batch_characters >= COMMIT_CHARACTERS:
            self.commit()

    def _write(self) -> None:
        """Encode and write the documents that are in memory."""
        if not self._entries:
            return
        documents = [entry.document for entry in self._entries]
        encoder = self._load_encoder()
        vectors = encoder.encode(documents, show_progress=False)
        tables = rows(self._entries, vectors, encoder.dimension)
        self.writer.add(tables)
        self.changes.num_documents += len(documents)
        self.changes.num_sentences += tables["sentences"].num_rows
        self._uncommitted += self._batch_characters
        self._batch_characters = 0
        self._entries = []
        self._waiting.clear()

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove the documents of a file."""
        self._outdated += numbers
        self.changes.removed += 1

    def commit(self) -> None:
        """Write what is in memory, and make all changes visible."""
        self._write()
        self.writer.delete(self._outdated)
        self.writer.commit()
        self.writer.tidy(is_end=False)
        self._outdated = []
        self._uncommitted = 0


def look_up(writer: Writer, names: Sequence[str]) -> dict[str, Known]:
    """Find files in a library, by their names."""
    if not names:
        return {}
    columns = ("file", "sha256", "size", "modified", "indexed", "document")
    found = read(writer.tables["documents"], columns, f"file IN {quote_list(names)}")
    for i, name in enumerate(columns):
        if name in ("modified", "indexed"):
            found = found.set_column(i, name, found[name].cast("int64"))
    known: dict[str, Known] = {}
    for row in found.to_pylist():
        record = FileRecord(*(row[name] for name in columns[:-1]))
        known.setdefault(record.name, Known(record, [])).numbers.append(row["document"])
    return known


def _hash(documents: Sequence[Document]) -> str:
    packed = json.dumps([document.to_dict() for document in documents], sort_keys=True)
    return hashlib.sha256(packed.encode()).hexdigest()
