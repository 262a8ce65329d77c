"""PDF, read with PDFium."""

import threading
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.documents import DocumentError
from foveate.documents.readers.pdf import read
from tests.documents.pdfs import (
    HEIGHT,
    Writer,
    check_places,
    document_of,
    handmade,
    letter,
    paper,
    shown,
    stream,
)


class TestFailures:
    def test_damaged(self):
        content = paper()
        random = Random(7)
        for _ in range(60):
            damaged = bytearray(content[: random.randrange(len(content))])
            for _ in range(random.randrange(20)):
                if damaged:
                    damaged[random.randrange(len(damaged))] = random.randrange(256)
            try:
                check_places(document_of(bytes(damaged), format="pdf"))
            except DocumentError as error:
                assert str(error).startswith("paper.pdf ")  # noqa: PT017

    def test_encrypted(self):
        writer = Writer(encrypt="secret")
        writer.text(72, 100, "Hidden.")
        writer.page()
        with pytest.raises(DocumentError, match=r"paper\.pdf is protected by a password: remove"):
            document_of(writer.bytes())

    def test_empty(self):
        with pytest.raises(DocumentError, match=r"paper\.pdf has no text: its pages are empty"):
            document_of(letter())

    def test_unknown_engine(self):
        with pytest.raises(DocumentError, match="use 'pdfium' or 'docling'"):
            document_of(letter("Words."), engine="acrobat")

    def test_threads(self):
        content = paper()
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(read(content).text)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [read(content).text] * 4


def test_files_are_opened_again(monkeypatch):
    data = paper()
    whole = document_of(data)
    monkeypatch.setattr("foveate.documents.readers.pdf._BATCH", 1)
    assert document_of(data) == whole


@given(
    lines=st.lists(
        st.tuples(
            st.integers(0, 500),
            st.integers(20, HEIGHT - 10),
            st.sampled_from(["Words.", "Of the", "1 Ships", "\u2022 x", "3", "y = 2", "[1] Lee"]),
            st.sampled_from(["Times-Roman", "Times-Bold", "Courier"]),
            st.sampled_from([6, 10, 10, 18]),
        ),
        max_size=40,
    )
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_page_has_its_places(lines):
    writer = Writer()
    for line in lines:
        writer.text(*line)
    writer.page()
    try:
        document = document_of(writer.bytes())
    except DocumentError:
        return
    check_places(document)


def test_pages_have_the_numbers_that_are_printed_on_them():
    labels = "/PageLabels<</Nums[0<</S/r/St 12>>1<</S/D/P(A-)>>]>>"
    pages = {
        "_2": "<</Type/Pages/Kids[3 0 R 6 0 R]/Count 2/MediaBox[0 0 400 300]>>",
        "_6": "<</Type/Page/Parent 2 0 R/Contents 7 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        "_7": stream(shown(200, "The oven needs four hours.")),
    }
    first = shown(200, "The mill stands by the river.")
    document = document_of(handmade(first, catalog=labels, **pages))
    assert [(span.page, span.place) for span in document.spans()] == [
        (1, "page xii"),
        (2, "page A-1"),
    ]
    plain = document_of(handmade(first, **pages))
    assert [span.place for span in plain.spans()] == ["page 1", "page 2"]
