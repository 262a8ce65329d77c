"""Adding files and documents to a library, and removing them.

The builder finds the files that are new or have changed, which this process or a cluster adds in
units, see `foveate.index.units`. The builder commits what they have written.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.documents import Document
from foveate.documents.members import ErrorHandler
from foveate.index.lance import one_of
from foveate.index.schema import TIMES
from foveate.index.sources import FileRecord, Source, before_pattern, is_under, look
from foveate.index.units import Added, NewFile, Unit, add_unit
from foveate.index.writer import Writer

if TYPE_CHECKING:
    import torch

    from foveate.inference import Encoder

COMMIT_SECONDS = 5
"""How often what was added becomes visible: so much is lost if the process is killed.

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
            that was added before and can no longer be read stays in the library as it was.
        skipped: The files in folders that were left out because no reader takes their format, or
            because they hold no document. A file that is named itself is read as text.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    num_documents: int = 0
    num_sentences: int = 0
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """What adds units of files to a library.

    Attributes:
        writer: The writer of the library.
        encoder: Returns the model that made the library.
        dtype: Dtype of its linear layers; None for the default.
        options: Options of `read_documents`.
    """

    writer: Writer
    encoder: "Callable[[], Encoder]"
    dtype: "torch.dtype | str | None"
    options: Mapping[str, Any]


Workers = Callable[[Job, Iterator[Unit]], Iterator[tuple[Unit, Added]]]
"""Add units, and return each with what became of it, in any order."""


def in_this_process(job: Job, units: Iterator[Unit]) -> Iterator[tuple[Unit, Added]]:
    """Add units one after another."""
    writer = job.writer
    for unit in units:
        yield unit, add_unit(unit, writer.store, job.encoder, writer.new_documents, job.options)


Content = Source | Sequence[Document]
"""A file, or documents of one name that were not read from a file."""

FileHandler = Callable[[int, int, int], None]
"""Takes the number of files that are done, that of all of them, and that of documents added."""


class LibraryBuilder:
    """Adds files and documents to a library, and removes them.

    Args:
        writer: The writer of the library.
        changes: Where to count what is done.
        on_error: Called with the name of what cannot be read, and the error.
        on_file: Called at the beginning and as files are done.
    """

    def __init__(
        self,
        writer: Writer,
        changes: Changes,
        on_error: ErrorHandler,
        on_file: FileHandler | None = None,
    ) -> None:
        self._writer = writer
        self._changes = changes
        self._on_error = on_error
        self._on_file = on_file or (lambda done, total, documents: None)
        self._total = self._done = 0
        self._committed = time.monotonic()

    def changed(self, named: Mapping[str, Content]) -> Iterator[NewFile]:
        """Find the documents and files that are new or may have changed."""
        self._total = len(named)
        self._advance(0)
        remaining = iter(named.items())
        while chunk := dict(islice(remaining, _FILES_PER_LOOKUP)):
            known = _look_up(self._writer, list(chunk))
            for name, content in chunk.items():
                before, numbers = known.get(name, (None, []))
                try:
                    record = _describe(name, content, before)
                except (OSError, ValueError) as error:
                    self._on_error(name, error)
                    self._advance(1)
                    continue
                sha256 = before.sha256 if before else None
                if before and record.sha256 == sha256:
                    self._changes.unchanged += 1
                    self._advance(1)
                else:
                    yield NewFile(record, content, numbers, sha256)

    def _advance(self, num_files: int) -> None:
        self._done += num_files
        self._on_file(self._done, self._total, self._changes.num_documents)

    def take(self, unit: Unit, added: Added) -> None:
        """Record what became of a unit, and commit if it is time to."""
        changes = self._changes
        for name, error in added.failures:
            self._on_error(name, error)
        changes.skipped += added.skipped
        changes.unchanged += added.num_unchanged
        for file, size in zip(unit, added.sizes, strict=True):
            if size is not None:
                num_documents, num_sentences = size
                changes.num_documents += num_documents
                changes.num_sentences += num_sentences
                changes.updated += bool(file.replaced)
                changes.added += bool(num_documents and not file.replaced)
                self._writer.delete(file.replaced)  # first, as Ctrl-C may come in between
        for written in added.written:
            self._writer.add(written)
        for _ in unit:
            self._advance(1)
        if time.monotonic() - self._committed >= COMMIT_SECONDS:
            self.commit()

    def prune(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Remove the files that are gone from some folders.

        Those of a folder that is gone itself are kept: it may be on a disk that is not mounted.
        """
        named = [Path(os.path.abspath(before_pattern(os.fspath(one)))) for one in paths]  # noqa: PTH100
        folders = [str(path) for path in named if path.exists()]
        store, table = self._writer.store, self._writer.table
        rows = store.read(table, ("file", "document"), "level = 'document'")
        files = rows.group_by("file").aggregate([("document", "list")])
        for file, numbers in zip(*(column.to_pylist() for column in files), strict=True):
            is_inside = Path(file) in named or any(is_under(file, folder) for folder in folders)
            if is_inside and not Path(file).exists():
                self._writer.delete(numbers)
                self._changes.removed += 1

    def commit(self, *, is_end: bool = False) -> None:
        """Make all changes visible, and merge files if it is time to."""
        self._writer.commit()
        self._writer.tidy(is_end=is_end)
        self._committed = time.monotonic()


def by_name(documents: Sequence[Document], sources: Iterable[Source]) -> dict[str, Content]:
    """Return documents and files by their names.

    Documents do not come from files, or were read by the caller. Those with the same name belong
    together, and replace those with that name in the library. A document without a name is named by
    the hash of its content.
    """
    named: dict[str, Any] = {}
    for document in documents:
        named.setdefault(document.name or f"sha256:{_hash([document])}", []).append(document)
    for source in sources:
        named.setdefault(str(source.path), source)
    return named


def _describe(name: str, content: Content, known: FileRecord | None) -> FileRecord:
    if isinstance(content, Source):
        return look(content, known)
    size = sum(len(document.text.encode()) for document in content)
    now = time.time_ns()
    return FileRecord(name, _hash(content), size, now, now)


def _hash(documents: Sequence[Document]) -> str:
    packed = json.dumps([document.to_dict() for document in documents], sort_keys=True)
    return hashlib.sha256(packed.encode()).hexdigest()


def _look_up(
    writer: Writer, names: Sequence[str]
) -> dict[str, tuple[FileRecord | None, list[int]]]:
    """Find files in a library, and the numbers of their documents, by their names."""
    columns = ("file", "sha256", "size", *TIMES, "document")
    wanted = f"{one_of('file', names)} AND level = 'document'"
    rows = writer.store.read(writer.table, columns, wanted)
    values = [rows[one].cast("int64") if one in TIMES else rows[one] for one in columns]
    known: dict[str, tuple[FileRecord | None, list[int]]] = {}
    for *record, number in zip(*(column.to_pylist() for column in values), strict=True):
        known.setdefault(record[0], (FileRecord(*record), []))[1].append(number)
    return known
