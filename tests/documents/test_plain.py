"""Plain text: what is a heading, and what is not."""

import pytest

from foveate.documents import Document


def headings(text):
    return [" > ".join(path) for path, _ in Document.from_text(text).walk()]


def test_books_and_chapters():
    text = (
        "A Novel\n\nBOOK ONE: 1805\n\nCHAPTER I\n\nText one.\n\nCHAPTER II\n\nText two.\n\n"
        "Book Two\n\nChapter 1. Of Things\nand More\n\nText three.\n\nEPILOGUE\n\nText four."
    )
    assert Document.from_text(text).title == "A Novel"
    assert headings(text) == [
        "BOOK ONE: 1805",
        "BOOK ONE: 1805 > CHAPTER I",
        "BOOK ONE: 1805 > CHAPTER II",
        "Book Two",
        "Book Two > Chapter 1. Of Things and More",
        "EPILOGUE",
    ]


def test_numbered_headings():
    text = (
        "Abstract\n\nText.\n\n1 Introduction\n\nText.\n\n2 Methods\n\n2.1 Data\n\nText.\n\n"
        "2.1.1 More Data\n\nText.\n\n2.2 Model\n\nText.\n\n3. Results\n\nText.\n\n"
        "References\n\nText."
    )
    assert headings(text) == [
        "Abstract",
        "1 Introduction",
        "2 Methods",
        "2 Methods > 2.1 Data",
        "2 Methods > 2.1 Data > 2.1.1 More Data",
        "2 Methods > 2.2 Model",
        "3. Results",
        "References",
    ]


def test_underlined_headings():
    text = "Report\n======\n\nLead.\n\nOne\n---\nText.\n\nTwo\n---\n\nText.\n"
    assert headings(text) == ["", "One", "Two"]
    assert Document.from_text(text).title == "Report"


def test_capitals():
    text = "RIGHTS OF WAY\n\nText.\n\nDUTIES\n\nText."
    assert headings(text) == ["RIGHTS OF WAY", "DUTIES"]


@pytest.mark.parametrize(
    "text",
    [
        "The end of\nCHAPTER I\nis near.",
        "Part of it was good.\n\nChapter and verse.",
        "1. Buy milk\n\n2. Buy bread\n\n3. Rest",
        "3 Men in a Boat\n\nText.\n\n7 Days Later\n\nText.",
        "1 It is.\n\nText.\n\n2 It was.\n\nText.",
        "CONFIDENTIAL\n\nText.\n\nCONFIDENTIAL\n\nText.\n\nCONFIDENTIAL\n\nText.",
        "“STOP!”\n\nText.\n\nHe said:\n\nUSA",
        "* * *\n\nText.\n\n-----\n\nText.",
    ],
)
def test_what_only_looks_like_a_heading(text):
    assert headings(text) == [""]


CHAPTERS = "CHAPTER I. Before\n\nText.\n\nCHAPTER II. After\n\nText.\n\nCHAPTER III. Now\n\nText."


@pytest.mark.parametrize(
    "contents",
    [
        "CONTENTS\n\nCHAPTER I. Before\n\nCHAPTER II. After\n\nCHAPTER III. Now\n\n",
        "Contents\n\nCHAPTER I. Before .... 1\nCHAPTER II. After .... 9\nCHAPTER III. Now  17\n\n",
        "CHAPTER I. Before\n\nCHAPTER II. After\n\nCHAPTER III. Now\n\n",
    ],
    ids=["announced", "with pages", "unannounced"],
)
def test_a_table_of_contents_is_left_out(contents):
    document = Document.from_text(contents + CHAPTERS)
    assert [section.title for section in document.sections] == [
        "CHAPTER I. Before",
        "CHAPTER II. After",
        "CHAPTER III. Now",
    ]
    assert sum(1 for _ in document.sentences()) == 3


def test_spans_point_into_the_text_as_it_is(in_source):
    document = Document.from_text("  One\r\n  two. Three.\r\n\r\n\tFour.")
    assert in_source(document) == ["One\r\n  two.", "Three.", "Four."]


def test_contents_without_matching_headings_hide_no_text():
    text = (
        "Contents\n\nCHAPTER I\n\nA line.\n\nCHAPTER II\n\nA line more.\n\nCHAPTER III\n\nThe end."
    )
    assert headings(text) == ["", "CHAPTER I", "CHAPTER II", "CHAPTER III"]
