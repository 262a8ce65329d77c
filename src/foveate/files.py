"""Files: written completely or not at all, and known by their content."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from os import PathLike
from pathlib import Path
from uuid import uuid4


class _Discard(Exception):  # noqa: N818 (a signal, not an error)
    """Raised to drop what has been written."""


@contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that replaces `path` once it is written.

    If writing fails, the temporary file is removed and an existing file at `path` is left as it
    was.

    Args:
        path: The file to write.

    Raises:
        OSError: `path` cannot be written.

    Example:
        >>> from foveate.files import atomic_write
        >>> with atomic_write(getfixture("tmp_path") / "notes.txt") as temporary:
        ...     _ = temporary.write_text("Cod swim.")
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file in it")
    # In the same folder, since a file cannot be renamed from one file system to another.
    temporary = path.with_name(f".{uuid4().hex}{path.suffix}")
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise type(error)(
            f"{path} cannot be written ({error.strerror}): name a file in a writable folder"
        ) from error
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | PathLike[str]) -> None:
    """Check that a file can be written, before the long work whose result it is to hold.

    Raises:
        OSError: `path` cannot be written.
    """
    with suppress(_Discard), atomic_write(path):
        raise _Discard


FileStamp = tuple[str, int, int]
"""The path of a file, its size, and when it was last changed, in nanoseconds."""


def stamp_file(path: Path) -> FileStamp:
    """Return what changes when a file does."""
    stat = path.stat()
    return str(path), stat.st_size, stat.st_mtime_ns


@cache
def hash_file(stamp: FileStamp) -> str:
    """Return the SHA-256 of a file, which is read once as long as its stamp stays the same."""
    with Path(stamp[0]).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
