"""Presentations (PPTX), spreadsheets (XLSX, ODS) and messages (MSG), which kreuzberg converts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from email.utils import format_datetime

from foveate.documents.blocks import Block, Heading, ParsedText, collapse, compose_text
from foveate.documents.metadata import clean_names
from foveate.documents.readers import markdown
from foveate.documents.readers.mail import message
from foveate.documents.readers.office.package import Package
from foveate.documents.recognition import sniff_bytes
from foveate.documents.structure import DocumentError

_TYPES = {
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "msg": "application/vnd.ms-outlook",
}
_OUTLOOK = bytes.fromhex("d0cf11e0a1b11ae1")
_DATE = re.compile(r"^Date: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[+-]\d\d:\d\d)?)$", re.MULTILINE)
_SLIDE = re.compile(r"^\\<\\!-- PAGE (\d+) --\\>$", re.MULTILINE)


def read(data: bytes) -> ParsedText:
    """Read the slides of a presentation, the rows of each sheet, or a message of Outlook.

    Notes of speakers, images and attachments are left out.
    """
    try:
        import kreuzberg
    except ImportError as error:
        raise ImportError(
            "presentations, spreadsheets and messages of Outlook need kreuzberg: run "
            "pip install 'foveate[office]'."
        ) from error
    format = "msg" if data.startswith(_OUTLOOK) else sniff_bytes(None, data)
    if format not in _TYPES:
        raise DocumentError(
            "is no whole presentation, spreadsheet or message: open it and save it again."
        )
    kind = format.upper()
    if format != "msg":
        Package(data, kind)  # which rejects ZIP bombs
    config = kreuzberg.ExtractionConfig(
        output_format="plain" if format == "msg" else "markdown",
        pages=kreuzberg.PageConfig(extract_pages=True, insert_page_markers=True),
        use_cache=False,
    )
    try:
        result = kreuzberg.extract_bytes_sync(data, _TYPES[format], config)
    except Exception as error:  # of types that it does not export
        reason = collapse(error).rstrip(".")
        raise DocumentError(
            f"cannot be read as {kind} ({reason:.200}): open it and save it again."
        ) from error
    if format == "msg":
        return message.read(_DATE.sub(_as_in_mail, result.content, 1).encode())
    blocks = list(_slides(result.content) if format == "pptx" else _rows(result.content))
    first = next((block.text for block in blocks if isinstance(block, Heading)), "")
    title = collapse(result.metadata.get("title") or (first if format == "pptx" else ""))
    authors = clean_names(map(str, result.metadata.get("authors") or ()))
    return replace(compose_text(title or None, blocks), authors=authors)


def _as_in_mail(date: re.Match[str]) -> str:
    """Return the field of a date in ISO 8601 as mail has it."""
    return f"Date: {format_datetime(datetime.fromisoformat(date[1]))}"


def _slides(text: str) -> Iterator[Block]:
    before, *parts = _SLIDE.split(text)
    for number, part in zip(["1", *parts[::2]], [before, *parts[1::2]], strict=True):
        yield from markdown.read_part(part, f"slide {number}")


def _rows(text: str) -> Iterator[Block]:
    sheet, row = "", 1  # which holds the names of the columns
    for block in markdown.read_part(text, ""):
        if isinstance(block, Heading):
            sheet, row = collapse(block.text), 1
            yield block
        else:
            row += 1
            yield replace(block, place=f"sheet {sheet}, row {row}")
