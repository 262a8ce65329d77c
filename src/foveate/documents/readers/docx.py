"""Word documents (DOCX), converted to Markdown."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from foveate.documents.archives import check_archive
from foveate.documents.blocks import ParsedText
from foveate.documents.readers import markdown
from foveate.documents.structure import DocumentError


def read(data: bytes) -> ParsedText:
    """Read headings and paragraphs."""
    check_archive(data, "DOCX")
    return convert(data, "docx")


def convert(data: bytes, format: str) -> ParsedText:
    """Convert PDF or DOCX to Markdown, and read that."""
    try:
        from markitdown import StreamInfo
        from markitdown.converters import DocxConverter, PdfConverter
    except ImportError as error:
        raise ImportError(
            f"Reading {format.upper()} needs markitdown: pip install 'foveate[office]'."
        ) from error
    converters: dict[str, Any] = {"docx": DocxConverter, "pdf": PdfConverter}
    try:
        with _quiet():
            # MarkItDown itself would try other converters on failure, and read junk as text.
            info = StreamInfo(extension=f".{format}")
            text: str = converters[format]().convert(BytesIO(data), info).markdown
    except Exception as error:  # the libraries raise many types on damaged files
        raise DocumentError(
            f"cannot be read as {format.upper()} ({type(error).__name__}): "
            "check that it is one, or open it and save it again."
        ) from error
    if not text.strip():
        raise DocumentError(
            "has no text: if its pages are pictures, as in a scan, run character recognition "
            "(OCR) on it first."
        )
    parsed = markdown.read(text)
    return ParsedText(parsed.title, parsed.blocks, text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the libraries' warnings and log messages."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
