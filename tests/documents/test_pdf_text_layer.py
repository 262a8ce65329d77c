"""The words of a page where they stand on it."""

import pytest
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont

from foveate.documents.readers.pdf.extraction import opened
from foveate.documents.readers.pdf.text_layer import read_text_layer
from tests.documents.pdfs import LOREM, PITCH, Writer


def read(writer, text="", max_words=1000, replaced=(b"", b"")):
    with opened(writer.bytes().replace(*replaced)) as document:
        return read_text_layer(document, 0, text, "en", max_words)


def written(layer):
    """Return what one copies from each column."""
    return [
        "".join("".join(word for word, _, _ in line.words) + line.end for line in column)
        for column in layer.columns
    ]


def test_columns_in_the_order_of_reading():
    writer = Writer()
    for x in (60, 320):
        writer.column(x, 100, 230, 2 * LOREM)
    layer = read(writer)
    assert [text.strip() for text in written(layer)] == [(2 * LOREM).strip()] * 2
    for column in layer.columns:
        tops = [line.top for line in column]
        assert tops == sorted(tops)
        for line in column:
            assert line.size == 10
            assert line.bottom - line.top == pytest.approx(10, abs=3)
            edges = [edge for _, left, right in line.words for edge in (left, right)]
            assert edges == sorted(edges)


def test_paragraphs_headings_and_code_end_lines():
    writer = Writer()
    writer.text(60, 80, "Harbours", "Times-Bold", 16)
    y = writer.column(60, 100, 300, LOREM)
    y = writer.column(60, y, 300, LOREM)
    wide = "if the_channel_is_dredged and the_pilots_agree: open()"
    for number in range(3):
        writer.text(60, y + 8 + PITCH * number, wide, "Courier", 9)
    [text] = written(read(writer))
    paragraph = LOREM.strip()
    assert text.split("\n") == ["Harbours", paragraph, paragraph, wide, wide, wide, ""]


@pytest.mark.parametrize(
    ("read_before", "joined"),
    [("", "recover"), ("They recover soon.", "recover"), ("To re-cover a chair.", "re-cover")],
)
def test_divided_words_are_joined_as_in_the_document(read_before, joined):
    writer = Writer()
    writer.text(60, 100, "All who were on board hoped that the crew would re-")
    writer.text(60, 112, "cover what was lost in the storm, although it was late.")
    layer = read(writer, read_before)
    assert f"would {joined} what" in written(layer)[0]
    assert layer.columns[0][0].end == ""


def test_unreadable_words_have_no_letters():
    writer = Writer(pageCompression=0)
    writer.text(60, 100, "All who were on board hoped that the crew would soon re-")
    writer.text(60, 112, "~~ cover what was lost in the storm.")
    [text] = written(read(writer, replaced=(b"~~", b"\3\3")))
    assert text.endswith("would soon re-\n cover what was lost in the storm.\n")


def test_chinese_has_no_spaces():
    registerFont(UnicodeCIDFont("STSong-Light"))
    writer = Writer()
    writer.text(60, 100, "港口在冬天关闭，因为冰到达了外码头，船不能通过。", "STSong-Light")
    assert written(read(writer)) == ["港口在冬天关闭，因为冰到达了外码头，船不能通过。\n"]


def test_turned_words_are_turned_back():
    writer = Writer()
    writer.canvas.translate(612, 0)
    writer.canvas.rotate(90)
    writer.canvas.drawString(100, 500, "The harbour was closed.")  # of a page 792 points wide
    layer = read(writer)
    assert layer.quarter_turns == 3
    [[line]] = layer.columns
    assert line.words[0][:2] == ("The ", pytest.approx(100, abs=1))
    assert line.top < 612 - 500 < line.bottom


def test_the_rest_of_a_page_of_too_many_words_is_left_out():
    writer = Writer()
    writer.column(60, 100, 300, LOREM)
    [text] = written(read(writer, max_words=20))
    assert 10 < len(text.split()) <= 20
    assert LOREM.startswith(text.strip())


def test_an_empty_page():
    writer = Writer()
    writer.page()
    assert read(writer).columns == []
