"""The paragraphs of PDFs and their kinds, such as items, footnotes and tables."""

import pytest
from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth

from tests.documents.pdfs import (
    HEIGHT,
    LOREM,
    PITCH,
    WIDTH,
    Writer,
    check_places,
    document_of,
    kinds,
    texts,
)


def test_items_that_begin_with_code():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM) + 6
    for name, rest in [("open(path,", ""), ("close()", "closes the file.")]:
        writer.text(82, y, "•")
        writer.text(92, y, name, "Courier")
        writer.text(97 + stringWidth(name, "Courier", 10), y, rest)
        y += PITCH
    writer.page()
    items = texts(document_of(writer.bytes()), "item")
    assert items == ["open(path,", "close() closes the file."]


def test_stretched_lines_are_no_table():
    writer = Writer()
    y = writer.column(72, 100, 240, LOREM) + 6
    for words in ["wholesale removal of", "harbour regulations in", "northern countries which"]:
        room = 240 - stringWidth(words, "Times-Roman", 10)
        writer.canvas.setFont("Times-Roman", 10)
        writer.canvas.drawString(72, HEIGHT - y, words, wordSpace=room / 2)
        y += PITCH
    writer.text(72, y, "failed.")
    writer.page()
    document = document_of(writer.bytes())
    assert not texts(document, "table")
    assert "wholesale removal of harbour regulations in northern" in document.text


def test_no_space_is_left_where_the_mark_of_a_footnote_stood():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM * 2)
    start = "The pilots measured the channel of the harbour"
    writer.text(72, y, start)
    line = writer.canvas.beginText(72, HEIGHT - y)
    for words, size, rise in [(start, 10, 0), ("1", 7, 3), (".", 10, 0)]:
        line.setFont("Times-Roman", size)
        line.setRise(rise)
        line.textOut(words)
    writer.canvas.drawText(line)
    writer.text(72, 720, "1", size=5)
    writer.text(78, 722, "It is the channel of Ys, in the north.", size=8)
    writer.page()
    assert "channel of the harbour." in document_of(writer.bytes()).text


def test_paragraphs_by_indentation():
    writer = Writer()
    y = writer.column(72, 100, 300, "One begins. " + LOREM)
    y = writer.column(72, y, 300, "Two begins. " + LOREM, indent=5)
    writer.column(72, y, 300, "Three begins. " + LOREM, indent=5)
    writer.page()
    paragraphs = [sentences[0] for _, sentences in kinds(document_of(writer.bytes()))]
    assert paragraphs == ["One begins.", "Two begins.", "Three begins."]


def test_items():
    writer = Writer()
    y = writer.column(72, 100, 440, "There are three: " + LOREM)
    for number, item in enumerate(["pilots of the harbour,", "ships;", "canals."]):
        writer.text(80, y + 4, "\u2022" if number < 2 else "-")
        writer.text(92, y + 4, item)
        y += PITCH
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "item") == ["pilots of the harbour,", "ships;", "canals."]


def test_footnotes_are_apart_and_their_marks_left_out():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM * 3)
    writer.text(72, y, "Pilots swim")
    writer.text(119, y - 4, "1", size=6)
    writer.text(123, y, "in the cold sea and do not")
    writer.text(72, 700, "1", size=6)
    writer.text(76, 704, "Not all of them.", size=8)
    writer.page()
    writer.text(72, 100, "complain. " + "Then they rest.")
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "footnote") == ["Not all of them."]
    assert "Pilots swim in the cold sea and do not complain." in texts(document, "prose")


def test_captions():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM)
    writer.text(72, y + 150, "Figure 3: The channel in spring.", size=9)
    writer.column(72, y + 180, 440, LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "caption") == ["Figure 3: The channel in spring."]


def test_references():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM)
    writer.text(72, y + 20, "References", "Times-Bold", 12)
    y += 40
    for number in (1, 2):
        for line in [f"[{number}] A. Lee. On pilots. Journal of", "Canals, 3(1), 1893."]:
            writer.text(72 if line.startswith("[") else 86, y, line)
            y += PITCH
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "reference") == [
        "[1] A. Lee. On pilots. Journal of Canals, 3(1), 1893.",
        "[2] A. Lee. On pilots. Journal of Canals, 3(1), 1893.",
    ]


