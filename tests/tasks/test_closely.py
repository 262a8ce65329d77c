"""Coarse, then close."""

import pytest

from foveate import Document, ask, context
from foveate.tasks import closely
from foveate.tasks.search import search

FILLER = "The harbour was quiet that year, and nothing that anyone remembers happened in it."
ANSWER = "Cod are caught with nets of fine twine."


@pytest.fixture
def book(monkeypatch):
    """A book of which two parts in forty are read at first."""
    monkeypatch.setattr(closely, "WHOLE", 2_000)
    monkeypatch.setattr(closely, "PARTS", 2)
    return Document.from_sections("The harbour", chapters())


def chapters():
    found = [(f"Chapter {i}", [f"{FILLER} It was year {i}."] * 8) for i in range(40)]
    found[17] = ("Chapter 17", [FILLER, ANSWER, FILLER])
    return found


def test_only_what_the_query_points_at_is_read(book, encoder):
    [hit] = search("How are cod caught?", book, top_k=1, model=encoder)
    assert hit.best.text == ANSWER
    assert 0 < closely.share_read([book], encoder) < 0.3

    [again] = search("How are cod caught?", book, top_k=1, model=encoder, thorough=True)
    assert closely.share_read([book], encoder) == 1
    assert again.best == hit.best


def test_all_hits_have_been_read(book, encoder):
    books = [
        book,
        Document.from_sections("Another", chapters()),
    ]
    for hit in search("How are cod caught?", books, top_k=3, model=encoder):
        vectors = encoder.known(books)[hit.document_idx]
        starts = [span.start for span in books[hit.document_idx].spans()]
        assert vectors.read[starts.index(hit.best.start)]


def test_what_a_query_names_is_read(book, encoder):
    permit = ("Chapter 40", [FILLER, "The permit is no. 4711-X.", FILLER])
    named = Document.from_sections("The harbour", [*chapters(), permit])
    [hit] = search("4711-X", named, top_k=1, model=encoder)
    assert "4711-X" in hit.best.text


def test_questions_and_prompts_read_closely_as_well(book, encoder):
    assert ask("How are cod caught?", book, model=encoder).passages[0].best.text == ANSWER
    assert closely.share_read([book], encoder) < 0.5
    encoder.forget(book)
    assert ANSWER in context("How are cod caught?", book, tokens=200, model=encoder).text
    assert closely.share_read([book], encoder) < 1


def test_short_documents_are_read_as_a_whole(sea, encoder):
    search("Is diesel expensive?", sea, model=encoder)
    assert closely.share_read([sea], encoder) == 1
