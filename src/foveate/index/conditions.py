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

import numpy as np
import numpy.typing as npt

from foveate.index.lance import LanceError, quote, read, reason_of
from foveate.index.schema import DOCUMENT_COLUMNS, SENTENCE_COLUMNS
from foveate.index.snapshot import Snapshot

Mask = npt.NDArray[np.bool_]

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

_CONDITION_ERRORS = ("Execution error", "Invalid user input")
"""What Lance's message says if a condition cannot be evaluated for some values, or parsed."""


def allowed_sentences(
    snapshot: Snapshot,
    where: str | Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
    section: str | None = None,
    document: int | None = None,
) -> Mask | None:
    """Find the sentences that satisfy conditions.

    Args:
        snapshot: The library.
        where: Conditions in SQL, which all must hold, see `foveate.index.Index.search`.
        path: The file, the folder around it, or a pattern; see `Index.search`.
        section: A part of the title of a section around the sentence, ignoring case.
        document: The number of the document.

    Returns:
        `(sentences,)`; None if there are no conditions.

    Raises:
        TypeError: The number of the document is not an integer.
        ValueError: A condition is not SQL, names a column that does not exist, or calls a function
            that is not allowed; or there is no document with this number.
    """
    conditions = [where] if isinstance(where, str) else list(where or ())
    if section is not None:
        title = quote(section.lower())
        conditions.append(f"contains(lower(array_to_string(section, ' › ')), {title})")
    if not conditions and path is None and document is None:
        return None
    allowed = np.ones(snapshot.num_sentences, np.bool_)
    for condition in conditions:
        allowed &= _satisfying(condition, snapshot)
    if path is not None:
        allowed &= _in_path(fspath(path), snapshot)[snapshot.sentence_document]
    if document is not None:
        allowed &= _in_document(index(document), snapshot)
    return allowed


def _satisfying(condition: str, snapshot: Snapshot) -> Mask:
    """Return whether each sentence satisfies a condition, itself or its document."""
    check_condition(condition)
    table = _table(condition)
    try:
        rows = read(
            snapshot.tables[table],
            ("document",) if table == "documents" else ("document", "position"),
            condition,
        )
    except (ValueError, RuntimeError) as error:
        is_condition = any(kind in str(error) for kind in _CONDITION_ERRORS)
        is_condition |= isinstance(error, LanceError)  # a panic, to which conditions lead
        if isinstance(error, RuntimeError) and not is_condition:
            with snapshot.store.explained():  # the table is to blame, not the condition
                raise
        raise ValueError(
            f"the condition {_shown(condition)} cannot be evaluated ({reason_of(error)}): "
            "write it as after WHERE in SQL, with texts in single quotes"
        ) from error
    numbers = rows["document"].to_numpy()
    if table == "documents":
        documents = np.zeros(snapshot.num_documents, np.bool_)
        documents[snapshot.document_idx(numbers)] = True
        return documents[snapshot.sentence_document]
    sentences = np.zeros(snapshot.num_sentences, np.bool_)
    positions = rows["position"].to_numpy()
    sentences[snapshot.places(snapshot.sentence_ends, numbers, positions)] = True
    return sentences


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


def _table(condition: str) -> str:
    """Return the table that has the columns of a condition."""
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
    of_documents = [name in DOCUMENT_COLUMNS for name in names]
    if len(set(of_documents)) > 1:
        raise ValueError(
            f"the condition {_shown(condition)} is about both documents "
            f"({', '.join(DOCUMENT_COLUMNS)}) and sentences ({', '.join(SENTENCE_COLUMNS)}): "
            "give two conditions"
        )
    return "documents" if of_documents[0] else "sentences"


def _in_document(number: int, snapshot: Snapshot) -> Mask:
    """Return whether each sentence is in the document with a number."""
    [idx] = snapshot.document_idx(np.array([number]))
    if idx < 0:
        raise ValueError(
            f"the library has no document number {number}: documents() lists those that it has"
        )
    is_inside: Mask = snapshot.sentence_document == idx
    return is_inside


def _in_path(path: str, snapshot: Snapshot) -> Mask:
    """Return whether each document is at a path, in a folder, or matches a pattern."""
    names = [glob.escape(os.path.normpath(path)), os.path.normpath(path)]
    if Path(path).exists():
        names = [glob.escape(os.path.abspath(path))]  # noqa: PTH100 (resolve would follow links)
    folders = ("",) if os.path.isabs(names[0]) else ("", f"*{os.sep}")  # noqa: PTH117
    parts = ("", f"{os.sep}*", ":*")  # of a folder or an archive; a record
    patterns = [folder + name + part for name in names for folder in folders for part in parts]
    is_inside = re.compile("|".join(map(fnmatch.translate, patterns))).match
    numbers = snapshot.numbers.tolist()
    return np.array([bool(is_inside(snapshot.sources[number])) for number in numbers], np.bool_)
