"""PDF read with docling, whose models find the parts of a page."""

from io import BytesIO
from typing import Any

from foveate.documents.blocks import ParsedText, compose_text, lift_title
from foveate.documents.readers import markdown
from foveate.documents.structure import DocumentError


def read_with_docling(data: bytes) -> ParsedText:
    """Read a PDF with docling.

    Raises:
        DocumentError: docling cannot read it, or has no models and cannot get them.
        ImportError: docling is not installed.
    """
    try:
        from docling.datamodel.base_models import DocumentStream
        from docling.document_converter import DocumentConverter
    except ImportError as error:
        raise ImportError(
            "Reading PDF with docling needs the extra: pip install 'foveate[docling]'."
        ) from error
    try:
        stream = DocumentStream(name="document.pdf", stream=BytesIO(data))
        converted = DocumentConverter().convert(stream).document
    except Exception as error:  # docling and the libraries of its models raise many types
        raise DocumentError(
            f"cannot be read with docling ({type(error).__name__}): check that its models are "
            "installed (docling-tools models download), or read it without docling."
        ) from error
    return from_docling(converted)


def from_docling(document: Any) -> ParsedText:
    """Read the pages of docling's document, a `docling_core.types.doc.DoclingDocument`."""
    lifted = lift_title(
        [
            block
            for number in sorted(document.pages)
            for block in markdown.read_part(
                document.export_to_markdown(page_no=number), f"page {number}"
            )
        ]
    )
    return compose_text(lifted.title, lifted.blocks)
