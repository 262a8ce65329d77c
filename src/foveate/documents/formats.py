"""The formats that can be read, and how to recognize them."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import PurePath
from typing import Any
from zipfile import ZipFile

from foveate.documents.compression import strip_suffix
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
        is_collection: Whether a file holds several documents. The reader then has a function
            `split` in place of `read`, which takes the same and yields each `Member`.
        declares_encoding: Whether a file may declare the encoding of its text.
        signature: The bytes with which its files begin, if these tell the format.
        member: Bytes that tell the format within a ZIP archive, such as the name of a member.
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
        Format("vtt", "WebVTT subtitles", (".vtt",), "subtitles", signature=b"WEBVTT"),
        Format("srt", "SubRip subtitles", (".srt",), "subtitles"),
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
        Format(
            "docx",
            "Word",
            (".docx", ".docm", ".dotx"),
            "docx",
            is_binary=True,
            member=b"word/document.xml",
        ),
        Format(
            "odt",
            "OpenDocument texts",
            (".odt", ".ott", ".fodt"),
            "odt",
            is_binary=True,
            member=b"mimetypeapplication/vnd.oasis.opendocument.text",
        ),
        Format("rtf", "Rich Text", (".rtf",), "rtf", is_binary=True, signature=b"{\\rtf"),
        Format(
            "epub",
            "e-books",
            (".epub",),
            "epub",
            is_binary=True,
            member=b"META-INF/container.xml",
        ),
        Format("email", "e-mail messages", (".eml",), "mail", is_binary=True),
        Format(
            "mbox",
            "mailboxes, a document for each thread",
            (".mbox", ".mbx"),
            "mailbox",
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
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second one is empty
_FIRST_NAME = 30  # offset in a ZIP archive of its first member's name, which content may follow
_PACKED_HEAD = 4096  # bytes, by which a damaged archive is recognized
_TAR, _TAR_OFFSET = b"ustar", 257
_MBOX = re.compile(rb"From [^\n]*\d\d:\d\d[^\n]*\r?\n[!-9;-~]+:")
_HEADERS = re.compile(rb"(?:[!-9;-~]+:[^\n]*\n(?:[ \t]+\S[^\n]*\n)*)+\r?\n")
_SENDER = re.compile(rb"^From:", re.MULTILINE | re.IGNORECASE)
_SENT = re.compile(rb"^(?:Date|Received|Message-ID|MIME-Version):", re.MULTILINE | re.IGNORECASE)
_MAX_HEADERS = 2**16  # bytes
_CUE = re.compile(r"\s*\d+[ \t]*\n[ \t]*\d+:\d\d:\d\d[,.]\d+[ \t]*-->")
_HTML = re.compile(r"\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_XML = re.compile(r"\s*<\?xml\b")
_JSON_ARRAY = re.compile(r"\s*\[")
_JSON = re.compile(r"\s*\{\s*\"[^\"\n]*\"\s*:")
_JSON_LINES = re.compile(r"\s*(?:\[\s*\{|\{[^\n]*\}[ \t\r]*\n\s*\{)\s*\"[^\"\n]*\"\s*:")
_SAMPLE = 200_000  # characters that decide whether a text is a transcript


def check_text_format(name: str) -> Format:
    """Return the format of a name that a string can have."""
    format = check_format(name)
    if format.is_collection:
        raise DocumentError(f"{name.upper()} holds several documents: use read_documents.")
    if format.is_binary:
        raise DocumentError(f"{name.upper()} is not text: read it with Document.from_file.")
    return format


def check_format(name: str) -> Format:
    """Return the format of a name."""
    if name not in FORMATS:
        raise DocumentError(f"There is no format {name!r}: use one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def format_from_name(name: str) -> str | None:
    """Return the format of a file name.

    Returns:
        Name of the format; "xml" if it depends on the content; None if the suffix is unknown.
    """
    suffix = PurePath(strip_suffix(name)).suffix.lower()
    if suffix == ".xml":
        return "xml"
    return next((format.name for format in FORMATS.values() if suffix in format.suffixes), None)


def sniff_bytes(format: str | None, data: bytes) -> str | None:
    """Recognize a format by the first bytes, and a ZIP archive by what it holds.

    Args:
        format: Name of the format that the file's name suggests; None if its suffix is unknown.
        data: The content.

    Returns:
        Name of the format; None if neither name nor bytes tell it, as with plain text.
    """
    if format not in (None, "xml", "zip") and FORMATS[format].is_binary:
        return format
    for candidate in FORMATS.values():
        if candidate.signature and data.startswith(candidate.signature):
            return candidate.name
    if data.startswith(_ZIP):
        return _packed_format(data) or ("zip" if format else None)
    if data.startswith(_TAR, _TAR_OFFSET):
        return "tar"
    if format in (None, "text"):
        if _MBOX.match(data):
            return "mbox"
        headers = _HEADERS.match(data[:_MAX_HEADERS])
        if headers and _SENDER.search(headers[0]) and _SENT.search(headers[0]):
            return "email"
    return format


def _packed_format(data: bytes) -> str | None:
    """Return the format whose files are ZIP archives that hold certain members."""
    try:
        with ZipFile(BytesIO(data)) as archive:
            names = [name.encode() for name in archive.namelist()]
    except Exception:  # damaged, or the beginning of an archive alone
        names = []
    for format in FORMATS.values():
        if format.member and (
            format.member in names
            or data.startswith(format.member, _FIRST_NAME)
            or (not names and format.member in data[:_PACKED_HEAD])
        ):
            return format.name
    return None


def sniff(format: str | None, text: str) -> str:
    """Recognize the format by the text if the name leaves a choice."""
    if format == "xml":
        from foveate.documents.readers.xml import format_of_root

        return format_of_root(text)
    if format in (None, "text", "json"):
        from foveate.documents.readers.notebook import looks_like_notebook

        if looks_like_notebook(text):
            return "notebook"
    if format == "json":
        return "jsonl" if _JSON_ARRAY.match(text) else "json"
    if format is None or format == "text":
        return _sniff_text(text)
    return format


def _sniff_text(text: str) -> str:
    if text.startswith("WEBVTT"):  # behind a byte order mark
        return "vtt"
    if _CUE.match(text):
        return "srt"
    if _HTML.match(text):
        return "html"
    if _XML.match(text):
        from foveate.documents.readers.xml import format_of_root

        with suppress(DocumentError):  # of another root: plain text
            return format_of_root(text)
    if _JSON_LINES.match(text):
        return "jsonl"
    if _JSON.match(text):
        return "json"
    from foveate.documents.readers.latex import looks_like_latex
    from foveate.documents.readers.transcript import looks_like_transcript

    if looks_like_latex(text):
        return "latex"
    sample = text if len(text) <= _SAMPLE else text[: text.rfind("\n", 0, _SAMPLE) + 1]
    return "transcript" if looks_like_transcript(sample) else "text"
