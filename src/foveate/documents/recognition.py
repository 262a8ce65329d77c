"""Recognition of a file's format by its name, its first bytes and its text."""

import re
from contextlib import suppress
from io import BytesIO
from pathlib import PurePath
from zipfile import ZipFile

from foveate.documents.compression import strip_suffix
from foveate.documents.formats import FORMATS
from foveate.documents.structure import DocumentError

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second one is empty
_FIRST_NAME = 30  # offset in a ZIP archive of its first member's name, which content may follow
_PACKED_HEAD = 4096  # bytes, by which a damaged archive is recognized
_TAR, _TAR_OFFSET = b"ustar", 257
_MBOX = re.compile(rb"From [^\n]*\d\d:\d\d[^\n]*\r?\n[!-9;-~]+:")
_HEADERS = re.compile(rb"(?:[!-9;-~]+:[^\n]*\n(?:[ \t]+\S[^\n]*\n)*)+\r?\n")
_SENDER = re.compile(rb"^From:", re.MULTILINE | re.IGNORECASE)
_TNEF = bytes.fromhex("789f3e22")
_SENT = re.compile(rb"^(?:Date|Received|Message-ID|MIME-Version):", re.MULTILINE | re.IGNORECASE)
_MAX_HEADERS = 2**16  # bytes
_CUE = re.compile(r"\s*\d+[ \t]*\n[ \t]*\d+:\d\d:\d\d(?:[,.]\d+)?[ \t]*-->")
_HTML = re.compile(r"\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_XML = re.compile(r"\s*<\?xml\b")
_JSON_ARRAY = re.compile(r"\s*\[")
_JSON = re.compile(r"\s*\{\s*\"[^\"\n]*\"\s*:")
_JSON_LINES = re.compile(r"\s*(?:\[\s*\{|\{[^\n]*\}[ \t\r]*\n\s*\{)\s*\"[^\"\n]*\"\s*:")
_MANUAL = re.compile(r"(?=[.'])(?:.*\n)*?\.(?:TH|Dd) (?:.*\n)*?\.S[Hh] ")  # a page in troff
_MANUAL_HEAD = 20_000  # characters
_SAMPLE = 200_000  # characters that decide whether a text is a transcript


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
        Name of the format; None if neither name nor bytes identify it, as with plain text.
    """
    if format not in (None, "xml", "zip") and FORMATS[format].is_binary:
        return format
    if data.startswith(_TNEF):
        raise DocumentError(
            "is a winmail.dat, in which Outlook packs what it sends: open the message in Outlook "
            "and save it as .msg or .eml."
        )
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
    """Recognize the format by the text if the name does not determine it."""
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
    if _MANUAL.match(text[:_MANUAL_HEAD]):
        raise DocumentError(
            "is a manual page with the macros of troff: write it as text with "
            "`man -l FILE | col -bx > FILE.txt`."
        )
    if text.startswith("WEBVTT"):  # after a byte order mark
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
    from foveate.documents.readers.speech.transcript import looks_like_transcript

    if looks_like_latex(text):
        return "latex"
    sample = text if len(text) <= _SAMPLE else text[: text.rfind("\n", 0, _SAMPLE) + 1]
    return "transcript" if looks_like_transcript(sample) else "text"
