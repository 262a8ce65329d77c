"""Conditions that the results of a search must satisfy."""

import fnmatch
import glob
import os
import re
from collections.abc import Collection, Sequence
from itertools import accumulate
from operator import index
from os import PathLike, fspath
from pathlib import Path
from typing import TypedDict

from foveate.index.engine import Engine, fetch
from foveate.index.schema import DOCUMENT_COLUMNS, SENTENCE_COLUMNS, pack_keys
from foveate.index.store import quote

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_NOT_ALLOWED = re.compile(r"--|/\*|[$?;\\\"`]")
"""Comments, placeholders, ends of statements and other quotation marks, outside of texts."""

_IDENTIFIER = re.compile(r"(\w++)\s*+(\()?")
"""A name or number, and whether it is called as a function."""

_WORDS = frozenset(
    (
        *("and", "or", "not", "in", "is", "null", "like", "ilike", "between", "escape"),
        *("true", "false", "case", "when", "then", "else", "end", "cast"),
        "decimal",  # in CAST(size AS decimal(10, 2))
    )
)
_TYPE = re.compile(r"\b(?:(?:date|timestamp|interval)(?=\s*'')|as\s+\w+)", re.IGNORECASE)
"""The names of types: `date '2020-01-31'`, `CAST(size AS string)`."""

FUNCTIONS = (
    *("array_has", "array_has_all", "array_has_any", "array_length", "array_position"),
    *("array_to_string", "empty"),
    *("btrim", "concat", "contains", "ends_with", "left", "length", "lower", "regexp_like"),
    *("right", "split_part", "starts_with", "strpos", "upper"),
    *("current_date", "date_part", "date_trunc", "now", "to_date", "to_timestamp"),
    *("abs", "coalesce", "nullif", "round", "try_cast"),
)
"""Functions that a condition may call: those of lists, of texts, of times, and others.

What they return is no larger than what they take. A function such as `array_repeat` returns as much
as its arguments ask for, and the process ends if Lance cannot allocate that much.
"""

_MAX_DEPTH, _MAX_TERMS = 20, 100
"""Parentheses within parentheses, and words and operators between two of AND, OR and a comma.

Lance takes minutes to parse 60 casts within each other, and ends the process at 400 operators in a
row. Conditions joined with AND or OR, and lists of values, may be as long as a query needs them.
"""

_MAX_SHOWN = 200  # characters in a message
_JOINT = re.compile(r"\b(?:and|or)\b|,", re.IGNORECASE)
_TERM = re.compile(r"\w+|[^\w\s()]+")

_MULTIPLIES = re.compile(r"\b(array_to_string|coalesce)\s*\([^()]*\(", re.IGNORECASE)
"""Calls within which each further call could multiply what is allocated: `array_to_string` repeats
its separator, and Lance's plan has the first argument of `coalesce` twice."""


