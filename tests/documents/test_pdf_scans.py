"""PDFs whose pages are pictures, read with Tesseract or RapidOCR."""

import sys
from importlib.util import find_spec
from shutil import which

import pytest

from foveate.documents import DocumentError
from foveate.documents.readers.pdf.scans import parse_table
from tests.documents.pdfs import HEIGHT, WIDTH, Writer, document_of


def scan(words):
    """A page that is a picture of words."""
    from PIL import Image, ImageDraw, ImageFont
    from reportlab.lib.utils import ImageReader

    picture = Image.new("L", (1275, 1650), 255)
    draw = ImageDraw.Draw(picture)
    draw.text((150, 200), words, fill=0, font=ImageFont.load_default(36))
    writer = Writer()
    writer.canvas.drawImage(ImageReader(picture), 0, 0, WIDTH, HEIGHT)
    return writer


def test_scans_among_pages_with_text_give_a_warning():
    writer = scan("Pilots measure the channel.")
    writer.page()
    writer.text(72, 100, "A page with text of its own.")
    writer.page()
    with pytest.warns(UserWarning, match="^1 of the 2 pages is a picture without text"):
        document = document_of(writer.bytes())
    assert [span.page for span in document.spans()] == [2]


def test_scans_are_refused_if_they_are_not_to_be_recognized():
    writer = scan("Pilots measure the channel.")
    writer.page()
    with pytest.raises(DocumentError, match="its only page is a picture, as from a scanner; re"):
        document_of(writer.bytes())


def test_without_a_recognizer(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    writer = scan("Pilots measure the channel.")
    writer.page()
    with pytest.raises(DocumentError, match="RapidOCR: install one of them"):
        document_of(writer.bytes(), ocr=True)


def test_tables_of_tesseract():
    names = "level page_num block_num par_num line_num word_num left top width height conf text"
    rows = [names.split()]
    words = [("Pilots", 100, 200, 1), ("measure.", 300, 200, 1), ("Slowly.", 100, 260, 2)]
    for word, left, top, line in words:
        rows.append([5, 1, 1, 1, line, 1, left, top, 150, 40, 96, word])
    table = "\n".join("\t".join(map(str, row)) for row in rows)
    first, second = parse_table(table)
    assert [word for word, _ in first] == ["Pilots", "measure."]
    assert second == [("Slowly.", [100, 260, 250, 300])]


@pytest.mark.parametrize("engine", ["tesseract", "rapidocr"])
def test_scans_are_read(engine, monkeypatch):
    if not (which(engine) or find_spec(engine)):
        pytest.skip(f"{engine} is not installed")
    if engine == "rapidocr":
        monkeypatch.setenv("PATH", "")
    writer = scan("Pilots measure the channel.\nThey do so in May.")
    writer.page()
    writer.text(72, 100, "A page with text of its own.")
    writer.page()
    document = document_of(writer.bytes(), ocr=True)
    assert [sentence.text for sentence in document.sentences()] == [
        "Pilots measure the channel.",
        "They do so in May.",
        "A page with text of its own.",
    ]
    box = document.spans()[0].boxes[0]
    assert 60 < box.left < 90
    assert 90 < box.top < 120
