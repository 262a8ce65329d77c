"""The titles and authors of PDFs."""

import pytest

from tests.documents.pdfs import LOREM, Writer, document_of


@pytest.mark.parametrize(
    ("named", "title"),
    [("A History of Pilots", "A History of Pilots"), ("Microsoft Word - pilots.doc", "")],
)
def test_title_of_the_metadata_unless_it_is_the_name_of_a_file(named, title):
    writer = Writer()
    writer.canvas.setTitle(named)
    writer.column(72, 100, 440, LOREM)
    writer.page()
    assert document_of(writer.bytes()).title == title


@pytest.mark.parametrize("title", ["Journal of Pilots", "University of Ys: Crest and Logos"])
def test_a_series_is_the_title_if_there_is_no_other(title):
    writer = Writer()
    writer.center(60, title, size=20)
    writer.column(72, 170, 440, LOREM * 2)
    writer.page()
    assert document_of(writer.bytes()).title == title


def test_a_journal_is_the_title_of_its_cover():
    writer = Writer()
    writer.center(60, "Proceedings of the Council of Pilots", size=24)
    writer.center(110, "Ann Lee and Bob Roe", size=16)
    writer.center(135, "Ys, in the year of the ice", size=10)
    writer.page()
    writer.column(72, 170, 440, LOREM * 2)
    writer.page()
    assert document_of(writer.bytes()).title == "Proceedings of the Council of Pilots"


@pytest.mark.parametrize("title", ["R FAQ", "R Internals", "I Robot"])
def test_a_letter_before_the_title_is_no_number(title):
    """The names at the foot of the page are neither the title nor a heading."""
    writer = Writer()
    writer.text(90, 230, title, "Times-Bold", 20.7)
    writer.text(361, 253, "Frequently Asked Questions, Version 2", size=10.9)
    writer.text(90, 666, "The Core Team", "Times-Bold", 14.3)
    writer.text(90, 683, "of the Pilots", "Times-Bold", 14.3)
    writer.page()
    writer.text(72, 80, "1 Introduction", "Times-Bold", 16)
    writer.column(72, 110, 440, LOREM * 4)
    writer.page()
    document = document_of(writer.bytes())
    assert document.title == title
    assert "Core Team" in document.text
    assert [section.title for section in document.sections if section.title] == ["1 Introduction"]


def front_page(author):
    """A paper whose authors are side by side, above its columns, in large type."""
    writer = Writer()
    writer.canvas.setAuthor(author)
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    for x, name in ((60, "Ann Lee"), (324, "Bob Roe")):
        writer.text(x, 115, name, size=12)
        writer.text(x, 130, "1", size=6)
        writer.text(x + 4, 133, "Department of Pilots, University of Ys", "Times-Bold")
    writer.text(54, 180, "Abstract", "Times-Bold", 12)
    writer.column(54, 198, 240, "Left. " + LOREM * 4 + "The measured depth of the chan-")
    writer.column(318, 180, 240, "nel is small. Right. " + LOREM * 4)
    writer.page()
    return document_of(writer.bytes())


def test_the_names_of_authors_are_no_headings():
    writer = Writer()
    writer.canvas.setAuthor("Ann Lee")
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    writer.center(120, "Preface", size=14)
    writer.column(72, 150, 450, LOREM * 4)
    writer.text(72, 320, "Ann Lee", "Times-Bold", 14)
    writer.column(72, 345, 450, LOREM)
    writer.page()
    assert [one.title for one in document_of(writer.bytes()).sections] == ["Preface"]


@pytest.mark.parametrize(
    ("author", "expected"), [("jdoe", ()), ("Lee", ("Lee",)), ("Eve Fox", ("Eve Fox",))]
)
def test_a_user_of_a_computer_is_no_author(author, expected):
    assert front_page(author).authors == expected
