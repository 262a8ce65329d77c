"""Reading the tables of a library with Lance."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

_PANICS = ("RustPanic", "PanicException")
"""Exceptions by which Lance reports a failure in Rust; neither can be imported."""

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_LIMITS = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def connect(folder: Path) -> Any:
    """Connect to the tables in a folder."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # its warnings are for its developers
    import lancedb

    return lancedb.connect(folder)


def quote(value: str) -> str:
    """Quote a string for SQL.

    Example:
        >>> print(quote("Moby's whale"))
        'Moby''s whale'
    """
    return "'" + value.replace("'", "''") + "'"


def quote_list(values: Iterable[str]) -> str:
    """Quote a list of strings for SQL's IN."""
    return f"({', '.join(map(quote, values))})"


def read(table: Any, columns: Sequence[str], condition: str | None = None) -> pa.Table:
    """Read some columns of the rows of a table that satisfy a condition."""
    with without_panics():
        return _query(table, columns, condition).to_arrow()


def read_batches(
    table: Any, columns: Sequence[str], condition: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Read like `read`, but a few rows at a time."""
    with without_panics():
        yield from _query(table, columns, condition).to_batches()


def _query(table: Any, columns: Sequence[str], condition: str | None) -> Any:
    query = table.search().select(list(columns))
    return query.where(condition) if condition else query


def reason_of(error: BaseException) -> str:
    """Return what an error of Lance says, without the place in its code that comes after it."""
    return str(error).split(", /")[0]


def limits(error: BaseException) -> bool:
    """Return whether an error is due to a permission or a limit of the system, not to a file.

    Lance gives the number of such an error only in its message.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (match := _OS_ERROR.search(str(error))):
        number = int(match[1])
    return number in _LIMITS


class LanceError(RuntimeError):
    """Lance failed in its own code, for which a file or a condition may be the reason."""


@contextmanager
def without_panics() -> Iterator[None]:
    """Raise a `LanceError` with a readable message instead of what Lance raises in a panic."""
    try:
        yield
    except BaseException as error:  # which PanicException is
        if type(error).__name__ not in _PANICS and "panicked with message" not in str(error):
            raise
        said, *_ = str(error).splitlines() or ["unknown error"]
        is_said = "unknown error" not in said  # which was printed instead
        raise LanceError(f"Lance failed: {said}" if is_said else "Lance failed") from error
