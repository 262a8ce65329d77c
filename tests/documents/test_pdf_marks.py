"""Raised and lowered marks belong to their lines, and exponents are told from marks of notes."""

import pytest
from reportlab.pdfbase.pdfmetrics import stringWidth

from tests.documents.pdfs import LOREM, Writer, document_of


def line(*parts, size=10):
    """A page with one line of parts, each with its rise and its size, above a paragraph."""
    writer = Writer()
    x = 72.0
    for words, rise, part_size in parts:
        writer.text(x, 100 - rise, words, size=part_size)
        x += stringWidth(words, "Times-Roman", part_size)
    writer.column(72, 124, 440, LOREM)
    writer.page()
    text = " ".join(sentence.text for sentence in document_of(writer.bytes()).sentences())
    return text.split(" The harbour")[0]


@pytest.mark.parametrize("rise", [3, 4, 5, 6, 8])
@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_exponents(rise, size):
    text = line(
        ("The load is 10", 0, 10),
        ("3", rise, size),
        (" newtons per m", 0, 10),
        ("2", rise, size),
        (" at 10", 0, 10),
        ("-5", rise, size),
        (" Pa.", 0, 10),
    )
    assert text == "The load is 10^3 newtons per m^2 at 10^-5 Pa."


def test_exponents_of_the_same_size():
    parts = ("The load is 10", 0, 10), ("3", 5, 10), (" newtons.", 0, 10)
    assert line(*parts) == "The load is 10^3 newtons."


def test_indices():
    parts = ("We add x", 0, 10), ("1", -2, 6), (" to x", 0, 10), ("n", -2, 6), ("2", 4, 6)
    assert line(*parts, (" here.", 0, 10)) == "We add x_1 to x_n^2 here."


def test_ordinals_and_abbreviations_are_plain():
    parts = ("The 2", 0, 10), ("nd", 3, 6), (" pump of M", 0, 10), ("me", 3, 6), (" Roe.", 0, 10)
    assert line(*parts) == "The 2nd pump of Mme Roe."


@pytest.mark.parametrize("mark", ["1", "12", "3,4", "7–9", "*", "†", "a"])
def test_marks_of_notes_and_references_leave_the_text(mark):
    parts = ("As shown", 0, 10), (mark, 3, 6), (", it was sold in 1987.", 0, 10)
    assert line(*parts, (mark, 3, 6)) == "As shown, it was sold in 1987."


def test_marks_that_are_written_after_all_lines():
    writer = Writer()
    writer.text(72, 100, "The load is 10")
    end = 72 + stringWidth("The load is 10", "Times-Roman", 10)
    writer.text(end + 5.5, 100, "N per m")
    last = end + 5.5 + stringWidth("N per m", "Times-Roman", 10)
    writer.text(last + 5.5, 100, "in all.")
    writer.text(end, 96, "3", size=6)
    writer.text(last, 96, "2", size=6)
    writer.column(72, 124, 440, LOREM)
    writer.page()
    text = " ".join(sentence.text for sentence in document_of(writer.bytes()).sentences())
    assert text.startswith("The load is 10^3 N per m^2 in all.")
