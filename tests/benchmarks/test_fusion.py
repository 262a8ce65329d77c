"""The choice of the weights of search."""

import json
from math import log2

import fusion
import pytest
import torch
from fusion import Judged, choose, judge, measure, named_document, names, simplex
from retrieval import Query

from foveate import Document

VECTORS, WORDS = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)


def judged(relevant, *columns):
    return Judged(torch.tensor(columns).T, torch.tensor(relevant))


def test_weights_sum_to_1():
    grid = simplex(3)
    assert grid.sum(1).tolist() == pytest.approx([1] * len(grid))
    assert len(grid.unique(dim=0)) == len(grid) == 21 * 22 / 2


def test_rankings_are_measured():
    query = judged([False, True, True], [0.9, 0.5, 0.1], [0.0, 0.3, 0.3])
    by_vectors, by_words = measure([query], torch.stack([VECTORS, WORDS]))[0].T.tolist()
    ideal = 1 + 1 / log2(3)
    assert by_words == pytest.approx([100, 100])
    assert by_vectors == pytest.approx([0, 100 * (1 / log2(3) + 1 / 2) / ideal])


def test_what_helps_on_average_but_loses_somewhere_is_not_chosen():
    words_help = judged([False, True], [0.5, 0.3], [0.0, 0.9])
    words_hurt = judged([False, True], [0.3, 0.5], [0.9, 0.0])
    sets = {"a": [words_help] * 3, "b": [words_help, words_hurt]}
    forms = choose(sets, ("v", "b"))["forms"]
    assert forms["chosen"]["sets"]["a"]["hit@1"] == 100
    assert forms["chosen"]["worst loss"] <= 0
    weights = forms["chosen"]["weights"]
    sets["c, dev"] = [words_hurt]
    assert choose(sets, ("v", "b"))["forms"]["chosen"]["weights"] == weights
    sets["c"] = [words_hurt] * 2
    forms = choose(sets, ("v", "b"))["forms"]
    assert forms["chosen"]["weights"] == [0.85, 0.15]
    assert forms["highest mean"]["weights"] == weights


def test_a_loss_that_may_be_chance_is_allowed():
    helps = judged([False, True], [0.5, 0.3], [0.0, 0.9])
    hurts = judged([False, True], [0.3, 0.5], [0.9, 0.0])
    same = judged([False, True], [0.3, 0.5], [0.3, 0.5])
    a = {"a": [helps] * 9, "b": [same] * 9 + [hurts]}
    assert choose(a, ("v", "b"))["forms"]["chosen"]["worst loss"] == pytest.approx(10)
    a["b"] = [same] * 9 + [hurts] * 9
    assert choose(a, ("v", "b"))["forms"]["chosen"]["worst loss"] == 0


def test_sections_are_relevant_if_half_of_their_sentences_are(sea, encoder):
    queries = [Query("cod", [3, 4, 5, 6]), Query("eel", [2])]
    of_sentences, of_sections = judge([(sea, queries)], encoder)
    assert [one.relevant.nonzero().flatten().tolist() for one in of_sentences] == [
        [3, 4, 5, 6],
        [2],
    ]
    assert [one.relevant.nonzero().flatten().tolist() for one in of_sections] == [[1, 2]]
    assert of_sentences[0].features.shape == (len(of_sentences[0].relevant), 6)


def test_names_are_found_in_the_sentences_that_hold_them():
    text = "Call free_list. It is new. A PyObject and free_list are one. Use utf8."
    document = Document.from_sections("Names", [("One", text)])
    found = {query.text: query.sentence_ids for query in names(document)}
    assert found == {"free_list": [0, 2], "PyObject": [2], "utf8": [3]}


def test_questions_point_at_sentences(tmp_path):
    path = fusion.QUESTIONS
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({record["query"] for record in records}) == len(records) > 50
    assert {record["part"] for record in records} == {"train", "dev"}
    for record in records:
        if record["document"].startswith("examples/"):
            document = named_document(record["document"], tmp_path)
            texts = [sentence.text for sentence in document.sentences()]
            for start in record["answers"]:
                assert sum(text.startswith(start) for text in texts) == 1