def test_formulas_do_not_end_sentences():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM * 2 + "The depth is given by", last=True)
    writer.center(y + 10, "d = (a + b) / c - 2 = 0", font="Times-Italic")
    writer.column(72, y + 34, 440, "where c is the speed of the ice. " + LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert "The depth is given by where c is the speed of the ice." in texts(document, "prose")
    assert texts(document, "formula") == ["d = (a + b) / c - 2 = 0"]


def test_items_that_are_joined_by_or():
    writer = Writer()
    y = writer.column(72, 100, 300, "Either of them may end this agreement at once if the other:")
    breach = "(a) commits a breach that is not mended within thirty (30) days of notice; or"
    y = writer.column(72, y, stringWidth(breach, "Times-Roman", 10) + 5, breach)
    writer.column(72, y, 300, "(B) ceases to carry on business.")
    assert texts(document_of(writer.bytes()), "item") == [
        breach,
        "(B) ceases to carry on business.",
    ]


def test_rows_of_tables_have_their_heads():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM)
    rows = [("Item", "Price", "Stock"), ("Support", "450", "12"), ("Rope", "3", "200")]
    rows.append(("Tar", "17", "41"))
    for number, row in enumerate(rows):
        for x, cell in zip((90, 220, 330), row, strict=True):
            writer.text(x, y + 20, cell, "Times-Roman" if number else "Times-Bold")
        y += 14
    writer.column(72, y + 40, 440, LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "table") == [
        "Item: Support; Price: 450; Stock: 12",
        "Item: Rope; Price: 3; Stock: 200",
        "Item: Tar; Price: 17; Stock: 41",
    ]
    check_places(document)


@pytest.mark.parametrize(
    ("cap", "rest"), [("T", "he"), ("T", "HE"), ("“W", "hen the"), ("A", "long")]
)
@pytest.mark.parametrize("is_last", [False, True])
def test_drop_caps_belong_to_their_paragraph(cap, rest, is_last):
    writer = Writer()
    width = stringWidth(cap, "Times-Roman", 36) + 6
    lines = simpleSplit(f"{rest} pilots left. " + LOREM, "Times-Roman", 10, 440 - width)
    drawn = [(72, 124, cap, "Times-Roman", 36)]
    drawn += [(72 + width, 100 + n * PITCH, line) for n, line in enumerate(lines[:3])]
    for place in reversed(drawn) if is_last else drawn:
        writer.text(*place)
    writer.column(72, 136, 440, " ".join(lines[3:]))
    writer.page()
    ((kind, sentences),) = kinds(document_of(writer.bytes()))
    assert (kind, len(sentences)) == ("prose", 4)
    assert sentences[0] == cap + " " * (cap == "A") + f"{rest} pilots left."


CARE = [
    ("Part", "Interval", "Work"),
    ("Wheel", "12 months", "Grease the axle"),
    ("Stone", "3 months", "Cut the grooves"),
    ("Gate", "24 months", "Paint the boards"),
    ("Roof", "60 months", "Replace the reed|where it leaks"),
]


def write_rows(writer, rows, y, x=72):
    """Write rows, whose cells may have two lines; return where the next one begins."""
    for row in rows:
        font = "Times-Bold" if row == CARE[0] else "Times-Roman"
        for left, cell in zip((x, x + 100, x + 300), row, strict=True):
            for number, line in enumerate(cell.split("|")):
                writer.text(left, y + number * PITCH, line, font)
        y += 18
    return y


def care(rows):
    return [
        f"Part: {part}; Interval: {interval}; Work: {work.replace('|', ' ')}"
        for part, interval, work in rows
    ]


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_table_is_as_wide_as_its_rows_not_as_its_caption(is_turned):
    writer = Writer()
    writer.column(72, 100, 440, "First. " + LOREM)
    writer.page()
    if is_turned:
        writer.canvas.translate(WIDTH, 0)
        writer.canvas.rotate(90)
        writer.canvas.translate(0, WIDTH - HEIGHT)
    writer.text(72, 80, "Table 1: Care of the mill", "Times-Bold", 12)
    write_rows(writer, CARE, 110)
    writer.page()
    writer.column(72, 100, 440, "Last. " + LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "table") == care(CARE[1:])
    assert "Last." in texts(document, "prose")
    check_places(document)


@pytest.mark.parametrize("first", [2, 3, 4])
@pytest.mark.parametrize("has_heads", [False, True])
@pytest.mark.parametrize("shift", [0, 18])
def test_tables_go_on_over_pages(first, has_heads, shift):
    writer = Writer()
    y = writer.column(72, 80, 440, LOREM)
    write_rows(writer, CARE[: first + 1], y + 10)
    writer.page()
    rows = [CARE[0]] * has_heads + CARE[first + 1 :]
    y = write_rows(writer, rows, 80, 72 + shift)
    writer.column(72 + shift, y + 20, 440, "Last. " + LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert texts(document, "table") == care(CARE[1:])
    check_places(document)
