"""Rows of files: JSON, JSON Lines and CSV, compressed or not, and where each stands."""

import csv
import gzip
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from foveate.documents import DocumentError
from foveate.documents.decoding import gzip_errors

Row = Mapping[str, Any]
Places = Iterable[tuple[str, Row]]
Made = TypeVar("Made")


def rows(path: str | PathLike[str]) -> Iterator[tuple[str, Row]]:
    """Read the rows of a file, or of all files in a folder, each with its place in words.

    A `.csv` has a row a line, under its header. A `.json` is one row, or a list of rows. All else
    is JSON Lines. Any may be gzipped and then end in `.gz`.

    Raises:
        OSError: there is no such file.
        ValueError: it is not of that format.
    """
    path = Path(path)
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if not child.name.startswith("."):
                yield from rows(child)
        return
    suffix = Path(path.name.removesuffix(".gz")).suffix
    with gzip_errors(path), opened(path) as file:
        yield from _FORMATS.get(suffix, _json_lines)(path, file)


def opened(path: Path) -> IO[str]:
    """Open a text file that may be gzipped."""
    if path.suffix == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8", newline=""))
    return path.open(encoding="utf-8", newline="")


def each(make: Callable[[str, Row], Iterable[Made]], places: Places) -> Iterator[Made]:
    """Make examples of every row; one without any text to read is left out with a warning.

    Args:
        make: takes the row's place, for rows without an id, and the row.
        places: from `rows`.

    Raises:
        ValueError: a row is not of the benchmark's form; the message says which, and why.
    """
    for place, row in places:
        try:
            yield from make(place, row)
        except DocumentError as error:
            warnings.warn(f"{place} is left out: {error}", stacklevel=2)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{place} is not a row of this benchmark ({reason}): check the file and the "
                "benchmark's name"
            ) from error


def _json_lines(path: Path, file: IO[str]) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield f"{path}, line {number}", _decoded(line.strip(), path, number)


def _json(path: Path, file: IO[str]) -> Iterator[tuple[str, Row]]:
    found = _decoded(file.read(), path, 1)
    if isinstance(found, list):
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(found, 1))
    else:
        yield str(path), found


def _decoded(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {line + error.lineno - 1} is not JSON ({error.msg}): correct it there"
        ) from error


def _csv(path: Path, file: IO[str]) -> Iterator[tuple[str, Row]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # notes are longer than the usual 128 KiB
    for number, row in enumerate(csv.DictReader(file), 1):
        yield f"{path}, row {number}", row


_FORMATS = {".json": _json, ".csv": _csv}
