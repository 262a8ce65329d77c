"""Headings that are numbers alone."""

import time

import pytest

from foveate import Document
from foveate.documents.blocks import Heading, MappedText, Prose
from foveate.documents.numbering import mark_lone_numbers

OPINION = [
    "The question is whether a carrier may limit its liability.",
    "I",
    "A",
    "Petitioner shipped goods from Boston.",
    "B",
    "They were lost at sea.",
    "II",
    "The statute says that the carrier is liable.",
    "A",
    "1",
    "That language is plain.",
    "2",
    "So is its purpose.",
    "III",
    "The judgment is reversed.",
]
HEADINGS = ["", "I > A", "I > B", "II", "II > A > 1", "II > A > 2", "III"]


def headings(document):
    return list(dict.fromkeys(" > ".join(span.path) for span in document.spans()))


@pytest.mark.parametrize("stop", ["", "."])
@pytest.mark.parametrize("indent", [0, 35])
def test_in_plain_text(indent, stop):
    lines = [line if line[-1] == "." else " " * indent + line + stop for line in OPINION]
    document = Document.from_text("\n\n".join(lines))
    assert [path.replace(".", "") for path in headings(document)] == HEADINGS


def test_in_web_pages_below_a_heading():
    page = "<h1>Doe v. Acme</h1><h2>Opinion</h2>" + "".join(
        f"<p align=center>{line}</p>" for line in OPINION
    )
    assert headings(Document.from_text(page, format="html")) == [
        f"Opinion > {path}".removesuffix(" > ") for path in HEADINGS
    ]


def test_numbers_begin_again_in_another_opinion():
    lines = [*OPINION, "I", "With respect, I dissent.", "II", "The carrier is not liable."]
    document = Document.from_text("\n\n".join(lines))
    assert headings(document) == [*HEADINGS, "I"]
    assert [section.title for section in document.sections] == ["", "I", "II", "III", "I", "II"]


@pytest.mark.parametrize(
    "lines",
    [
        ["A", "The first.", "B", "The second.", "C", "The third."],  # panels of a figure
        ["I", "II", "III", "IV", "These are the classes of the table, as it was printed."],
        ["I", "It is a pronoun.", "V", "It is a sign for volts.", "X", "It is unknown."],
        ["Text.", "1", "Text of a page.", "2", "Text of another page.", "3", "Text."],
        ["I", "Text.", "II"],
    ],
)
def test_other_numbers_alone_are_text(lines):
    assert headings(Document.from_text("\n\n".join(lines))) == [""]


def test_numbers_that_keep_beginning_again_are_text():
    text = "The sum is taken over all members of the set."
    lines = ["I", text, "I", text, "I", text, "A", text, "I", text]
    assert headings(Document.from_text("\n\n".join(lines))) == [""]


def test_what_speakers_say_is_no_number():
    said = [*["I.", "That is where we began with the question."] * 2, "II.", "And there we end it."]
    turns = [Prose(MappedText.from_text(text), speaker="Ann") for text in said]
    assert mark_lone_numbers(list(turns)) == turns


def test_time_is_linear_in_the_numbers():
    texts = ["I", "The first of two.", "II", "The second of two."] * 8000
    blocks = [Prose(MappedText.from_text(text)) for text in texts]
    start = time.process_time()
    assert sum(isinstance(block, Heading) for block in mark_lone_numbers(blocks)) == 16_000
    assert time.process_time() - start < 1
