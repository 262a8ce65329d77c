from dataclasses import replace

import pytest

from foveate import Document
from foveate.documents import Paragraph, Section, Sentence
from foveate.tasks.search import search


def test_the_best_comes_first_with_its_place(sea, encoder):
    hits = search("Is diesel expensive?", sea, top_k=3, model=encoder)
    assert hits[0].best.text == "Diesel is dear."
    assert "Diesel is dear." in hits[0].span.text
    assert hits[0].quoted == hits[0].span
    assert hits[0].span.path == ("Boats",)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert sea.text[hit.best.start : hit.best.end] == hit.best.text
        assert sea.text[hit.span.start : hit.span.end].split() == hit.span.text.split()


def test_neighbours_that_rank_together_are_one_hit(encoder):
    swim = [f"Cod number {i} swims." for i in range(7)]
    document = Document.from_sections("", [("A", swim), ("B", ["A cod swims, too."])])
    hits = search("Which cod swims?", document, top_k=9, model=encoder)
    assert sum(hit.span.text.count("swims") for hit in hits) == 8  # none is in two of them
    assert max(hit.span.text.count("swims") for hit in hits) == 5
    assert [hit.span.path for hit in hits].count(("B",)) == 1


def test_many_documents_are_searched_at_once(sea, encoder):
    tax = replace(Document.from_text("Taxes are due in May."), title="Tax", source="tax.txt")
    hits = search("When do I pay taxes?", [sea, tax], top_k=2, model=encoder)
    assert (hits[0].document_idx, hits[0].span.document) == (1, "tax.txt")
    assert hits[1].document_idx == 0


def test_equal_scores_keep_the_order_of_the_documents(encoder):
    document = Document.from_sections("", [("A", ["Cod swim."]), ("B", ["Eels are long."])])
    hits = search("swimming cod", [document, document, document], top_k=9, model=encoder)
    found = [(hit.document_idx, hit.span.text) for hit in hits]
    assert found == [(idx, text) for text in ("Cod swim.", "Eels are long.") for idx in range(3)]


def test_there_are_no_more_hits_than_sentences(encoder):
    assert len(search("cod", Document.from_text("Cod swim."), model=encoder)) == 1


def test_sections_are_found_with_their_best_sentence(sea, encoder):
    hits = search("Is diesel expensive?", sea, by="section", top_k=2, model=encoder)
    boats = hits[0]
    assert (boats.span.text, boats.span.path) == ("Boats", ("Boats",))
    assert boats.best.text == "Diesel is dear."
    assert boats.quoted == boats.best
    text = sea.text[boats.span.start : boats.span.end]
    assert text.startswith("Trawlers drag")
    assert text.endswith("The harbour is small.")
    assert boats.score > hits[1].score


def test_a_section_of_subsections_is_found_by_its_heading(encoder):
    parts = [("Fish", "", [("A", "Cod swim."), ("B", "Eels are long.")]), ("Salt", "It is white.")]
    document = Document.from_sections("", parts)
    hits = search("fish", document, by="section", top_k=9, model=encoder)
    assert sorted(hit.span.text for hit in hits) == ["A", "B", "Fish", "Salt"]
    [fish] = [hit for hit in hits if hit.span.text == "Fish"]
    assert fish.best.text in ("Cod swim.", "Eels are long.")
    assert fish.span.end == document.section_spans()[2].end
    assert hits.index(fish) < [hit.span.text for hit in hits].index("Salt")


def test_sections_without_sentences_are_not_found(encoder):
    cod = Section("Cod", (Paragraph((Sentence("Cod swim.", 0, 9),)),))
    document = Document("Fish", (Section("Eel", ()), cod, Section("Ray", ())), "Cod swim.")
    [hit] = search("rays and eels", document, by="section", model=encoder)
    assert (hit.span.text, hit.best.text) == ("Cod", "Cod swim.")


def test_documents_are_found_by_each_sentence_of_the_query(sea, encoder):
    fish_alone = "Cod hunt herring. Herring are small fish. Eels are long fish. Fish have gills."
    other = Document.from_sections("Fish", [("", fish_alone)])
    query = "What do fish eat? How do boats catch them? What does fuel cost?"
    hits = search(query, [other, sea], by="document", model=encoder)
    assert [(hit.document_idx, hit.span.text, hit.span.path) for hit in hits] == [
        (1, "Fish of the sea", ()),
        (0, "Fish", ()),
    ]
    sentences = list(sea.sentences())
    assert (hits[0].span.start, hits[0].span.end) == (sentences[0].start, sentences[-1].end)
    assert hits[0].best in sea.spans()


@pytest.mark.parametrize("by", ["passage", "section", "document"])
def test_without_common_words_scores_do_not_depend_on_other_documents(sea, encoder, by):
    other = Document.from_text("Gardens. Gardeners plant roses where frost is rare.")
    alone = search("chilly", sea, by=by, top_k=99, model=encoder)
    among = search("chilly", [other, sea], by=by, top_k=99, model=encoder)
    scores = {(hit.span.start, hit.span.path): hit.score for hit in alone}
    assert scores == {
        (hit.span.start, hit.span.path): hit.score for hit in among if hit.document_idx
    }


@pytest.mark.parametrize(
    ("query", "documents", "top_k", "message"),
    [
        ("  ", None, 5, "the query is empty"),
        ("cod \udcff", None, 5, r"the query has the character U\+DCFF at 4, which is not text"),
        ("cod", [], 5, "no document to search"),
        ("cod", None, 0, "top_k must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_searched_is_said(sea, query, documents, top_k, message):
    with pytest.raises(ValueError, match=message):
        search(query, sea if documents is None else documents, top_k=top_k)


def test_other_units_cannot_be_found(sea):
    message = "by must be 'passage', 'section' or 'document', got 'page'"
    with pytest.raises(ValueError, match=message):
        search("cod", sea, by="page")
