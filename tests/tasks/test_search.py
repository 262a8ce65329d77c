from dataclasses import replace

import pytest

from foveate import Document
from foveate.tasks.search import search


def test_the_best_comes_first_with_its_place(sea, encoder):
    hits = search("How expensive is fuel for ships?", sea, top=3, encoder=encoder)
    assert hits[0].sentence.text == "Diesel is dear."
    assert hits[0].place.path == ("Boats",)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    start, end = hits[0].sentence.start, hits[0].sentence.end
    assert sea.text[start:end] == hits[0].sentence.text


def test_many_documents_are_searched_at_once(sea, encoder):
    tax = replace(Document.from_text("Taxes are due in May."), title="Tax", source="tax.txt")
    hits = search("When do I pay taxes?", [sea, tax], top=2, encoder=encoder)
    assert (hits[0].document, hits[0].source, hits[0].title) == (1, "tax.txt", "Tax")
    assert hits[1].document == 0


def test_equal_scores_keep_the_order_of_the_documents(encoder):
    document = Document.from_sections("", [("A", ["Cod swim.", "Cod swim."])])
    hits = search("cod", [document, document], top=3, encoder=encoder)
    assert [(hit.document, hit.place.index) for hit in hits] == [(0, 0), (0, 1), (1, 0)]


def test_there_are_no_more_hits_than_sentences(encoder):
    assert len(search("cod", Document.from_text("Cod swim."), encoder=encoder)) == 1


@pytest.mark.parametrize(
    ("query", "documents", "top", "message"),
    [
        ("  ", None, 5, "the query is empty"),
        ("cod", [], 5, "no document to search"),
        ("cod", None, 0, "top must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_searched_is_said(sea, query, documents, top, message):
    with pytest.raises(ValueError, match=message):
        search(query, sea if documents is None else documents, top=top)
