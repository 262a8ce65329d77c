"""The files that a library is made from: finding them, and detecting changes."""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

from foveate.documents import DocumentError
from foveate.documents.decoding import name_as_text
from foveate.documents.members import HEAD, ErrorHandler, is_readable, walk

_MAX_BYTES = 2**30
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # a drive has one letter
_CLOCK = 2 * 10**9
"""Nanoseconds within which a file may change twice and keep its time, on some file systems."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a folder of messages that is read as a whole.

    Attributes:
        path: Its absolute path.
        is_found: Whether it was found in a folder rather than named.
    """

    path: Path
    is_found: bool = False


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The file that documents were read from, by which changes are noticed.

    Attributes:
        name: Its absolute path; of documents that were not read from a file, their name.
        sha256: Hash of its content; empty before that is read.
        size: Its size in bytes.
        modified: When it was last changed, in nanoseconds since 1970.
        noted: When all this was recorded, in nanoseconds since 1970.
    """

    name: str
    sha256: str
    size: int
    modified: int
    noted: int


def find_sources(
    paths: Iterable[str | os.PathLike[str]], on_error: ErrorHandler
) -> Iterator[Source]:
    """Find the files at paths, in folders and by patterns.

    Folders are walked as by `foveate.documents.members.walk`, but a Maildir is one source. No file
    is opened.

    Args:
        paths: Files, folders, and patterns with `*`, `**`, `?` and `[…]`.
        on_error: Called with the name of what cannot be found or read, and the error.
    """
    for path in paths:
        for match in _matches(os.fspath(path), on_error):
            for source in _sources_at(match, on_error):
                name = name_as_text(source.path)
                if name == str(source.path):
                    yield source
                else:  # which a table cannot hold
                    on_error(name, DocumentError(f"{name} has a name that is not UTF-8: rename it"))


def _matches(path: str, on_error: ErrorHandler) -> Iterable[Path]:
    """Find what matches a pattern; a path without a pattern is returned as it is."""
    if not path:  # which would be the current folder
        on_error(path, FileNotFoundError("the name of a file is empty: give one"))
        return []
    if not has_magic(path) or Path(path).exists():
        return [Path(path)]
    folder = before_pattern(path)
    matches = [
        match
        for match in sorted(folder.glob(str(Path(path).relative_to(folder))))
        if not any(part.startswith(".") for part in match.relative_to(folder).parts)
    ]
    if not matches:
        on_error(path, FileNotFoundError(f"no file matches {path}: check the pattern"))
    # The files of folders match ** by themselves.
    return [match for match in matches if not (match.is_dir() and "**" in path)]


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names something in an object store or elsewhere on a network.

    Example:
        >>> is_url("s3://bucket/papers"), is_url(Path("gs://bucket")), is_url("papers/s3")
        (True, True, False)
    """
    return bool(_URL.match(os.fspath(path))) and not Path(path).exists()


def before_pattern(path: str) -> Path:
    """Return the folder in which a pattern looks; a path without a pattern as it is.

    Example:
        >>> before_pattern("papers/old/**/*.pdf")
        PosixPath('papers/old')
    """
    folder = Path()
    for part in Path(path).parts:
        if has_magic(part) and not (folder / part).exists():
            break
        folder /= part
    return folder


def is_under(file: str, folder: str) -> bool:
    """Return whether a file is in a folder or in one of the folders in it, by their paths."""
    return file.startswith(folder.rstrip(os.sep) + os.sep)


def _sources_at(path: Path, on_error: ErrorHandler) -> Iterator[Source]:
    """Find the files at a path."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow links)
    if absolute.is_dir():
        yield from _sources_in(absolute, on_error)
    elif absolute.is_file():
        yield Source(absolute)
    elif absolute.exists():  # a pipe or a device may never end
        on_error(str(path), ValueError(f"{path} is not a regular file: copy its content into one"))
    else:
        on_error(str(path), FileNotFoundError(f"{path} does not exist: check the path"))


def _sources_in(folder: Path, on_error: ErrorHandler) -> Iterator[Source]:
    """Find the files in a folder."""
    maildir: Path | None = None
    for path in walk(folder, lambda error: on_error(str(error.filename), error)):
        if maildir in path.parents:
            continue  # a conversation may be in several files: they are read as a whole
        if path.is_dir():
            maildir = path
        yield Source(path, is_found=True)


def look(source: Source, known: FileRecord | None) -> FileRecord:
    """Return what is known of a file, or of a folder of messages, before it is opened.

    A file whose size and time are the recorded ones is taken to be unchanged, if nothing about it
    has changed since shortly before they were recorded. What gives a changed file its old time
    changes its inode (`st_ctime`).

    Args:
        source: The file.
        known: What identified it when it was last read.

    Returns:
        `known` if it is unchanged, or else a record without a hash.

    Raises:
        DocumentError: The file is too large.
        OSError: It cannot be found.
    """
    noted = time.time_ns()
    stats = [one.stat() for one in _files_of(source.path)]
    size = sum(one.st_size for one in stats)
    modified = max((one.st_mtime_ns for one in stats), default=0)
    changed = max((one.st_ctime_ns for one in stats), default=0)
    if size > _MAX_BYTES:
        raise DocumentError(
            f"{source.path} has {size / 2**30:.1f} GiB, and a library takes files of at most "
            f"{_MAX_BYTES >> 30} GiB: split it into several"
        )
    if (
        known
        and (known.size, known.modified) == (size, modified)
        and max(modified, changed) < known.noted - _CLOCK
    ):
        return known
    return FileRecord(str(source.path), "", size, modified, noted)


def read(source: Source) -> tuple[bytes, str]:
    """Read a file.

    Returns:
        Its content and its hash. Of a file that was found, and that no reader takes, there are
        neither; of a folder of messages, there is no content.

    Raises:
        OSError: It cannot be read.
    """
    path, digest = source.path, hashlib.sha256()
    if path.is_dir():
        for file in _files_of(path):
            digest.update(hashlib.sha256(file.read_bytes()).digest())
            digest.update(os.fsencode(file.relative_to(path)))
        return b"", digest.hexdigest()
    with path.open("rb") as opened:
        head = opened.read(HEAD)
        if source.is_found and not is_readable(path.name, head):
            return b"", ""
        content = head + opened.read()
    digest.update(hashlib.sha256(content).digest())
    return content, digest.hexdigest()


def _files_of(path: Path) -> list[Path]:
    """Return a file or, of a folder of messages, those that are read as parts of it."""
    if not path.is_dir():
        return [path]
    names = sorted(one.relative_to(path) for one in path.rglob("*") if one.is_file())
    return [
        path / name
        for name in names  # those in tmp are on their way
        if not any(part.startswith(".") or part == "tmp" for part in name.parts)
    ]
