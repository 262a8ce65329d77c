"""The formats that can be read, and how to recognize them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Any

from foveate.documents.structure import DocumentError


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be read.

    Attributes:
        name: Its name, by which `format=` and `--format` choose it.
        description: What it is, in a few words.
        suffixes: The suffixes of its files.
        reader: Module of `foveate.documents.readers` that reads it. Its function `read` takes the
            text or, if `is_binary`, the bytes, and returns a `ParsedText`.
        is_binary: Whether the reader takes bytes.
        declares_encoding: Whether a file may declare the encoding of its text.
        extra: The extra of foveate that installs what the reader needs; None if nothing is missing.
        requires: Modules that the extra installs.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    reader: str
    is_binary: bool = False
    declares_encoding: bool = False
    extra: str | None = None
    requires: tuple[str, ...] = ()

    def load_reader(self) -> Callable[..., Any]:
        """Import the function that reads the format, with the libraries it needs."""
        module = import_module(f"foveate.documents.readers.{self.reader}")
        read: Callable[..., Any] = module.read
        return read


FORMATS = {
    format.name: format
    for format in (
        Format("text", "plain text", ("", ".txt", ".text", ".log"), "plain"),
        Format("markdown", "Markdown", (".md", ".markdown", ".mdown", ".mkd"), "markdown"),
        Format("rst", "reStructuredText", (".rst", ".rest"), "rst"),
        Format("latex", "LaTeX", (".tex", ".latex", ".ltx"), "latex"),
        Format("notebook", "Jupyter notebooks", (".ipynb",), "notebook"),
        Format("html", "web pages", (".html", ".htm", ".xhtml"), "html", declares_encoding=True),
        Format("jats", "JATS articles", (".jats", ".nxml"), "jats", declares_encoding=True),
        Format("tei", "TEI articles and editions", (".tei",), "tei", declares_encoding=True),
        Format("transcript", "transcripts with speakers", (), "transcript"),
        Format("json", "meetings and documents that foveate saved", (".json",), "meeting"),
        Format("pdf", "PDF", (".pdf",), "pdf", is_binary=True),
        Format("docx", "Word", (".docx",), "docx", is_binary=True),
    )
}
_PDF, _ZIP = b"%PDF-", b"PK\x03\x04"


def check_text_format(name: str) -> Format:
    """Return the format of a name that a string can have."""
    format = check_format(name)
    if format.is_binary:
        raise DocumentError(f"{name.upper()} is not text: read it with Document.from_file.")
    return format


def check_format(name: str) -> Format:
    """Return the format of a name."""
    if name not in FORMATS:
        raise DocumentError(f"There is no format {name!r}: use one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def format_from_name(name: str) -> str:
    """Return the format of a file name, or "xml" if it depends on the content."""
    path = PurePath(name)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = PurePath(path.stem).suffix.lower()
    if suffix == ".xml":
        return "xml"
    for format in FORMATS.values():
        if suffix in format.suffixes:
            return format.name
    known = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes if suffix)
    raise DocumentError(
        f"{name} ends in {suffix}, which is not a known suffix ({known}, .xml): "
        f"name its format, one of {', '.join(FORMATS)}."
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
    if format in ("text", "json"):
        from foveate.documents.readers.notebook import looks_like_notebook

        if looks_like_notebook(text):
            return "notebook"
    if format == "text":
        from foveate.documents.readers.latex import looks_like_latex
        from foveate.documents.readers.transcript import looks_like_transcript

        if looks_like_latex(text):
            return "latex"
        return "transcript" if looks_like_transcript(text) else "text"
    return format
