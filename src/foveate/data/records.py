"""The records of JSON, JSON Lines and CSV files, compressed or not, with their places."""

import csv
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from foveate.documents import DocumentError
from foveate.documents.compression import decompressed, strip_suffix

Record = Mapping[str, Any]
"""A JSON object, or a line of a CSV file."""

LocatedRecords = Iterable[tuple[str, Record]]
"""Records, each preceded by its place in words, such as "dev.jsonl, line 3"."""

T = TypeVar("T")


def read_records(path: str | PathLike[str]) -> Iterator[tuple[str, Record]]:
    """Read the records of a file, or of all files in a folder.

    A `.csv` file has a header and one record per line, with tabs between the fields if the header
    has one, and commas otherwise. A `.json` file is one record or a list of records. Any other file
    is read as JSON Lines. All may be compressed: `.gz`, `.xz`, `.bz2`, `.zst`.

    Args:
        path: The file or folder.

    Returns:
        An iterator over the records, each preceded by a description of its place.

    Raises:
        OSError: The file does not exist.
        ValueError: The file is not valid UTF-8 or JSON, or its compression is damaged.
    """
    path = Path(path)
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if not child.name.startswith("."):
                yield from read_records(child)
        return
    lines = read_lines(path)
    suffix = Path(strip_suffix(path.name)).suffix
    if suffix == ".csv":
        yield from _read_csv(path, lines)
    elif suffix == ".json":
        yield from _read_json(path, "".join(lines))
    else:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", _parse_json(line.strip(), path, number)


def read_lines(path: Path) -> Iterator[str]:
    """Read the lines of a text in UTF-8 that may be compressed, with or without a byte order mark.

    Raises:
        OSError: The file does not exist.
        ValueError: The file is not valid UTF-8, or its compression is damaged.
    """
    with decompressed(path) as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
        try:
            yield from lines
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not valid UTF-8: convert it to UTF-8") from error


def parse_records(
    parse: Callable[[str, Record], Iterable[T]], records: LocatedRecords
) -> Iterator[T]:
    """Parse every record; records without any text are skipped with a warning.

    Args:
        parse: Takes a record's place, to identify records without an id, and the record.
        records: What `read_records` returns.

    Raises:
        ValueError: A record is not in the benchmark's format; the message says which, and why.
    """
    for place, record in records:
        try:
            yield from parse(place, record)
        except DocumentError as error:
            warnings.warn(f"{place} is skipped: {error}", stacklevel=2)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{place} is not a record of this benchmark ({reason}): check the file and the "
                "benchmark's name"
            ) from error


def check_text(value: object, name: str) -> str:
    """Return a value that is a text.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {value!r:.60}")
    return value


def check_texts(value: object, name: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple; a single text stands for a list of one.

    Raises:
        ValueError: The value is neither a text nor a list of texts.
    """
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise ValueError(f"{name} must be a text or a list of texts, got {value!r}")


def _read_json(path: Path, text: str) -> Iterator[tuple[str, Record]]:
    content = _parse_json(text, path, 1)
    if isinstance(content, list):
        for number, record in enumerate(content, 1):
            yield f"{path}, record {number}", record
    else:
        yield str(path), content


def _read_csv(path: Path, lines: Iterator[str]) -> Iterator[tuple[str, Record]]:
    csv.field_size_limit(2**31 - 1)  # notes exceed the default of 128 KiB
    header = next(lines, "")
    reader = csv.DictReader(chain([header], lines), delimiter="\t" if "\t" in header else ",")
    for number, record in enumerate(reader, 1):
        yield f"{path}, record {number}", record


def _parse_json(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {line + error.lineno - 1} is not valid JSON ({error.msg}): correct it"
        ) from error
