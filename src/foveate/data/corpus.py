"""Documents that stay on disk until they are needed."""

import gzip
import json
import mmap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any, SupportsIndex

from foveate.documents import Document, DocumentError
from foveate.documents.decoding import gzip_errors
from foveate.training.entries import value

_LINES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Sample:
    """What a corpus gives: a document and, if there is a task, what is to be made of it.

    Attributes:
        document: what is to be read; of documents that belong together, the anchor.
        question: what is asked of it.
        choices: answers to choose from.
        references: summaries or answers, any of which is right.
        labels: classes that it belongs to.
        related: a positive and, after it, a negative.
    """

    document: Document
    question: str = ""
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    related: tuple[Document, ...] = ()


class Corpus(Sequence[Sample]):
    """Files of documents: JSON lines, or any file that `Document.from_file` reads.

    Lines are found at once and read when they are asked for, from the file, or from memory where it
    is gzipped: corpora that do not fit there are to be left uncompressed. Each line is an object:

    - what `Document.to_dict` gives; or `sections`, and a `title` if there is one, as
      `Document.from_sections` takes them; or `text` in the `format`
      of that name, plain text if none; or `turns` of a meeting;
    - beside that, what the task has of `question`, and of the lists of texts `choices`,
      `references` and `labels`; a text stands for a list of one;
    - or `anchor`, `positive` and, if there is one, `negative`, each a document as above.

    Args:
        paths: files, folders with files, or patterns such as `corpus/*.jsonl.gz`.

    Raises:
        FileNotFoundError: a path or pattern that nothing matches.
        DocumentError: a gzipped file that is damaged.
    """

    def __init__(self, paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> None:
        several = [paths] if isinstance(paths, str | PathLike) else list(paths)
        self._files = sorted({file for pattern in several for file in _matching(pattern)})
        self._open: dict[int, bytes | mmap.mmap] = {}
        self._places: list[tuple[int, int, int]] = []  # number of the file, start, end
        for number, path in enumerate(self._files):
            if path.name.endswith(_LINES):
                self._places += [(number, *place) for place in _lines(self._data(number))]
            else:
                self._places.append((number, 0, path.stat().st_size))
        if not self._places:
            raise FileNotFoundError(f"{_named(several)} holds no document: name files that do")

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._places)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each, as they are stored."""
        return [end - start for _, start, end in self._places]

    def __getitem__(self, index: int) -> Sample:  # type: ignore[override]
        """Read a document or, with a warning where it cannot be read, the next one that can.

        Raises:
            DocumentError: none can be read.
            TypeError: not an integer.
        """
        if not isinstance(index, SupportsIndex):
            raise TypeError(f"documents are read one by one: give an integer, got {index!r}")
        index = range(len(self))[index]  # which raises IndexError
        for number in chain(range(index, len(self)), range(index)):
            try:
                return self._read(number)
            except DocumentError as error:
                reason = error
                warnings.warn(f"{error}: another document is read in its place", stacklevel=2)
        raise reason

    def whole(self) -> Iterator[Sample]:
        """Read all documents, where each of them counts.

        Raises:
            DocumentError: one cannot be read.
        """
        return map(self._read, range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is open: another process opens it itself."""
        return {**vars(self), "_open": {}}

    def _read(self, index: int) -> Sample:
        number, start, end = self._places[index]
        path = self._files[number]
        if not path.name.endswith(_LINES):
            return Sample(Document.from_file(path))
        line = self._data(number)[start:end]
        try:
            return _sample(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            before = bytes(self._data(number)[:start]).count(b"\n")
            raise DocumentError(f"line {before + 1} of {path} is no document: {error}") from error

    def _data(self, number: int) -> bytes | mmap.mmap:
        """The content of a file of lines."""
        if number not in self._open:
            path = self._files[number]
            if path.suffix == ".gz":
                with gzip_errors(path):
                    self._open[number] = gzip.decompress(path.read_bytes())
            elif path.stat().st_size:
                with path.open("rb") as file:
                    self._open[number] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            else:
                self._open[number] = b""
        return self._open[number]


def _sample(record: Mapping[str, Any]) -> Sample:
    if "anchor" in record:
        related = [record[name] for name in ("positive", "negative") if name in record]
        return Sample(_document(record["anchor"]), related=tuple(map(_document, related)))
    lists = {
        name: value(record.get(name, []), tuple[str, ...], name)
        for name in ("choices", "references", "labels")
    }
    question = value(record.get("question", ""), str, "question")
    return Sample(_document(record), question, **lists)


def _document(record: Mapping[str, Any]) -> Document:
    if {"title", "sections", "text"} <= set(record):
        return Document.from_dict(record)
    if "sections" in record:
        return Document.from_sections(record.get("title") or "", record["sections"])
    if "turns" in record:
        return Document.from_text(json.dumps(record), format="json", title=record.get("title"))
    if "text" in record:
        return Document.from_text(
            record["text"], format=record.get("format", "text"), title=record.get("title")
        )
    raise ValueError("it has neither sections, text nor turns")


def _matching(pattern: str | PathLike[str]) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    found = [path]
    if not path.is_file():
        found = list(Path(path.anchor).glob(fspath(path.relative_to(path.anchor))))
    if not found:
        raise FileNotFoundError(f"{fspath(pattern)} does not exist: check the path")
    return [file for file in found if file.is_file()]


def _lines(data: bytes | mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where each line that is not empty begins and ends."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if data[start:end].strip():
            yield start, end
        start = end + 1


def _named(paths: Sequence[Any]) -> str:
    return ", ".join(map(fspath, paths)) or "An empty list of paths"
