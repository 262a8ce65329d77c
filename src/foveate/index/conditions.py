"""Conditions that the results of a search must satisfy."""

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import index
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypedDict
from unicodedata import normalize

from foveate.index.engine import Engine

_NAMES_FILE = re.compile(r"\b(?:source|file)\b")


class Conditions(TypedDict, total=False):
    """What the sentences of a library must satisfy to be found.

    Attributes:
        where: A condition in SQL on columns of documents (`foveate.index.DOCUMENT_COLUMNS`) or of
            sentences (`foveate.index.SENTENCE_COLUMNS`); or several, which all must hold. Of a
            library in Qdrant, a filter of Qdrant in JSON.
        path: Only the file at this path, the files in this folder, or those that match this
            pattern. What is no path on this machine is compared with the end or any folder of the
            documents' paths, which are absolute: `minutes.txt`, `papers`, `papers/*.pdf`.
        section: Only sections whose title contains this (ignoring case), and their subsections.
        document: Only the document with this number; several may have the same name.

    Accents may be composed or not, except in what `where` compares with `source` or `file`.
    """

    where: str | Sequence[str] | None
    path: str | PathLike[str] | None
    section: str | None
    document: int | None


def as_condition(
    engine: Engine,
    where: str | Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
    section: str | None = None,
    document: int | None = None,
) -> Any:
    """Check `Conditions`, and join them to one of the engine's; None if there are none.

    Raises:
        TypeError: The number of the document is not an integer.
        ValueError: The engine cannot evaluate a condition.
    """
    if (where, path, section, document) == (None,) * 4:
        return None
    given = [where] if isinstance(where, str) else where or ()
    return engine.condition(
        [one if _NAMES_FILE.search(one) else normalize("NFC", one) for one in given],
        None if path is None else fspath(path),
        section,
        None if document is None else index(document),
    )


def as_sql(
    where: Sequence[str], path: str | None, section: str | None, document: int | None
) -> str:
    """Return conditions as one in SQL on the rows of sentences."""
    joined = [*where, "level = 'sentence'"]
    if path is not None:
        joined.append(f"regexp_like(source, {quote(_path_pattern(path))})")
    if section is not None:
        titles = "lower(array_to_string(section, ' › '))"
        joined.append(f"contains({titles}, {quote(normalize('NFC', section.lower()))})")
    if document is not None:
        joined.append(f"document = {document}")
    return " AND ".join(f"({condition})" for condition in joined)


@contextmanager
def evaluated(
    where: Sequence[str], errors: type[Exception] | tuple[type[Exception], ...]
) -> Iterator[None]:
    """Say which conditions an engine cannot evaluate, if it raises one of some errors.

    Raises:
        ValueError: It does.
    """
    try:
        yield
    except errors as error:
        raise ValueError(
            f"the condition {' AND '.join(where)!r} cannot be evaluated ({reason_of(error)}): "
            "write it as after WHERE in SQL"
        ) from error


def reason_of(error: BaseException) -> str:
    """Return what an error of Lance says, without the place in its code that comes after it."""
    return str(error).partition("\n")[0].split(", /")[0]


def quote(value: str) -> str:
    """Quote a string for SQL.

    Example:
        >>> print(quote("Moby's whale"))
        'Moby''s whale'
    """
    return "'" + value.replace("'", "''") + "'"


def _path_pattern(path: str) -> str:
    """Return a regular expression of the names of documents at a path, in a folder, or the like."""
    names = [glob.escape(os.path.normpath(path)), os.path.normpath(path)]
    if Path(path).exists():
        names = [glob.escape(os.path.abspath(path))]  # noqa: PTH100 (resolve would follow links)
    names += [normalize(form, name) for form in ("NFC", "NFD") for name in names]
    folders = ("",) if os.path.isabs(names[0]) else ("", f"*{os.sep}")  # noqa: PTH117
    parts = ("", f"{os.sep}*", ":*")  # of a folder or an archive; a record
    patterns = [folder + name + part for name in names for folder in folders for part in parts]
    # `fnmatch` says in its own words where a text ends, and has groups that Rust does not know.
    expressions = [fnmatch.translate(pattern)[:-2].replace("(?>", "(?:") for pattern in patterns]
    return f"^({'|'.join(expressions)})$"
