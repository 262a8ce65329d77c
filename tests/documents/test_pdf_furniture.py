"""What PDFs have around their text: running heads, page numbers and tables of contents."""

import pytest

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
