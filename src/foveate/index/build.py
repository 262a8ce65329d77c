"""Adding files and documents to a library, and removing them.

The builder finds the files that are new or have changed, which this process or a cluster adds in
units, see `foveate.index.units`. The builder commits what they have written.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.documents import Document
from foveate.documents.decoding import name_as_text
from foveate.documents.members import ErrorHandler
from foveate.index.lance import one_of
from foveate.index.records import Changes, FileRecord
from foveate.index.schema import TIMES
from foveate.index.sources import Source, before_pattern, describe, is_under
from foveate.index.units import Added, File, Unit, add_unit
from foveate.index.writer import Writer

if TYPE_CHECKING:
    import torch

    from foveate.inference import Encoder

COMMIT_CHARACTERS = 2**21
"""Characters after which what was added becomes visible: so much is lost if the process is killed.

A file is never added in part: what is committed ends with the last document of a file.
"""

_FILES_PER_LOOKUP = 256


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


class Builder:
    """Adds files and documents to a library, and removes them.

    Args:
        writer: The writer of the library.
        on_error: Called with the name of what cannot be read, and the error.
        on_file: Called after each file, with its size in bytes.
    """

    def __init__(
        self,
        writer: Writer,
        on_error: ErrorHandler | None = None,
        on_file: Callable[[int], None] | None = None,
    ) -> None:
        self.changes = Changes()
        self._writer = writer
        self._on_error = on_error
        self._on_file = on_file or (lambda size: None)
        self._uncommitted = 0  # characters

    def changed(self, documents: Sequence[Document], sources: Iterable[Source]) -> Iterator[File]:
        """Find the documents and files that are new or have changed.

        Documents do not come from files, or were read by the caller. Those with the same name
        belong together, and replace those with that name in the library. A document without a name
        is named by the hash of its content.
        """
        named = chain(_by_name(documents), ((str(one.path), one) for one in sources))
        remaining = _once(named)
        while chunk := dict(islice(remaining, _FILES_PER_LOOKUP)):
            known = _look_up(self._writer, list(chunk))
            for name, content in chunk.items():
                before, numbers = known.get(name, (None, []))
                try:
                    record = _describe(name, content, before)
                except (OSError, ValueError) as error:
                    self.fail(name, error)
                    continue
                if before and record.sha256 == before.sha256:
                    self.changes.unchanged += 1
                    self._on_file(record.size)
                else:
                    yield File(record, content, numbers)

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

    def take(self, unit: Unit, added: Added) -> None:
        """Record what became of a unit, and commit if that is enough."""
        for name, error in added.failures:
            self.fail(name, error)
        self.changes.skipped += added.skipped
        for written in added.written:
            self._writer.add(written)
        for file, size in zip(unit, added.sizes, strict=True):
            if size is not None:
                num_documents, num_sentences = size
                self.changes.num_documents += num_documents
                self.changes.num_sentences += num_sentences
                self.changes.updated += bool(file.replaced)
                self.changes.added += bool(num_documents and not file.replaced)
                self._writer.delete(file.replaced)
            self._on_file(file.record.size)
        self._uncommitted += added.num_characters
        if self._uncommitted >= COMMIT_CHARACTERS:
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
                self.changes.removed += 1

    def commit(self, *, is_end: bool = False) -> None:
        """Make all changes visible, and merge files if it is time to."""
        self._writer.commit()
        self._writer.tidy(is_end=is_end)
        self._uncommitted = 0


_Content = Source | Sequence[Document]


def _by_name(documents: Sequence[Document]) -> Iterable[tuple[str, _Content]]:
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.name or f"sha256:{_hash([document])}", []).append(document)
    return groups.items()


def _once(named: Iterable[tuple[str, _Content]]) -> Iterator[tuple[str, _Content]]:
    seen: set[str] = set()
    for name, content in named:
        if name not in seen:
            seen.add(name)
            yield name, content


def _describe(name: str, content: _Content, known: FileRecord | None) -> FileRecord:
    if isinstance(content, Source):
        return describe(content, known)
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
