"""PDF, converted to Markdown."""

from foveate.documents.blocks import ParsedText
from foveate.documents.readers.docx import convert


def read(data: bytes) -> ParsedText:
    """Read headings and paragraphs."""
    return convert(data, "pdf")
