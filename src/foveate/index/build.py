"""Adding files and documents to a library, and removing them.

The builder finds the files that are new or have changed, and groups them into units, which this
process reads, encodes and writes, a few documents at a time, or a cluster. The builder commits.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from foveate.documents import Document
from foveate.documents.decoding import name_as_text
from foveate.documents.members import ErrorHandler
from foveate.index import reading
from foveate.index.lance import one_of
from foveate.index.reading import Done, File, Part, Unit, group_files, read_unit
from foveate.index.records import Changes, FileRecord, renumber
from foveate.index.schema import TIMES
from foveate.index.sources import Source, describe
from foveate.index.state import ModelRecord
from foveate.index.writer import Writer, write
from foveate.inference import Encoder

COMMIT_CHARACTERS = 2**21
"""Characters after which what was added becomes visible: so much is lost if the process is killed.

A file is never added in part: what is committed ends with the last document of a file.
"""

_FILES_PER_LOOKUP = 256


class Known(NamedTuple):
    """A file that is in a library, and the numbers of its documents."""

    record: FileRecord
    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Job:
    """How the files of a unit become rows of a library.

    Attributes:
        writer: The writer of the library.
        encoder: The model.
        model: What identifies it.
        options: Options of `read_documents`.
    """

    writer: Writer
    encoder: Encoder
    model: ModelRecord
    options: Mapping[str, Any]


Workers = Callable[[Job, Iterator[Unit]], Iterator[Part]]
"""Read and encode units, and return their parts."""


def in_this_process(job: Job, units: Iterator[Unit]) -> Iterator[Part]:
    """Read and encode units one after another."""
    for unit in units:
        yield from read_unit(unit, job.options, job.encoder)


class Builder:
    """Adds files and documents to a library, and removes them.

    Args:
        job: How files are read and encoded.
        workers: What reads and encodes them.
        on_error: Called with the name of what cannot be read, and the error.
        on_file: Called after each file, with its size in bytes.
    """

    def __init__(
        self,
        job: Job,
        workers: Workers,
        on_error: ErrorHandler | None = None,
        on_file: Callable[[int], None] | None = None,
    ) -> None:
        self.changes = Changes()
        self._writer = job.writer
        self._job = job
        self._workers = workers
        self._on_error = on_error
        self._on_file = on_file or (lambda size: None)
        self._known: dict[str, Known | None] = {}  # files that are not committed yet
        self._done: list[str] = []  # those of them that were read
        self._rows: list[pa.Table] = []  # that are not written yet
        self._unwritten = self._uncommitted = 0  # characters

    def add(self, documents: Sequence[Document], sources: Iterable[Source]) -> None:
        """Add the documents and files that are new or have changed.

        Documents do not come from files, or were read by the caller. Those with the same name
        belong together, and replace those with that name in the library. A document without a name
        is named by the hash of its content.
        """
        files = chain(self._changed_documents(documents), self._changed_files(sources))
        for part in self._workers(self._job, group_files(files)):
            self._take(part)

    def _changed_documents(self, documents: Sequence[Document]) -> Iterator[File]:
        groups: dict[str, list[Document]] = {}
        for document in documents:
            groups.setdefault(document.name or f"sha256:{_hash([document])}", []).append(document)
        known = look_up(self._writer, list(groups))
        now = time.time_ns()
        for name, group in groups.items():
            size = sum(len(document.text.encode()) for document in group)
            record = FileRecord(name, _hash(group), size, now, now)
            if name in known and known[name].record.sha256 == record.sha256:
                self._leave(size)
            else:
                self._known[name] = known.get(name)
                yield File(record, group)

    def _changed_files(self, sources: Iterable[Source]) -> Iterator[File]:
        remaining = iter(sources)
        while chunk := list(islice(remaining, _FILES_PER_LOOKUP)):
            new = {str(one.path): one for one in chunk if str(one.path) not in self._known}
            known = look_up(self._writer, list(new))
            for name, source in new.items():
                before = known.get(name)
                try:
                    record = describe(source, before and before.record)
                except (OSError, ValueError) as error:
                    self.fail(name, error)
                    continue
                if before and record.sha256 == before.record.sha256:
                    self._leave(record.size)
                else:
                    self._known[name] = before
                    yield File(record, source)

    def _leave(self, size: int) -> None:
        self.changes.unchanged += 1
        self._on_file(size)

    def skip(self, path: Path) -> None:
        """Record a file in a folder that no reader takes."""
        self.changes.skipped.append(name_as_text(path))
        self._on_file(path.stat().st_size)

    def fail(self, name: str, error: Exception) -> None:
        """Record what cannot be read, or raise the error."""
        if self._on_error is None:
            raise error
        self.changes.failures.append((name, error))
        self._on_error(name, error)

    def _take(self, part: Part) -> None:
        """Keep a part until there is enough to write, and commit at the end of a unit."""
        for name, error in part.failures:
            self.fail(name, error)
        self.changes.skipped += part.skipped
        if part.rows is not None:
            first = self._writer.new_documents(part.num_documents)
            self._rows.append(renumber(part.rows, first))
        if part.written is not None:
            self._writer.add(part.written)
        self._unwritten += part.num_characters
        for done in part.done:
            self._finish(done)
        if self._unwritten >= reading.BATCH_CHARACTERS:
            self._write()
        if part.is_last and self._unwritten + self._uncommitted >= COMMIT_CHARACTERS:
            self.commit()

    def _finish(self, done: Done) -> None:
        """Record that a file is complete, and what it replaces."""
        self._done.append(done.file.name)
        if done.num_documents is not None:
            self.changes.num_documents += done.num_documents
            self.changes.num_sentences += done.num_sentences
            if known := self._known[done.file.name]:
                self._writer.delete(known.numbers)
                self.changes.updated += 1
            elif done.num_documents:
                self.changes.added += 1
        self._on_file(done.file.size)

    def _write(self) -> None:
        """Write the rows that are in memory."""
        if self._rows:
            writer = self._writer
            writer.add(write(pa.concat_tables(self._rows), writer.table, writer.store))
        self._uncommitted += self._unwritten
        self._unwritten = 0
        self._rows = []

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove the documents of a file."""
        self._writer.delete(numbers)
        self.changes.removed += 1

    def commit(self, *, is_end: bool = False) -> None:
        """Write what is in memory, make all changes visible, and merge files if it is time to."""
        self._write()
        self._writer.commit()
        self._writer.tidy(is_end=is_end)
        self._uncommitted = 0
        for name in self._done:
            del self._known[name]
        self._done = []


def look_up(writer: Writer, names: Sequence[str]) -> dict[str, Known]:
    """Find files in a library, by their names."""
    columns = ("file", "sha256", "size", "modified", "indexed", "document")
    wanted = f"{one_of('file', names)} AND level = 'document'"
    files = writer.store.read(writer.table, columns, wanted)
    times = ("int64" if name in TIMES else files[name].type for name in columns)
    known: dict[str, Known] = {}
    for *record, number in zip(
        *(files[name].cast(kind).to_pylist() for name, kind in zip(columns, times, strict=True)),
        strict=True,
    ):
        file = FileRecord(*record)
        known.setdefault(file.name, Known(file, [])).numbers.append(number)
    return known


def _hash(documents: Sequence[Document]) -> str:
    packed = json.dumps([document.to_dict() for document in documents], sort_keys=True)
    return hashlib.sha256(packed.encode()).hexdigest()
