"""Files that are written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from uuid import uuid4


class _Abandoned(Exception):  # noqa: N818
    """Nothing is to be written after all."""


@contextmanager
def written_whole(path: str | PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that takes the place of `path` once it is written.

    Where writing fails, nothing is left behind and a file that stood at `path` is untouched.

    Raises:
        OSError: `path` cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file in it")
    temporary = path.with_name(f".{uuid4().hex}{path.suffix}")  # a rename keeps to one file system
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise type(error)(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that takes files"
        ) from error
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | PathLike[str]) -> None:
    """Find out before long work whether its result can be written.

    Raises:
        OSError: `path` cannot be written.
    """
    with suppress(_Abandoned), written_whole(path):
        raise _Abandoned
