"""The order in which the columns and pages of PDFs are read."""

import pytest
from reportlab.lib.utils import simpleSplit

from tests.documents.pdfs import (
    LOREM,
    PITCH,
    WIDTH,
    Writer,
    check_places,
    document_of,
    kinds,
    paper,
    two_columns,
)


def test_columns_are_read_one_after_the_other():
    document = document_of(paper())
    shown = " ".join(sentence.text for sentence in document.sentences())
    order = ["Left one.", "Left two.", "Right one.", "Third column.", "Fourth column."]
    places = [shown.index(words) for words in order]
    assert places == sorted(places)
    assert shown.count(LOREM.split(". ")[0]) == 20
    check_places(document)


def test_what_spans_columns_parts_them():
    writer = Writer()
    two_columns(writer, "Above left. " + LOREM * 2, "Above right. " + LOREM * 2)
    writer.column(54, 330, 504, "Figure 1: A caption over the whole width of the page. " * 2)
    two_columns(writer, "Below left. " + LOREM * 2, "Below right. " + LOREM * 2, y=400)
    writer.page()
    shown = document_of(writer.bytes()).text
    order = ["Above left", "Above right", "Figure 1", "Below left", "Below right"]
    assert sorted(order, key=shown.index) == order


def test_three_columns():
    writer = Writer()
    for number, word in enumerate(["First", "Second", "Third"]):
        writer.column(54 + number * 174, 100, 156, f"{word} column. " + LOREM * 3, last=False)
    writer.page()
    shown = document_of(writer.bytes()).text
    assert shown.index("First") < shown.index("Second") < shown.index("Third")
    assert "ice reached the outer piers" in " ".join(shown.split())


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("gutter", [40, 64, 90, 130])
@pytest.mark.parametrize("shift", [0, 4, 18, 60])
def test_columns_with_wide_gutters(columns, gutter, shift):
    """Two pages on one sheet look like this, too."""
    writer = Writer()
    width = (540 - gutter * (columns - 1)) / columns
    texts = [f"{word} column. " + LOREM for word in ("First", "Second", "Third")[:columns]]
    for number, text in enumerate(texts):
        y = 100 + (shift if number == 1 else 0)
        writer.column(36 + number * (width + gutter), y, width, text)
    writer.page()
    read = kinds(document_of(writer.bytes()))
    assert [kind for kind, _ in read] == ["prose"] * columns
    assert [" ".join(sentences) for _, sentences in read] == [text.strip() for text in texts]


def test_phrases_side_by_side_are_a_table():
    writer = Writer()
    for number in range(8):
        writer.text(54, 100 + number * PITCH, f"Pump number {number} of the mill")
        writer.text(318, 100 + number * PITCH, f"Stone number {number} of the wheel")
    writer.page()
    (table,) = kinds(document_of(writer.bytes()))
    assert table[0] == "table"
    assert table[1][0] == "Pump number 0 of the mill; Stone number 0 of the wheel"


def test_turned_pages_and_watermarks():
    writer = Writer()
    writer.column(72, 100, 400, LOREM)
    writer.canvas.saveState()
    writer.canvas.rotate(60)
    writer.text(300, 500, "DRAFT", size=60)
    writer.canvas.restoreState()
    writer.page()
    writer.canvas.translate(WIDTH, 0)
    writer.canvas.rotate(90)
    writer.text(100, 600, "This table is turned by a quarter.")
    writer.page()
    document = document_of(writer.bytes())
    assert "DRAFT" not in document.text
    assert "This table is turned by a quarter." in document.text
    check_places(document)
    box = document.spans()[-1].boxes[0]
    assert box.bottom - box.top > 3 * (box.right - box.left)


@pytest.mark.parametrize(
    ("step", "count", "x"), [(1, 30, 40), (1, 6, 40), (5, 20, 40), (1, 9, 570), (1, 9, 54)]
)
def test_line_numbers_of_manuscripts_are_left_out(step, count, x):
    """Whether each line or every fifth has a number, and also where the last page has few."""
    writer = Writer()
    number = 0
    for lines in (count, 5):
        for y, line in enumerate(simpleSplit(LOREM * 9, "Times-Roman", 10, 440)[:lines]):
            number += 1
            if number % step == 0:
                writer.text(x, 90 + y * PITCH, str(number), size=8)
            writer.text(72, 90 + y * PITCH, line)
        writer.page()
    assert not any(character.isdigit() for character in document_of(writer.bytes()).text)


@pytest.mark.parametrize("first", [1, 1985])
def test_numbers_of_items_and_rows_stay(first):
    writer = Writer()
    for row in range(14):
        writer.text(50, 90 + row * PITCH, str(first + row))
        writer.text(90, 90 + row * PITCH, "The ice reached the pier")
        writer.text(300, 90 + row * PITCH, f"{row * row} ships")
    writer.page()
    text = document_of(writer.bytes()).text
    assert all(str(first + row) in text for row in range(14))
