import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.evaluation import (
    exact_match,
    label_f1,
    rouge,
    token_f1,
)

WORDS = st.lists(
    st.sampled_from(["cod", "eel", "sea", "swims", "the", "long"]), min_size=1, max_size=8
)


def test_the_published_example_of_scrolls():
    """Of the docstring of its metric."""
    predictions = ["exact match example", "hello there", "general kenobi"]
    references = [["exact match example"], ["hello", "hi there"], ["commander kenobi"]]
    assert rouge(predictions, references) == pytest.approx(
        {"rouge1": 72.2222, "rouge2": 33.3333, "rougeL": 72.2222}, abs=1e-4
    )
    assert exact_match(predictions, references) == pytest.approx(33.3333, abs=1e-4)
    assert token_f1(predictions, references) == pytest.approx(72.2222, abs=1e-4)


def longest_common(ours, theirs):
    table = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for i, a in enumerate(ours):
        for j, b in enumerate(theirs):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


@given(WORDS, WORDS)
def test_rouge_l_takes_the_text_as_one_sequence(ours, theirs):
    expected = 200 * longest_common(ours, theirs) / (len(ours) + len(theirs))
    for between in (" ", "\n"):
        found = rouge([between.join(ours)], [[between.join(theirs)]])["rougeL"]
        assert found == pytest.approx(expected)


def test_words_are_not_stemmed():
    assert rouge(["swims"], [["swim"]])["rouge1"] == 0


def test_articles_case_and_punctuation_do_not_count_in_answers():
    assert exact_match(["The Cod!"], [["a cod"]]) == 100
    assert token_f1(["the cod swims"], [["A cod."]]) == pytest.approx(100 * 2 / 3)
    assert token_f1(["eel"], [["cod"]]) == 0


def test_micro_and_macro_f1():
    found = label_f1([["a"], ["a"], ["b"], []], [["a"], ["b"], ["b"], ["c"]])
    # a: 1 right of 2 said and 1 true; b: 1 right of 1 said and 2 true; c never said.
    assert found["micro"] == pytest.approx(100 * 2 * 2 / (3 + 4))
    assert found["macro"] == pytest.approx(100 * (2 / 3 + 2 / 3 + 0) / 3)


@pytest.mark.parametrize("metric", [rouge, token_f1, exact_match])
def test_what_cannot_be_scored_is_said(metric):
    with pytest.raises(ValueError, match="there are 0 predictions for 0 examples"):
        metric([], [])
    with pytest.raises(ValueError, match="there are 1 predictions for 2 examples"):
        metric(["cod"], [["cod"], ["eel"]])
    with pytest.raises(ValueError, match="example 1 has no correct answer"):
        metric(["cod", "eel"], [["cod"], []])
    with pytest.raises(TypeError, match="example 1 has a text in place of a list of texts: 'eel"):
        metric(["cod", "eel"], [["cod"], "eel"])


def test_classes_that_do_not_exist():
    with pytest.raises(ValueError, match="0 predictions for 1 examples"):
        label_f1([], [["a"]])
    with pytest.raises(ValueError, match="no example has a class, predicted or correct"):
        label_f1([(), ()], [(), ()])
    for predictions, labels in (("a", ["a"]), (["a"], [["a"]]), ([["a"]], ["a"])):
        with pytest.raises(TypeError, match="example 0 has a text in place of a list of texts"):
            label_f1(predictions, labels)


def test_a_metric_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.metrics", None)
    with pytest.raises(ImportError, match=r"needs sklearn: run .*foveate\[evaluation\]"):
        label_f1([["a"]], [["a"]])
