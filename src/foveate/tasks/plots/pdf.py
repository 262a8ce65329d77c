"""Results highlighted on the pages of the PDF that they were found in."""

from collections.abc import Sequence
from ctypes import c_double
from os import PathLike
from pathlib import Path

import pypdfium2
from pypdfium2 import raw

from foveate.documents import Box, Document, Span
from foveate.documents.decoding import load
from foveate.files import atomic_write, check_writable

_COLOUR = 255, 221, 51, 255
"""Red, green, blue and opacity. Viewers multiply a highlight with the text under it."""

_PIXELS_PER_POINT = 100
"""PDFium converts positions in whole pixels, so pages are taken to have many."""


def check_pdf(document: Document, path: str | PathLike[str]) -> None:
    """Check, before any work is done, that `plot_pdf` can write a copy of a document's PDF.

    Raises:
        ValueError: See `plot_pdf`.
        OSError: See `plot_pdf`.
    """
    if Path(path).suffix.lower() != ".pdf":
        raise ValueError(f"{path} must end in .pdf")
    check_writable(path)
    if document.layout is None:
        raise ValueError(f"{document.name} has no pages to highlight anything on: give a PDF")
    source = Path(document.source or "")
    if not source.is_file():
        raise FileNotFoundError(
            f"{document.name or 'the document'} is not a file: highlights need the PDF itself"
        )
    if Path(path).resolve() == source.resolve():
        raise ValueError(f"{path} is the document itself: name another file to write")


def plot_pdf(document: Document, spans: Sequence[Span], path: str | PathLike[str]) -> None:
    """Write a copy of a document's PDF in which spans are highlighted.

    Highlights are annotations, as a reader of the PDF would make them: viewers list them, and they
    can be removed again. Each has a note with the number of its span.

    Args:
        document: A document that was read from a PDF file, which is still there.
        spans: Places in the document, in the order in which to number them.
        path: The PDF to write; not the document's own file.

    Raises:
        ValueError: The path does not end in `.pdf` or is the document's file, the document has no
            pages, or its file has changed.
        OSError: The document's file is gone, or the PDF cannot be written.
    """
    check_pdf(document, path)
    source, layout = document.source, document.layout
    assert source is not None
    assert layout is not None
    pdf = pypdfium2.PdfDocument(load(source, "pdf", None).content)
    try:
        if len(pdf) != len(layout.page_sizes):
            raise ValueError(f"{source} has changed since it was read: read it again")
        for number, span in enumerate(spans, 1):
            for page in sorted({box.page for box in span.boxes}):
                boxes = [box for box in span.boxes if box.page == page]
                _highlight(pdf[page - 1], boxes, f"{number} of {len(spans)}")
        with atomic_write(path) as temporary:
            pdf.save(temporary)
    finally:
        pdf.close()


def _highlight(page: pypdfium2.PdfPage, boxes: Sequence[Box], note: str) -> None:
    """Add one annotation with a quadrilateral for each box."""
    quadrilaterals = [_quadrilateral(page, box) for box in boxes]
    horizontal = [x for quad in quadrilaterals for x in (quad.x1, quad.x2, quad.x3, quad.x4)]
    vertical = [y for quad in quadrilaterals for y in (quad.y1, quad.y2, quad.y3, quad.y4)]
    around = raw.FS_RECTF(min(horizontal), max(vertical), max(horizontal), min(vertical))
    annotation = raw.FPDFPage_CreateAnnot(page, raw.FPDF_ANNOT_HIGHLIGHT)
    try:
        raw.FPDFAnnot_SetColor(annotation, raw.FPDFANNOT_COLORTYPE_Color, *_COLOUR)
        raw.FPDFAnnot_SetRect(annotation, around)
        raw.FPDFAnnot_SetFlags(annotation, raw.FPDF_ANNOT_FLAG_PRINT)
        for quadrilateral in quadrilaterals:
            raw.FPDFAnnot_AppendAttachmentPoints(annotation, quadrilateral)
        raw.FPDFAnnot_SetStringValue(annotation, b"Contents", _wide_string(note))
    finally:
        raw.FPDFPage_CloseAnnot(annotation)


def _quadrilateral(page: pypdfium2.PdfPage, box: Box) -> raw.FS_QUADPOINTSF:
    """Return the corners of a box: upper left, upper right, lower left, lower right."""
    corners = [(x, y) for y in (box.top, box.bottom) for x in (box.left, box.right)]
    return raw.FS_QUADPOINTSF(*(value for x, y in corners for value in _to_page(page, x, y)))


def _to_page(page: pypdfium2.PdfPage, x: float, y: float) -> tuple[float, float]:
    """Convert a position on the page as displayed, which may be cropped and rotated, to PDF's."""
    width, height, x, y = (round(_PIXELS_PER_POINT * value) for value in (*page.get_size(), x, y))
    page_x, page_y = c_double(), c_double()
    raw.FPDF_DeviceToPage(page, 0, 0, width, height, 0, x, y, page_x, page_y)
    return page_x.value, page_y.value


def _wide_string(text: str) -> raw.FPDF_WIDESTRING:
    """Return a string as PDFium takes it: UTF-16 with a final zero."""
    data = f"{text}\0".encode("utf-16-le")
    units = [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]
    return (raw.FPDF_WCHAR * len(units))(*units)
