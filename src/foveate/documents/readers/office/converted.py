"""Presentations (PPTX) and spreadsheets (XLSX, ODS), which kreuzberg converts to Markdown."""

import re
from collections.abc import Iterator
from dataclasses import replace

from foveate.documents.blocks import Block, Heading, ParsedText, Prose, collapse, compose_text
from foveate.documents.metadata import clean_names
from foveate.documents.readers import markdown
from foveate.documents.readers.office.package import Package
from foveate.documents.recognition import sniff_bytes
from foveate.documents.structure import DocumentError

_TYPES = {
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
}
_SLIDE = re.compile(r"^\\<\\!-- PAGE (\d+) --\\>$", re.MULTILINE)
_BEFORE = "# A title\n\n"  # so that no heading becomes the title


def read(data: bytes) -> ParsedText:
    """Read the slides of a presentation, or the rows of each sheet, with their places.

    Notes of speakers and images are left out.
    """
    try:
        import kreuzberg
    except ImportError as error:
        raise ImportError(
            "presentations and spreadsheets need kreuzberg: run pip install 'foveate[office]'."
        ) from error
    format = sniff_bytes(None, data)
    if format not in _TYPES:
        raise DocumentError("is no whole presentation or spreadsheet: open it and save it again.")
    kind = format.upper()
    Package(data, kind)  # which rejects ZIP bombs
    config = kreuzberg.ExtractionConfig(
        output_format="markdown",
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
    blocks = list(_slides(result.content) if format == "pptx" else _rows(result.content))
    first = next((block.text for block in blocks if isinstance(block, Heading)), "")
    title = collapse(result.metadata.get("title") or (first if format == "pptx" else ""))
    authors = clean_names(map(str, result.metadata.get("authors") or ()))
    return replace(compose_text(title or None, blocks), authors=authors)


def _slides(text: str) -> Iterator[Block]:
    before, *parts = _SLIDE.split(text)
    for number, part in zip(["1", *parts[::2]], [before, *parts[1::2]], strict=True):
        for block in markdown.read(_BEFORE + part).blocks:
            yield replace(block, place=f"slide {number}") if isinstance(block, Prose) else block


def _rows(text: str) -> Iterator[Block]:
    sheet, row = "", 1  # which holds the names of the columns
    for block in markdown.read(_BEFORE + text).blocks:
        if isinstance(block, Heading):
            sheet, row = collapse(block.text), 1
            yield block
        else:
            row += 1
            yield replace(block, place=f"sheet {sheet}, row {row}")
