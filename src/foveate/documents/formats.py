"""The formats that can be read."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from foveate.documents.structure import DocumentError
from foveate.documents.words import load_words


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be read.

    Attributes:
        name: Its name, as `format=` and `--format` take it.
        description: What it is, in a few words.
        suffixes: The suffixes of its files.
        reader: Module of `foveate.documents.readers` that reads it. Its function `read` takes the
            text or, if `is_binary`, the bytes, and returns a `ParsedText`.
        is_binary: Whether the reader takes bytes.
        is_collection: Whether a file holds several documents. The reader then has a function
            `split` in place of `read`, which takes the same and yields each `Member`.
        declares_encoding: Whether a file may declare the encoding of its text.
        signature: The bytes with which its files begin, if these identify the format.
        member: Bytes that identify the format within a ZIP archive, such as the name of a member.
        options: Names of the options that its reader takes.
        extra: The extra of foveate that installs what the reader needs; None if nothing is missing.
        requires: Modules that the extra installs.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    reader: str
    is_binary: bool = False
    is_collection: bool = False
    declares_encoding: bool = False
    signature: bytes = b""
    member: bytes = b""
    options: tuple[str, ...] = ()
    extra: str | None = None
    requires: tuple[str, ...] = ()

    def load_reader(self) -> Callable[..., Any]:
        """Import the function that reads or, for a collection, splits a file."""
        module = import_module(f"foveate.documents.readers.{self.reader}")
        function: Callable[..., Any] = module.split if self.is_collection else module.read
        return function

    @property
    def is_installed(self) -> bool:
        """Whether the modules that the extra installs are present."""
        return all(find_spec(module) for module in self.requires)


@dataclass(frozen=True, slots=True)
class Member:
    """A document of a collection, as it is stored there.

    Attributes:
        name: What follows the collection's name in the document's source: "/notes/a.txt" in an
            archive, ":3" in a file of records.
        content: The bytes of a file.
        format: Name of its format; None to recognize it as that of a file of this name.
        place: Where a reader of the collection finds it, such as "row 3", if its format names no
            places of its own.
    """

    name: str
    content: bytes
    format: str | None = None
    place: str | None = None


def _format(row: dict[str, Any]) -> Format:
    """Make a format of its row in the table."""
    marks = {key: row[key].encode() for key in ("signature", "member") if key in row}
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Format(**row | marks | lists)


FORMATS = {row["name"]: _format(row) for row in load_words("formats")["formats"]}


def check_text_format(name: str) -> Format:
    """Return the text format with this name."""
    format = check_format(name)
    if format.is_collection:
        raise DocumentError(f"{name.upper()} holds several documents: use read_documents.")
    if format.is_binary:
        raise DocumentError(f"{name.upper()} is not text: read it with Document.from_file.")
    return format


def check_format(name: str) -> Format:
    """Return the format with this name."""
    if name not in FORMATS:
        raise DocumentError(f"There is no format {name!r}: use one of {', '.join(FORMATS)}.")
    return FORMATS[name]
