"""The formats that can be read."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from foveate.documents.structure import DocumentError


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


_ODF = b"mimetypeapplication/vnd.oasis.opendocument."


def _packed(
    name: str, description: str, suffixes: tuple[str, ...], reader: str, member: bytes
) -> Format:
    """Return a format whose files are ZIP archives."""
    return Format(name, description, suffixes, f"office.{reader}", is_binary=True, member=member)


FORMATS = {
    format.name: format
    for format in (
        Format("text", "plain text", ("", ".txt", ".text", ".log"), "plain"),
        Format("markdown", "Markdown", (".md", ".markdown", ".mdown", ".mkd", ".mdx"), "markdown"),
        Format("rst", "reStructuredText", (".rst", ".rest"), "rst"),
        Format("latex", "LaTeX", (".tex", ".latex", ".ltx"), "latex"),
        Format("notebook", "Jupyter notebooks", (".ipynb",), "notebook"),
        Format("html", "web pages", (".html", ".htm", ".xhtml"), "html", declares_encoding=True),
        Format("jats", "JATS articles", (".jats", ".nxml"), "xml.jats", declares_encoding=True),
        Format("tei", "TEI articles and editions", (".tei",), "xml.tei", declares_encoding=True),
        Format("transcript", "transcripts with speakers", (), "speech.transcript"),
        Format("vtt", "WebVTT subtitles", (".vtt",), "speech.subtitles", signature=b"WEBVTT"),
        Format("srt", "SubRip subtitles", (".srt",), "speech.subtitles"),
        Format("json", "meetings, texts and documents that foveate saved", (".json",), "records"),
        Format(
            "pdf",
            "PDF",
            (".pdf",),
            "pdf",
            is_binary=True,
            signature=b"%PDF-",
            options=("engine", "ocr", "ocr_language"),
        ),
        _packed("docx", "Word", (".docx", ".docm", ".dotx"), "docx", b"word/document.xml"),
        _packed("odt", "OpenDocument texts", (".odt", ".ott", ".fodt"), "odt", _ODF + b"text"),
        _packed(
            "odp", "OpenDocument presentations", (".odp", ".fodp"), "odt", _ODF + b"presentation"
        ),
        _packed(
            "pptx", "PowerPoint", (".pptx", ".pptm", ".potx"), "slides", b"ppt/presentation.xml"
        ),
        _packed("xlsx", "Excel", (".xlsx", ".xlsm"), "sheets", b"xl/workbook.xml"),
        _packed(
            "ods", "OpenDocument spreadsheets", (".ods", ".fods"), "odt", _ODF + b"spreadsheet"
        ),
        Format(
            "msg",
            "messages of Outlook",
            (".msg",),
            "office.outlook",
            is_binary=True,
            extra="office",
            requires=("kreuzberg",),
        ),
        Format("rtf", "Rich Text", (".rtf",), "office.rtf", is_binary=True, signature=b"{\\rtf"),
        _packed("epub", "e-books", (".epub",), "epub", b"META-INF/container.xml"),
        Format("email", "e-mail messages", (".eml",), "mail.message", is_binary=True),
        Format(
            "mbox",
            "mailboxes, a document for each thread",
            (".mbox", ".mbx"),
            "mail.mailbox",
            is_binary=True,
            is_collection=True,
        ),
        Format(
            "jsonl",
            "JSON Lines and JSON arrays, a document for each record",
            (".jsonl", ".ndjson"),
            "records",
            is_collection=True,
        ),
        Format(
            "csv",
            "tables of texts, a document for each row",
            (".csv", ".tsv"),
            "csv",
            is_collection=True,
        ),
        Format("zip", "ZIP archives", (".zip",), "archive", is_binary=True, is_collection=True),
        Format("tar", "TAR archives", (".tar",), "archive", is_binary=True, is_collection=True),
    )
}


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
