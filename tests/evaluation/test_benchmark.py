"""Scores of predictions, of all questions and of subsets, by models of the same recipe."""

from types import SimpleNamespace

import pytest

from foveate import Document
from foveate.data import Example
from foveate.evaluation.benchmark import (
    _score,
    _score_subsets,
    _with_known_answers,
    load_trained,
)
from foveate.models.hdt import HDTConfig, HDTForTokenClassification
from foveate.training.objectives import (
    AnchorClassification,
    Classification,
    MultipleChoice,
    SequenceToSequence,
)

SEA = Document.from_text("Cod swim.")


def question(answer, *labels, choices=("cod", "eel")):
    references = () if answer is None else (answer,)
    return Example(
        document=SEA, query="Who?", choices=choices, references=references, labels=labels
    )


QUESTIONS = [question("cod", "hard"), question("eel"), question("cod", "hard"), question("cod")]


@pytest.mark.parametrize("objective", [MultipleChoice(), SequenceToSequence()])
def test_choices_are_scored_by_accuracy_and_hard_ones_by_themselves(objective):
    predictions = ["cod", "eel", "eel", "Cod."]
    assert _score(objective, predictions, QUESTIONS) == {"accuracy": 75}
    subsets = _score_subsets(objective, predictions, QUESTIONS)
    assert {label: (n, scores) for label, (n, scores, _) in subsets.items()} == {
        "hard": (2, {"accuracy": 50})
    }


def test_other_answers_and_summaries_keep_their_metrics():
    answered = [question("cod", "general", choices=()), question("eel", "specific", choices=())]
    scores = _score(SequenceToSequence(), ["cod", "cod"], answered)
    assert set(scores) == {"exact match", "F1", "rouge1", "rouge2", "rougeL"}
    subsets = _score_subsets(SequenceToSequence(), ["cod", "cod"], answered)
    assert (subsets["general"].scores["F1"], subsets["specific"].scores["F1"]) == (100, 0)
    summary = [Example(document=SEA, references=("Cod.",))]
    assert set(_score(SequenceToSequence(), ["Cod."], summary)) == {"rouge1", "rouge2", "rougeL"}
    assert _score_subsets(SequenceToSequence(), ["Cod."], summary) == {}


def test_classes_have_no_subsets():
    classified = [Example(document=SEA, labels=("a",)), Example(document=SEA, labels=("b",))]
    assert _score_subsets(Classification(("a", "b")), [("a",), ("a",)], classified) == {}


def test_a_label_is_no_answer_to_a_question():
    """The test part of QuALITY says which questions are hard, but not their answers."""
    unknown = [question(None, "hard"), question("cod")]
    assert _with_known_answers(MultipleChoice(), unknown) == unknown[1:]
    assert _with_known_answers(Classification(("a", "b")), unknown) == unknown[:1]
    assert _with_known_answers(Classification(("a", "b"), multi_label=True), unknown) == unknown


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["ships", "fish"], r"trained for the classes \['fish', 'ships'\] and this recipe has"),
        (["fish", "ships"], "is a HDTForTokenClassification and this recipe is for a HDTForSeq"),
    ],
)
def test_models_of_other_recipes_are_refused(labels, message, tmp_path):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    classes = AnchorClassification(labels=["fish", "ships"]).config_options()
    config = HDTConfig(vocab_size=40, **sizes, **classes)
    HDTForTokenClassification(config).save_pretrained(tmp_path)
    recipe = SimpleNamespace(objective=Classification(labels=labels), processor={})
    with pytest.raises(ValueError, match=f"{message}.*evaluate it with the recipe that it was"):
        load_trained(recipe, tmp_path)
