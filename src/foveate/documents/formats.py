"""The known formats, how to recognize them, and their readers."""

from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from foveate.documents.blocks import ParsedText
from foveate.documents.structure import DocumentError

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


def load_reader(format: str) -> Callable[[str], ParsedText]:
    """Import the function that reads a text format, with the libraries it needs."""
    module = import_module(f"foveate.documents.readers.{_READERS[format]}")
    read: Callable[[str], ParsedText] = module.read
    return read


def check_text_format(format: str) -> str:
    """Validate the name of a format that a string can have."""
    if check_format(format) in OFFICE:
        raise DocumentError(f"{format.upper()} is not text: read it with Document.from_file.")
    return format


def check_format(format: str) -> str:
    """Validate the name of a format."""
    if format not in SUFFIXES:
        raise DocumentError(f"There is no format {format!r}: use one of {', '.join(SUFFIXES)}.")
    return format


def format_from_name(name: str) -> str:
    """Return the format of a file name, or "xml" if it depends on the content."""
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
        f"{name} ends in {suffix}, which is not a known suffix ({known}, .xml): "
        f"name its format, one of {', '.join(SUFFIXES)}."
    )


def sniff_bytes(format: str, data: bytes) -> str:
    """Recognize PDF and DOCX by their first bytes if the name says only that it is text."""
    if format == "text" and data.startswith(_PDF):
        return "pdf"
    if format == "text" and data.startswith(_ZIP):
        if b"word/document.xml" not in data:  # archives list the names of their files uncompressed
            raise DocumentError("is a ZIP archive but not DOCX: give one of the files in it.")
        return "docx"
    return format


def sniff(format: str, text: str) -> str:
    """Recognize the format by the content if the name leaves a choice."""
    if format == "xml":
        from foveate.documents.readers.xml import format_of_root

        return format_of_root(text)
    if format == "text":
        from foveate.documents.readers.transcript import looks_like_transcript

        return "transcript" if looks_like_transcript(text) else "text"
    return format
