"""Highlights on the pages of a PDF, however the page is turned and cropped."""

import ctypes

import pypdfium2
import pytest
from pypdfium2 import raw

from foveate import Document
from foveate.documents import Paragraph, Section, Sentence
from foveate.tasks.plots import plot_pdf
from tests.documents.layouts import PlacedWord, layout_of

TEXT = "Cod swim. They eat small fish."


def make_pdf(path, rotation):
    """Write a PDF of one page with two lines, which is cropped and rotated."""
    pdf = pypdfium2.PdfDocument.new()
    page = pdf.new_page(400, 300)
    font = raw.FPDFText_LoadStandardFont(pdf, b"Helvetica")
    for line, y in (("Cod swim.", 200), ("They eat small fish.", 150)):
        item = raw.FPDFPageObj_CreateTextObj(pdf, font, 20.0)
        data = f"{line}\0".encode("utf-16-le")
        characters = (ctypes.c_ushort * (len(data) // 2)).from_buffer_copy(data)
        raw.FPDFText_SetText(item, characters)
        raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, 80, y)
        raw.FPDFPage_InsertObject(page, item)
    raw.FPDFPage_GenerateContent(page)
    page.set_cropbox(50, 40, 380, 280)
    page.set_rotation(rotation)
    pdf.save(path)
    pdf.close()


# The second line as displayed: left, top, right and bottom.
PLACES = {
    0: (30.0, 111.1, 202.3, 134.5),
    90: (105.5, 30.0, 128.9, 202.3),
    180: (127.7, 105.5, 300.0, 128.9),
    270: (111.1, 127.7, 134.5, 300.0),
}


def document_of(path, rotation, num_pages=1):
    size = (330, 240) if rotation % 180 == 0 else (240, 330)
    words = [PlacedWord(0, 0, 1, 0, 0, 9, 9), PlacedWord(10, 1, 1, *PLACES[rotation])]
    sentences = (Sentence("Cod swim.", 0, 9), Sentence("They eat small fish.", 10, 30))
    section = Section("", (Paragraph(sentences),))
    layout = layout_of([size] * num_pages, words)
    return Document("Fish", (section,), TEXT, str(path), layout=layout)


@pytest.mark.parametrize("rotation", PLACES)
def test_the_sentence_is_highlighted(tmp_path, rotation):
    make_pdf(tmp_path / "a.pdf", rotation)
    document = document_of(tmp_path / "a.pdf", rotation)
    plot_pdf(document, document.spans()[1:], tmp_path / "b.pdf")

    pdf = pypdfium2.PdfDocument(tmp_path / "b.pdf")
    page = pdf[0]
    assert raw.FPDFPage_GetAnnotCount(page) == 1
    annotation = raw.FPDFPage_GetAnnot(page, 0)
    assert raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_HIGHLIGHT
    assert raw.FPDFAnnot_CountAttachmentPoints(annotation) == 1
    quad = raw.FS_QUADPOINTSF()
    raw.FPDFAnnot_GetAttachmentPoints(annotation, 0, quad)
    xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
    textpage = page.get_textpage()
    found = textpage.get_text_bounded(min(xs), min(ys), max(xs), max(ys))
    assert found == "They eat small fish."
    raw.FPDFPage_CloseAnnot(annotation)
    textpage.close()
    pdf.close()


def test_the_original_is_left_alone(tmp_path):
    make_pdf(tmp_path / "a.pdf", 0)
    before = (tmp_path / "a.pdf").read_bytes()
    document = document_of(tmp_path / "a.pdf", 0)
    plot_pdf(document, document.spans(), tmp_path / "b.pdf")
    assert (tmp_path / "a.pdf").read_bytes() == before
    with pytest.raises(ValueError, match="is the document itself"):
        plot_pdf(document, document.spans(), tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes() == before


def test_what_cannot_be_highlighted(tmp_path):
    make_pdf(tmp_path / "a.pdf", 0)
    document = document_of(tmp_path / "a.pdf", 0)
    with pytest.raises(ValueError, match=r"must end in \.pdf"):
        plot_pdf(document, [], tmp_path / "b.png")
    with pytest.raises(ValueError, match="has no pages to highlight anything on"):
        plot_pdf(Document.from_text(TEXT, source="a.txt"), [], tmp_path / "b.pdf")
    with pytest.raises(ValueError, match="has changed since it was read"):
        plot_pdf(document_of(tmp_path / "a.pdf", 0, num_pages=2), [], tmp_path / "b.pdf")
    (tmp_path / "a.pdf").unlink()
    with pytest.raises(FileNotFoundError, match="highlights need the PDF itself"):
        plot_pdf(document, [], tmp_path / "b.pdf")
    assert list(tmp_path.iterdir()) == []