class Conditions(TypedDict, total=False):
    """What the sentences of a library must satisfy to be found.

    Attributes:
        where: A condition in SQL on columns of documents (`foveate.index.DOCUMENT_COLUMNS`) or of
            sentences (`foveate.index.SENTENCE_COLUMNS`), which may call the `FUNCTIONS`; or
            several, which all must hold.
        path: Only the file at this path, the files in this folder, or those that match this
            pattern. What is no path on this machine is compared with the end or any folder of the
            documents' paths, which are absolute: `minutes.txt`, `papers`, `papers/*.pdf`.
        section: Only sections whose title contains this (ignoring case), and their subsections.
        document: Only the document with this number; several may have the same name.
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
) -> str | None:
    """Check `Conditions`, and join them to one on the rows of sentences; None if there are none.

    Raises:
        TypeError: The number of the document is not an integer.
        ValueError: A condition is not SQL, names a column that does not exist, or calls a function
            that is not allowed; or there is no document with this number.
    """
    joined: list[str] = []
    for condition in [where] if isinstance(where, str) else where or ():
        check_condition(condition)
        _check_columns(condition)
        try:
            engine.check(condition)
        except ValueError as error:
            raise ValueError(
                f"the condition {_shown(condition)} cannot be evaluated ({error})"
            ) from error
        joined.append(condition)
    if path is not None:
        joined.append(f"regexp_like(source, {quote(_path_pattern(fspath(path)))})")
    if document is not None:
        number = index(document)
        if not fetch(engine, pack_keys([number], "document", 0), ["key"]).num_rows:
            raise ValueError(
                f"the library has no document number {number}: documents() lists those that it has"
            )
        joined.append(f"document = {number}")
    if section is not None:
        title = quote(section.lower())
        joined.append(f"contains(lower(array_to_string(section, ' › ')), {title})")
    if not joined:
        return None
    return " AND ".join(f"({one})" for one in (*joined, "level = 'sentence'"))


def without_texts(condition: str) -> str:
    """Empty the texts in single quotes of a condition, so that what remains is SQL.

    Raises:
        ValueError: It has comments, placeholders or the like, or a text without an end. In a
            comment, a quotation mark begins no text.
    """
    unquoted = _QUOTED.sub("''", condition)
    if found := _NOT_ALLOWED.search(unquoted):
        raise ValueError(
            f"the condition {_shown(condition)} has {found[0]!r} outside of a text: leave "
            "comments, placeholders and other quotation marks out"
        )
    if unquoted.count("'") % 2:
        raise ValueError(
            f"the condition {_shown(condition)} has a text without an end: close the quote"
        )
    return unquoted


def check_condition(condition: str, functions: Collection[str] = FUNCTIONS) -> None:
    """Refuse a condition that Lance could not evaluate with the time and memory of any machine.

    Args:
        condition: The condition.
        functions: The functions that it may call.

    Raises:
        ValueError: It calls another function, nests calls that multiply what is allocated, or is
            nested too deeply; or see `without_texts`.
    """
    unquoted = without_texts(condition)
    for word, calls in _IDENTIFIER.findall(unquoted):
        name = word.lstrip("0123456789")
        if calls and name and name.lower() not in _WORDS and name.lower() not in functions:
            raise ValueError(
                f"the condition {_shown(condition)} calls {_shown(name)}: use only "
                f"{', '.join(functions)}"
            )
    if found := _MULTIPLIES.search(unquoted):
        raise ValueError(
            f"the condition {_shown(condition)} has a parenthesis within {found[1]}(…): give it "
            "only columns and texts"
        )
    depth = max(accumulate((c == "(") - (c == ")") for c in unquoted), default=0)
    if depth > _MAX_DEPTH:
        raise ValueError(
            f"a condition has {depth} parentheses within each other: use at most {_MAX_DEPTH}"
        )
    terms = max(len(_TERM.findall(part)) for part in _JOINT.split(unquoted))
    if terms > _MAX_TERMS:
        raise ValueError(
            f"a condition has {terms} words and operators in a row: use at most {_MAX_TERMS}, or "
            "join several conditions with AND or OR"
        )


def _shown(text: str) -> str:
    """Quote the beginning of a condition, or of a name in it, for a message."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


def _check_columns(condition: str) -> None:
    """Refuse a condition that names other columns than those of documents and sentences, or none.

    Raises:
        ValueError: It does.
    """
    unquoted = _TYPE.sub(",", without_texts(condition))
    words = [word for word, calls in _IDENTIFIER.findall(unquoted) if not calls]
    names = [word for word in words if not word[0].isdigit() and word.lower() not in _WORDS]
    known = [*DOCUMENT_COLUMNS, *SENTENCE_COLUMNS]
    for name in names:
        if name not in known:
            raise ValueError(
                f"a condition names {_shown(name)}, and there is no such column: use one of "
                f"{', '.join(known)}"
            )
    if not names:
        raise ValueError(
            f"the condition {_shown(condition)} names no column: use {', '.join(known)}"
        )


def _path_pattern(path: str) -> str:
    """Return a regular expression of the names of documents at a path, in a folder, or the like."""
    names = [glob.escape(os.path.normpath(path)), os.path.normpath(path)]
    if Path(path).exists():
        names = [glob.escape(os.path.abspath(path))]  # noqa: PTH100 (resolve would follow links)
    folders = ("",) if os.path.isabs(names[0]) else ("", f"*{os.sep}")  # noqa: PTH117
    parts = ("", f"{os.sep}*", ":*")  # of a folder or an archive; a record
    patterns = [folder + name + part for name in names for folder in folders for part in parts]
    # `fnmatch` says in its own words where a text ends, and has groups that Rust does not know.
    expressions = [fnmatch.translate(one)[:-2].replace("(?>", "(?:") for one in patterns]
    return f"^({'|'.join(expressions)})$"
