"""Documents that stay on disk until they are needed."""

import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, SupportsIndex

from foveate.data.validation import Texts, validated
from foveate.documents import Document, DocumentError
from foveate.documents.compression import decompressed, strip_suffix

from .example import Example, Query
from .readers.corpora import hupd_document, unarxive_document
from .records import Record


class Corpus(Sequence[Example]):
    """The examples in files: JSON Lines, or any file that `Document.from_file` reads.

    Lines are located when the corpus is opened, but parsed only on access: from a memory map, or
    from memory if the file is compressed. Leave corpora that do not fit in memory uncompressed.
    Each line is an object with

    - a document: what `Document.to_dict` returns; or `sections` and an optional `title`, as
      `Document.from_sections` takes them, where a list of `sentences` is not split any further; or
      `section_titles` and `section_texts`, as Gensim writes articles of Wikipedia; or a paper of
      unarXive or a patent application of HUPD, as published; or `text` with
      an optional `format`, plain text by default; or the `turns` of a meeting; and optionally its
      `language`;
    - optionally the fields of a task: `id`, `query`, and the lists of texts `choices`,
      `references` and `labels`, where a text stands for a list of one;
    - optionally `section_labels`, a list with the labels of each section, in the order of
      `Document.walk`;
    - optionally `queries`, a list of objects with a `text` and with `sentence_ids`, the indices of
      the sentences that answer it, in the order of `Document.sentences()`;
    - or `anchor`, `positive` and optionally `negative`, each a document as above.

    Other fields, such as a license, are ignored.

    Args:
        paths: Files, patterns such as `corpus/*.jsonl.gz`, or folders, of which all files are read
            except hidden ones, whose names begin with a dot.

    Raises:
        FileNotFoundError: A path does not exist, a pattern matches nothing, or the files hold no
            document.
        DocumentError: A compressed file is damaged.
    """

    def __init__(self, paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> None:
        patterns = [paths] if isinstance(paths, str | PathLike) else list(paths)
        self._files = sorted({file for pattern in patterns for file in _matching_files(pattern)})
        self._contents: dict[int, bytes | mmap.mmap] = {}
        self._extents: list[tuple[int, int, int]] = []  # index of the file, start, end
        for index, path in enumerate(self._files):
            if _has_lines(path):
                self._extents += [(index, *extent) for extent in _lines(self._content(index))]
            else:
                self._extents.append((index, 0, path.stat().st_size))
        if not self._extents:
            names = ", ".join(fspath(path) for path in patterns) or "An empty list of paths"
            raise FileNotFoundError(f"{names} holds no document: name files that do")

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self._extents)

    @property
    def sizes(self) -> list[int]:
        """The size of each example in bytes, as stored."""
        return [end - start for _, start, end in self._extents]

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]  # no slices
        """Read an example.

        Raises:
            DocumentError: It cannot be read.
            TypeError: The index is not an integer.
        """
        if not isinstance(index, SupportsIndex):
            raise TypeError(f"a corpus takes one index at a time: give an integer, got {index!r}")
        file_index, start, end = self._extents[index]
        path = self._files[file_index]
        if not _has_lines(path):
            return Example(id=str(path), document=_read_file(path))
        line = self._content(file_index)[start:end]
        try:
            return _parse_example(_parse_object(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DocumentError(f"{self.place(index)} is not a document: {error}") from error

    def place(self, index: int) -> str:
        """Say where an example is, for messages: its file, and its line if the file has several."""
        file_index, start, _ = self._extents[index]
        path = self._files[file_index]
        if not _has_lines(path):
            return str(path)
        number = bytes(self._content(file_index)[:start]).count(b"\n") + 1
        return f"line {number} of {path}"

    def __getstate__(self) -> dict[str, Any]:
        """Drop open files, which another process opens itself."""
        return {**vars(self), "_contents": {}}

    def _content(self, index: int) -> bytes | mmap.mmap:
        """Return the content of a file of lines, opened on first use."""
        if index not in self._contents:
            path = self._files[index]
            with decompressed(path) as file:
                is_mapped = path.suffix == ".jsonl" and path.stat().st_size
                self._contents[index] = (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    if is_mapped
                    else file.read()
                )
        return self._contents[index]


def _read_file(path: Path) -> Document:
    """Read a file that is one document; HUPD is a JSON file for each application."""
    if path.suffix == ".json":
        with decompressed(path) as file:
            content = file.read()
        if b'"full_description"' in content:
            try:
                return hupd_document(_parse_object(content))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DocumentError(f"{path} is not an application of HUPD: {error}") from error
    return Document.from_file(path)


def _has_lines(path: Path) -> bool:
    """Return whether a file is JSON Lines, compressed or not."""
    return strip_suffix(path.name).endswith(".jsonl")


@dataclass(frozen=True)
class _Task:
    """What a record holds beside its document; see `Example`."""

    query: str = ""
    choices: Texts = ()
    references: Texts = ()
    labels: Texts = ()
    section_labels: tuple[Texts, ...] = ()
    queries: tuple[Query, ...] = ()


def _parse_object(line: bytes) -> Record:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON ({error.msg})") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not valid UTF-8") from error
    if not isinstance(record, dict):
        raise ValueError(f"it must be an object, got {record!r:.60}")
    return record


def _parse_example(record: Record) -> Example:
    if "anchor" in record:
        if "positive" not in record:
            raise ValueError("it has an anchor, but no positive")
        related = [record[name] for name in ("positive", "negative") if name in record]
        return Example(
            id=str(record.get("id", "")),
            document=_parse_document(record["anchor"]),
            related=tuple(map(_parse_document, related)),
        )
    document = _parse_document(record)
    names = {field.name for field in fields(_Task)} & record.keys()
    task = validated(_Task, {name: record[name] for name in names})
    num_sections = sum(1 for _ in document.walk())
    if task.section_labels and len(task.section_labels) != num_sections:
        raise ValueError(
            f"section_labels must have one list for each of the document's {num_sections} "
            f"sections, got {len(task.section_labels)}"
        )
    num_sentences = sum(section.num_sentences for section in document.sections)
    for query in task.queries:
        if not all(0 <= sentence_id < num_sentences for sentence_id in query.sentence_ids):
            raise ValueError(
                f"sentence_ids of the query {query.text!r} must be between 0 and "
                f"{num_sentences - 1}, as the document has {num_sentences} sentences, got "
                f"{list(query.sentence_ids)}"
            )
    return Example(
        id=str(record.get("id", record.get("paper_id", record.get("application_number", "")))),
        document=document,
        **vars(task),
    )


def _parse_document(record: object) -> Document:
    if not isinstance(record, dict):
        raise ValueError(f"a document must be an object, got {record!r:.60}")
    if {"title", "sections", "text"} <= set(record):
        return Document.from_dict(record)
    title, language = record.get("title"), record.get("language")
    if not isinstance(language, str | None):
        raise ValueError(f"language must be an ISO 639 code, got {language!r}")
    if "sections" in record:
        return Document.from_sections(title or "", record["sections"], language=language)
    if "section_texts" in record:  # Gensim's segment_wiki
        parts = zip(record["section_titles"], record["section_texts"], strict=True)
        return Document.from_sections(title or "", [*parts], language=language)
    if "body_text" in record:
        return unarxive_document(record)
    if "full_description" in record:
        return hupd_document(record)
    if "turns" in record:
        return Document.from_text(json.dumps(record), format="json", title=title, language=language)
    if "text" in record:
        return Document.from_text(
            record["text"], format=record.get("format", "text"), title=title, language=language
        )
    raise ValueError("it has neither sections, text nor turns")


def _matching_files(pattern: str | PathLike[str]) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return [
            file
            for file in path.rglob("*")
            if file.is_file() and not any(map(_is_hidden, file.relative_to(path).parts))
        ]
    paths = [path]
    if not path.is_file():
        paths = list(Path(path.anchor).glob(fspath(path.relative_to(path.anchor))))
    if not paths:
        raise FileNotFoundError(f"{fspath(pattern)} does not exist: check the path")
    return [file for file in paths if file.is_file()]


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _lines(content: bytes | mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that is not blank."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        if content[start:end].strip():
            yield start, end
        start = end + 1
