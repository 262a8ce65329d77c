"""The words of PDFs: their characters, and hyphens at the ends of lines."""

import numpy as np
import pytest

from foveate.documents.readers.pdf.extraction import Characters, Font, Page
from foveate.documents.readers.pdf.words import read_words
from tests.documents.pdfs import HEIGHT, LOREM, Writer, document_of, letter, paper


def test_quotes_and_dashes():
    words = "The pilot\u2019s \u201cwork\u201d is hard \u2014 often."
    assert document_of(letter(words)).text == words


@pytest.mark.parametrize(
    ("codes", "word"),
    [
        ([0x64, 0x69, 0xFB03, 0x63], "diffic"),
        ([0x64, 0x69, 0x0E, 0x63], "diffic"),  # as TeX encodes it
        ([0x61, 0xF0B7, 0xE123, 0xFFFD], "a\u2022"),
        ([0x61, 0x2010, 0x62], "a-b"),
    ],
)
def test_broken_encodings_are_mended(codes, word):
    count = len(codes)
    lefts = np.arange(count, dtype=np.float32) * 5
    boxes = np.stack([lefts, lefts * 0, lefts + 5, lefts * 0 + 10], axis=1)
    flags = np.zeros(count, np.bool_)
    characters = Characters(
        np.array(codes, np.uint32),
        boxes,
        boxes[:, [0, 3]],
        np.full(count, 10, np.float32),
        np.tile(np.array([[1, 0]], np.float32), (count, 1)),
        np.zeros(count, np.int16),
        flags,
        flags,
    )
    page = Page(1, 612, 792, characters, [Font(False, False, False, False)], False)
    assert read_words(page).texts == [word]


def test_accents_drawn_over_letters():
    writer = Writer()
    writer.text(72, 100, "The caf")
    writer.text(103, 100, "e")
    writer.text(103.4, 100, "\u00b4")
    writer.text(110, 100, "is open to all pilots.")
    writer.page()
    assert document_of(writer.bytes()).text == "The café is open to all pilots."


def test_names_with_several_hyphens():
    document = document_of(letter("The pilots have out-", "of-date charts of the harbour."))
    assert "out-of-date charts" in document.text


def test_web_addresses_at_line_ends():
    document = document_of(
        letter("See https://pilots.example/chart", "s/1890/ys.html for the charts of Ys.")
    )
    assert "https://pilots.example/charts/1890/ys.html for" in document.text


def test_hyphens_at_line_ends():
    document = document_of(
        letter(
            "The well-known pilots meas-",
            "ured the deep channel at noon. A third-",
            "party report and the well-",
            "known council of the East-",
            "West company agreed in 1890-",
            "1893 with the depart-",
            "ment of canals.",
        )
    )
    assert [sentence.text for sentence in document.sentences()] == [
        "The well-known pilots measured the deep channel at noon.",
        "A third-party report and the well-known council of the East-West company agreed in "
        "1890-1893 with the department of canals.",
    ]


@pytest.mark.parametrize(
    "word",
    [
        *("long-term", "X-ray", "t-test", "self-employed", "US-based", "real-time", "well-known"),
        *("decision-making", "3-dimensional", "mid-1990s", "vitamin-A", "infor*mation"),
        *("under*stand", "be*fore", "to*day", "out*put", "over*head", "non*linear", "pota*to"),
    ],
)
def test_hyphens_of_words_stay_and_those_of_lines_go(word):
    first, second = word.replace("*", "-").split("-")
    text = document_of(letter(f"We saw of the {first}-", f"{second} all that there was.")).text
    assert f"the {word.replace('*', '')} all" in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The pre-", "and postwar years were hard for the pilots."),
        ("Los barcos pre-", "y posguerra son los del puerto de la ciudad."),
        ("Det var för-", "och nackdelar med den nya hamnen i staden."),
        ("Statki przed-", "i powojenne nie stoja w porcie naszego miasta."),
        ("Die Ein-", "bzw. Ausfahrt der Schiffe ist im Winter gesperrt."),
    ],
)
def test_hyphens_before_conjunctions_stand_for_the_rest_of_a_word(one, other):
    assert f"{one} {other}" in document_of(letter(one, other)).text


def test_german_compounds():
    document = document_of(
        letter(
            "Die Lotsen haben in diesem Jahr die Tiefe der Fahrrinne gemessen und den Wasser-",
            "stand aufgeschrieben. Die Ein- und Ausfahrt der Schiffe ist im Winter ge-",
            "sperrt, weil das Eis die Hafenmauer erreicht hat und die Ein-",
            "und Ausgabe der Karten ruht.",
        )
    )
    assert "Wasserstand" in document.text
    assert "gesperrt" in document.text
    assert "Ein- und Ausgabe" in document.text


def test_words_torn_by_columns_are_joined():
    document = document_of(paper())
    assert "The measured depth of the channel is small." in [
        sentence.text for sentence in document.sentences()
    ]


@pytest.mark.parametrize("spaces", [" ", ""])
def test_letters_with_wide_spaces_are_words(spaces):
    writer = Writer()
    for y, words in ((100, "RESULTS OF THE TEST"), (300, "DISCUSSION")):
        shown = words.replace(" ", "  " if spaces else " ")
        shown = spaces.join(shown) if spaces else shown
        writer.canvas.setFont("Times-Bold", 12)
        writer.canvas.drawString(72, HEIGHT - y, shown, charSpace=0 if spaces else 5)
        writer.column(72, y + 20, 440, LOREM)
    writer.page()
    document = document_of(writer.bytes())
    assert document.title == "RESULTS OF THE TEST"
    assert [section.title for section in document.sections] == ["", "DISCUSSION"]


def test_single_letters_of_a_sentence_are_no_word():
    document = document_of(
        letter("The keys A B C D E are worn, and so are x y z w too.", "So it is.")
    )
    assert "A B C D E" in document.text
    assert "x y z w" in document.text
