from functools import partial

import pytest
from questions import (
    Chunks,
    Found,
    among,
    by_vectors,
    by_words,
    chunks,
    compare,
    exact,
    flaws,
    in_search,
    keep_vectors,
    measure,
    phrases,
    tables,
    within,
)
from retrieval import PAGE
from retrieval_measures import OWN

from foveate import Document, Encoder
from foveate.data import Query


@pytest.fixture(scope="module")
def systems():
    encoder = keep_vectors(Encoder.from_pretrained(device="cpu"))
    own = dict(zip(OWN, (partial(by_vectors, encoder), partial(in_search, encoder)), strict=True))
    return {"BM25": by_words, "MiniLM, chunks": Chunks(encoder).find} | own


@pytest.fixture(scope="module")
def asked():
    sea = "Cod swim in the cold sea. They eat herring.\n\nEels are long, and cross the ocean once."
    salt = "Salt comes out of mines near Wieliczka.\n\nIt is white."
    return [
        (
            Document.from_sections(title, [("", text)], language="en"),
            [Query(question, (sentence,))],
        )
        for title, text, question, sentence in (
            ("Sea", sea, "How often do eels cross the ocean?", 2),
            ("Salt", salt, "Where do mines for salt lie?", 0),
        )
    ]


def test_an_answer_is_held_by_the_passage_of_its_own_document():
    found = [Found(1, range(0, 3), 0), Found(0, range(2, 5), 2), Found(1, range(4, 6), None)]
    assert measure(found, 1, [2]) == (True, True, False)
    assert measure(found, 1, [0, 9]) == (True, True, True)
    assert measure(found, 0, [2]) == (False, True, False)
    assert measure(found, 0, [0]) == (False, False, False)


def test_chunks_end_where_paragraphs_do_and_are_as_long_as_passages():
    short = " ".join(f"Cod number {i} swims." for i in range(7))
    long = " ".join(f"This is {'very ' * 50}cold sea number {i}." for i in range(3))
    document = Document.from_sections("", [("", f"{short}\n\n{long}")], language="en")
    assert [*chunks(document)] == [
        range(0, 5),
        range(5, 7),
        *(range(i, i + 1) for i in range(7, 10)),
    ]


def test_all_systems_find_answers(asked, systems):
    for ask in (within, among):
        found = compare({"A": asked, "B": asked[:1]}, systems, ask)
        assert [its["queries"] for its in found.values()] == [2, 1, 3]
        assert found["all sets"]["documents"] == 3
        for one in found["all sets"]["systems"].values():
            assert one["all"]["hit@5"]["mean"] == 100
        assert found["A"]["best sentence"]["foveate, fused"] == 100
        assert "MiniLM, chunks" not in found["A"]["best sentence"]


def test_sentences_that_differ_in_a_number_are_alike():
    [(document, queries)] = flaws()
    texts = [sentence.text for sentence in document.sentences()]
    assert len(texts) == len({*texts}) == 40
    assert len(queries) == 120
    for query in queries:
        number = query.text.upper().partition("CVE-")[2].rstrip("?")
        assert number in texts[query.sentence_ids[0]]


def test_phrases_occur_once(asked):
    [(document, queries), *_] = phrases(asked)
    texts = [sentence.text for sentence in document.sentences()]
    assert queries
    for query in queries:
        [i] = query.sentence_ids
        assert [query.text.strip('"') in text for text in texts] == [j == i for j in range(3)]


def test_the_page_has_a_place_for_every_table(asked, systems):
    found = {"SQuAD": asked}
    results = {
        "within": compare(found, systems, within),
        "among": compare(found, systems, among),
        "exact": exact(asked, {"BM25": by_words}),
    }
    assert results["exact"]["flaws"]["systems"]["BM25"] == 100
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table: {name} -->\n\n" in text for name in tables(results))
