"""What PDFs have around their text: running heads, page numbers and tables of contents."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate import Document
from foveate.documents.readers.pdf import furniture
from tests.documents.pdfs import LOREM, PITCH, Writer, document_of


@pytest.fixture
def book():
    writer = Writer()
    for number in range(1, 9):
        if number % 2:
            writer.text(72, 40, f"{number}   A HISTORY OF PILOTS", size=9)
        else:
            writer.text(400, 40, f"THE SECOND CHAPTER   {number}", size=9)
        writer.center(760, "Printed in Ys, 1893", font="Times-Italic", size=8)
        writer.column(72, 80, 440, f"Page {number} begins. " + LOREM * 9)
        writer.page()
    return document_of(writer.bytes())


def test_running_heads_are_left_out(book):
    assert "HISTORY" not in book.text
    assert "SECOND CHAPTER" not in book.text
    assert "1893" not in book.text


def test_what_is_left_out_is_noted(book):
    assert len(book.left_out) == 16
    assert {*book.left_out} >= {"Printed in Ys, 1893", "1 A HISTORY OF PILOTS"}
    assert Document.from_dict(book.to_dict()).left_out == book.left_out


def test_text_stays(book):
    assert [f"Page {n} begins." in book.text for n in range(1, 9)] == [True] * 8
    assert book.text.count("The harbour was closed") == 72


def test_page_numbers_are_left_out():
    writer = Writer()
    for number in range(1, 6):
        writer.column(72, 80, 440, LOREM * (number + 2))
        writer.center(750, f"- {number + 10} -", font="Times-Roman")
        writer.page()
    document = document_of(writer.bytes())
    assert not any(str(number + 10) in document.text for number in range(1, 6))


def test_two_pages_alike_keep_their_text():
    writer = Writer()
    for number in (1, 2):
        writer.column(72, 80, 440, f"Letter {number}. " + LOREM * 2)
        writer.page()
    assert document_of(writer.bytes()).text.count("The harbour was closed") == 4


EDGES = st.sampled_from(
    [
        *("Mill of Lund", "Page {page}", "- {page} -", "Chapter on pilots     {page}", "{page}"),
        *("Invoice {page}", "Number {far}", "Total due: {far} crowns", "{far} crowns", "{far}"),
        *(
            "Paid on {page} May.",
            "Of the {far} mills, none is left.",
            "Account 77-{far}",
            "{far}|A",
        ),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(EDGES, min_size=5, max_size=5), min_size=1, max_size=4), st.booleans())
def test_no_word_that_stands_once_is_lost(sheets, is_first_alone):
    """Whatever stands at the edges, only numbers of pages are lost that nothing else shows."""
    writer = Writer()
    written = Counter()
    for page in range(1, 7):
        rows = sheets[0] if page == 1 and is_first_alone else sheets[page % len(sheets)]
        for y, row in zip((40, 60, 100, 740, 765), rows, strict=True):
            line = row.format(page=page, far=page * page * 37 + 400)
            writer.text(72, y, line)
            written.update(line.replace("|", " ").split())
        writer.column(72, 130, 440, "The middle is text. " + LOREM)
        writer.page()
    text = document_of(writer.bytes()).text
    once = {word for word, count in written.items() if count == 1}
    assert {word for word in once if word not in text} <= set("123456")


@pytest.mark.parametrize(
    ("label", "foot"), [("Invoice", "Page {}"), ("Invoice", "{}"), ("Invoice No.", "")]
)
def test_numbers_that_count_like_pages_stay(label, foot):
    writer = Writer()
    for page in range(1, 6):
        writer.text(72, 50, label)
        writer.text(400, 50, str(2040 + page))
        writer.column(72, 100, 440, LOREM)
        writer.text(72, 770, foot.format(page))
        writer.page()
    text = document_of(writer.bytes()).text
    assert all(str(2040 + page) in text for page in range(1, 6))
    assert "Page" not in text


def test_a_head_of_three_cells_above_its_rows_stays():
    writer = Writer()
    for page in range(3):
        for row in range(9):
            cells = ("Date", "Sum", "Place") if not row else (f"{page}{row} May", f"9{row}", "Ys")
            for x, cell in zip((72, 200, 330), cells, strict=True):
                writer.text(x, 50 + 18 * row, cell)
        writer.page()
    assert document_of(writer.bytes()).text.count("Date") >= 1


def test_prices_after_leaders_are_no_contents():
    writer = Writer()
    for number, price in enumerate((12, 7, 30, 4, 18)):
        writer.text(72, 100 + number * PITCH, f"Fish of sort {number} . . . . . . . . {price}")
    writer.page()
    assert "sort 3 . . . . . . . . 4" in document_of(writer.bytes()).text


@pytest.mark.parametrize("letter", ["\u0130", "\u0131"])
def test_letters_of_turkish_are_no_page_numbers(letter):
    assert furniture._ONLY_NUMBER.fullmatch(letter) is None


def test_contents_are_left_out():
    writer = Writer()
    writer.text(72, 80, "Contents", "Times-Bold", 14)
    for number in range(1, 9):
        writer.text(72, 100 + number * PITCH, f"{number} Chapter on pilots . . . . . . {number}")
    writer.page()
    writer.text(72, 80, "1 Pilots", "Times-Bold", 14)
    writer.column(72, 100, 440, LOREM * 3)
    writer.page()
    document = document_of(writer.bytes())
    assert [section.title for section in document.sections] == ["1 Pilots"]
    assert ". . ." not in document.text


def test_contents_that_go_on_without_leaders_are_left_out():
    writer = Writer()
    for number in range(1, 9):
        writer.text(72, 100 + number * PITCH, f"{number} Chapter on pilots . . . . . . {number}")
    writer.page()
    for number, entry in ((9, "IX Tides"), (10, "X Index")):
        writer.text(72, number * 20, entry, "Times-Bold", 12)
        writer.text(500, number * 20, str(number), "Times-Bold", 12)
    writer.page()
    writer.text(72, 80, "Report of 1890", "Times-Bold", 14)
    writer.column(72, 100, 440, LOREM * 3)
    writer.page()
    document = document_of(writer.bytes())
    assert document.title == "Report of 1890"
    assert document.text.startswith("Report of 1890")


def contract():
    """Pages without heads that begin with a short line, after contents without leaders."""
    writer = Writer()
    writer.center(100, "CONTENTS")
    for number, entry in enumerate(("1. Term", "2. Fees", "3. Duties", "Schedule 1"), 2):
        writer.text(72, 92 + 18 * number, entry)
        writer.text(500, 92 + 18 * number, str(number))
    writer.page()
    starts = ("(c) keep the keys;", "The rest follows.", "2. The fee is due.", "Schedule 1")
    for number, start in enumerate(starts, 2):
        y = writer.column(72, 100, 450, start, "Times-Bold" if "Sch" in start else "Times-Roman")
        for _ in range(6):
            y = writer.column(72, y + 8, 450, LOREM)
        writer.text(72, 770, f"Page {number} of 5", size=8)
        writer.page()
    return writer.bytes()


def test_the_first_lines_of_pages_without_heads_are_read():
    document = document_of(contract())
    firsts = [sentence.text for sentence in document.sentences()]
    assert {"(c) keep the keys;", "The rest follows.", "2. The fee is due."} <= set(firsts)
    assert [section.title for section in document.sections][-1] == "Schedule 1"
