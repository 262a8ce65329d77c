"""The documents in collections: archives, mailboxes, and files of records."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from foveate.documents.compression import decompress, strip_suffix
from foveate.documents.decoding import File, is_text, load_decompressed
from foveate.documents.formats import FORMATS, Member
from foveate.documents.recognition import format_from_name, sniff, sniff_bytes
from foveate.documents.structure import DocumentError

MAILDIR = ("cur", "new")
"""The subfolders that hold the messages of a Maildir."""

HEAD = 4096  # bytes by which a file in a folder is recognized
_MAX_DEPTH = 3  # of collections in collections
_MAX_MEMBERS = 1_000_000
MAX_BYTES = 2**30  # bytes of all members

ErrorHandler = Callable[[str, Exception], None]
"""Takes the name of what cannot be read, and the error that says why."""


def expand(
    file: File, encoding: str | None, on_error: ErrorHandler | None = None
) -> Iterator[File]:
    """Yield the files in a collection and in collections inside it; yield any other file itself.

    Args:
        file: The file.
        encoding: Encoding of the members; None to detect it.
        on_error: Called for each member that cannot be read; None to raise the error.

    Raises:
        DocumentError: The collection or, without `on_error`, a member cannot be read; or none of
            its members is in a known format; or it unpacks to an unreasonable size.
    """
    return _Expansion(file.name, encoding, on_error).files(file, 0)


class _TooLargeError(DocumentError):
    """A collection unpacks to an unreasonable size, so no more of it is read."""


class _Expansion:
    """Unpacks a file and everything in it, up to a total size."""

    def __init__(self, name: str, encoding: str | None, on_error: ErrorHandler | None) -> None:
        self.name = name
        self.encoding = encoding
        self.on_error = on_error
        self.num_bytes = self.num_members = 0

    def files(self, file: File, depth: int) -> Iterator[File]:
        """Yield the files in a file that `depth` collections enclose."""
        if not file.format.is_collection:
            yield file
            return
        if depth == _MAX_DEPTH:
            raise DocumentError(
                f"{file.name} is nested in {depth} other archives: unpack it first."
            )
        num_tried = 0
        for member in _split(file):
            self.num_members += 1
            self.count(len(member.content))
            name = file.name + member.name
            try:
                loaded = self.load(member, name)
                if loaded is not None:
                    num_tried += 1
                    yield from self.files(loaded, depth + 1)
            except (DocumentError, ImportError) as error:
                num_tried += 1
                if self.on_error is None or isinstance(error, _TooLargeError):
                    raise
                self.on_error(name, error)
        if not num_tried:
            raise DocumentError(f"{file.name} holds nothing that can be read.")

    def load(self, member: Member, name: str) -> File | None:
        """Decompress and decode a member; None if it is not in a known format."""
        file_name = PurePath(member.name).name
        if member.format is not None:
            file = load_decompressed(member.content, name, member.format, "utf-8")
            return replace(file, place=member.place)
        data = decompress(member.content, name, file_name)
        if data is not member.content:
            self.count(len(data))
        file_name = strip_suffix(file_name)
        if not is_readable(file_name, data):
            return None
        return load_decompressed(data, name, None, self.encoding, file_name)

    def count(self, num_bytes: int) -> None:
        """Count what has been unpacked or will be, and refuse an unreasonable size."""
        self.num_bytes += num_bytes
        if self.num_members > _MAX_MEMBERS or self.num_bytes > MAX_BYTES:
            raise _TooLargeError(
                f"{self.name} unpacks to more than {MAX_BYTES >> 30} GiB or {_MAX_MEMBERS:,} "
                "files: unpack it first, and name what is to be read."
            )


def is_readable(name: str, head: bytes) -> bool:
    """Return whether a file that was found, rather than named, is in a format that can be read.

    Args:
        name: The file's name.
        head: Its decompressed content, or the beginning of it.
    """
    format = sniff_bytes(format_from_name(name), head)
    if format in FORMATS and not FORMATS[format].is_installed:
        return False
    if format == "xml":
        try:
            format = sniff(format, head.replace(b"\0", b"").decode("latin-1"))  # or UTF-16
        except DocumentError:
            return False
    return format is not None and (bool(PurePath(name).suffix) or format != "text" or is_text(head))


def walk(folder: Path, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """Find the files in a folder and in the folders in it, in the order of their names.

    A Maildir is yielded itself in place of its messages, before what else is in it. Hidden files,
    links to folders, and libraries are left out.

    Args:
        folder: The folder.
        on_error: Called with the error if a folder cannot be listed.
    """
    for name, folders, files in os.walk(folder, onerror=on_error):
        if "library.lance" in folders:
            folders.clear()
            continue
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        if set(MAILDIR) <= set(folders):
            folders[:] = [one for one in folders if one not in (*MAILDIR, "tmp")]
            yield Path(name)
        for path in (Path(name, file) for file in sorted(files)):
            if not path.name.startswith(".") and path.is_file():
                yield path


def is_readable_file(path: Path) -> bool:
    """Return whether a file that was found in a folder should be read; see `is_readable`."""
    try:
        with path.open("rb") as file:
            return is_readable(path.name, file.read(HEAD))
    except OSError:
        return True  # reading it says what is wrong


def _split(file: File) -> Iterator[Member]:
    """Yield the members of a collection; its errors name it."""
    try:
        yield from file.format.load_reader()(file.content)
    except DocumentError as error:
        raise DocumentError(f"{file.name} {error}") from error
