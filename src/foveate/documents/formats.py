"""Which formats there are, how to tell them apart, and which reader reads them."""

from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from foveate.documents.blocks import Reading
from foveate.documents.errors import DocumentError

SUFFIXES = {
    "text": ("", ".txt", ".text", ".log"),
    "markdown": (".md", ".markdown", ".mdown", ".mkd"),
    "rst": (".rst", ".rest"),
    "html": (".html", ".htm", ".xhtml"),
    "jats": (".jats", ".nxml"),
    "tei": (".tei",),
    "transcript": (),
    "json": (".json",),
    "pdf": (".pdf",),
    "docx": (".docx",),
}
OFFICE = ("pdf", "docx")
_PDF, _ZIP = b"%PDF-", b"PK\x03\x04"

_READERS = {
    "text": "plain",
    "markdown": "markdown",
    "rst": "rst",
    "html": "html",
    "jats": "jats",
    "tei": "tei",
    "transcript": "transcript",
    "json": "meeting",
}


def reader(format: str) -> Callable[[str], Reading]:
    """The function that reads a text format; its libraries are imported only now."""
    module = import_module(f"foveate.documents.readers.{_READERS[format]}")
    read: Callable[[str], Reading] = module.read
    return read


def text_format(format: str) -> str:
    """The format, if text can be of it."""
    if checked(format) in OFFICE:
        raise DocumentError(f"{format.upper()} is not text: read it with Document.from_file.")
    return format


def checked(format: str) -> str:
    """The format, if there is such a one."""
    if format not in SUFFIXES:
        raise DocumentError(f"There is no format {format!r}: use one of {', '.join(SUFFIXES)}.")
    return format


def format_of(name: str) -> str:
    """What a file's name says: a format, or ``xml`` where only the content can tell."""
    path = PurePath(name)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = PurePath(path.stem).suffix.lower()
    if suffix == ".xml":
        return "xml"
    for format, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return format
    known = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes if suffix)
    raise DocumentError(
        f"{name} ends in {suffix}, which is none of {known}, .xml: "
        f"name its format, one of {', '.join(SUFFIXES)}."
    )


def sniff_bytes(format: str, data: bytes) -> str:
    """The format, decided by the first bytes where no name told more than that it is text."""
    if format == "text" and data.startswith(_PDF):
        return "pdf"
    if format == "text" and data.startswith(_ZIP):
        if b"word/document.xml" not in data:  # an archive lists names as they are
            raise DocumentError("is a ZIP archive and no DOCX: give one of the files in it.")
        return "docx"
    return format


def sniff(format: str, text: str) -> str:
    """The format, decided by the content where the name left a choice."""
    if format == "xml":
        from foveate.documents.readers.xml import format_of_root

        return format_of_root(text)
    if format == "text":
        from foveate.documents.readers.transcript import looks_like_transcript

        return "transcript" if looks_like_transcript(text) else "text"
    return format
