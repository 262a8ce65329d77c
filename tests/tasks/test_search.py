from dataclasses import replace

import pytest

from foveate import Document
from foveate.tasks.search import search


def test_the_best_comes_first_with_its_place(sea, encoder):
    hits = search("How expensive is fuel for ships?", sea, top_k=3, model=encoder)
    assert hits[0].span.text == "Diesel is dear."
    assert hits[0].span.path == ("Boats",)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    start, end = hits[0].span.start, hits[0].span.end
    assert sea.text[start:end] == hits[0].span.text


def test_many_documents_are_searched_at_once(sea, encoder):
    tax = replace(Document.from_text("Taxes are due in May."), title="Tax", source="tax.txt")
    hits = search("When do I pay taxes?", [sea, tax], top_k=2, model=encoder)
    assert (hits[0].document_idx, hits[0].span.document) == (1, "tax.txt")
    assert hits[1].document_idx == 0


def test_equal_scores_keep_the_order_of_the_documents(encoder):
    document = Document.from_sections("", [("A", ["Cod swim.", "Cod swim."])])
    hits = search("cod", [document, document], top_k=3, model=encoder)
    assert [(hit.document_idx, hit.span.start) for hit in hits] == [(0, 3), (0, 13), (1, 3)]


def test_there_are_no_more_hits_than_sentences(encoder):
    assert len(search("cod", Document.from_text("Cod swim."), model=encoder)) == 1


@pytest.mark.parametrize(
    ("query", "documents", "top_k", "message"),
    [
        ("  ", None, 5, "the query is empty"),
        ("cod", [], 5, "no document to search"),
        ("cod", None, 0, "top_k must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_searched_is_said(sea, query, documents, top_k, message):
    with pytest.raises(ValueError, match=message):
        search(query, sea if documents is None else documents, top_k=top_k)
