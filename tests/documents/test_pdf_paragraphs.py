"""The paragraphs of PDFs and their kinds, such as items, footnotes and tables."""

from reportlab.pdfbase.pdfmetrics import stringWidth

from tests.documents.pdfs import (
    HEIGHT,
    LOREM,
    PITCH,
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
