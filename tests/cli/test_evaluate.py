"""`foveate evaluate` on the hard questions of QuALITY, and what it rejects."""

import json

import pytest
from transformers import BertConfig, BertForMultipleChoice

from tests.tree_bert import SIZES, save_bert

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
QUICK = {"max_steps": 2, "use_cpu": True, "disable_tqdm": True, "dataloader_pin_memory": False}


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def quality(tmp_path):
    """Four questions about an article, two of them hard."""
    questions = [
        {
            "question": "What swims?",
            "question_unique_id": f"1_{i}",
            "options": ["cod", "cow", "hen", "dog"],
            "gold_label": 1,
            "difficult": int(i < 2),
        }
        for i in range(4)
    ]
    article = {"article_id": "1", "article": "Cod swim. Cows do not.", "questions": questions}
    write_lines(tmp_path / "QuALITY.v1.0.1.dev", [article])
    return tmp_path / "QuALITY.v1.0.1.dev"


@pytest.fixture
def choosing(tmp_path, tokenizer, quality):
    """A recipe for multiple choice, and a small model."""
    sizes = {name: size for name, size in SIZES.items() if name != "salience_size"}
    config = BertConfig(vocab_size=len(tokenizer), **sizes)
    BertForMultipleChoice(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    recipe = {
        "model": {"checkpoint": str(tmp_path / "model")},
        "objective": {"name": "multiple_choice"},
        "data": {"train": str(quality), "benchmark": "quality"},
        "batch": {"documents": 2},
        "training": QUICK,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    return tmp_path / "recipe.yaml"


def test_hard_questions_are_scored_by_themselves(foveate, choosing, quality, tmp_path):
    arguments = ["evaluate", choosing, "-m", tmp_path / "model", quality]
    code, output, _ = foveate(*arguments, "--json")
    found = json.loads(output)
    assert code == 0
    assert set(found) == {"examples", "accuracy", "subsets"}
    assert (found["examples"], found["subsets"]["hard"]["examples"]) == (4, 2)
    assert found["accuracy"] in (0, 100)  # the four questions are the same
    assert found["subsets"]["hard"]["accuracy"] == found["accuracy"]
    lines = [line.split() for line in foveate(*arguments)[1].splitlines()]
    assert lines[:2] == [["all", "hard"], ["examples", "4", "2"]]
    assert lines[2][0] == "accuracy"


def test_a_headless_encoder_chooses_nothing(foveate, choosing, quality, tokenizer, tmp_path):
    save_bert(tmp_path / "bare", tokenizer)
    code, output, error = foveate("evaluate", choosing, "-m", tmp_path / "bare", quality)
    assert (code, output) == (2, "")
    assert error == (
        f"foveate: {tmp_path}/bare is an encoder without a head (BertModel), which makes no "
        "predictions: fine-tune it with this recipe first\n"
    )


def test_errors_are_one_sentence(foveate):
    for arguments, message in {
        ("hdt-ed-summarization", "x.jsonl"): "name the folder of the model that the recipe",
        ("hdt-e-summaries", "x.jsonl", "-m", "x"): "there is no recipe 'hdt-e-summaries'",
    }.items():
        code, output, error = foveate("evaluate", *arguments)
        assert (code, output) == (2, "")
        assert error.startswith("foveate: ")
        assert message in error
        assert error.count("\n") == 1


def test_a_contrastive_model_makes_no_predictions(foveate, tmp_path):
    """From a recipe's training to the error: an encoder without a head."""
    triplets = [
        {
            name: {"title": f"Study {i}", "text": "We study cod at sea."}
            for name in ("anchor", "positive", "negative")
        }
        for i in range(8)
    ]
    write_lines(tmp_path / "triplets.jsonl", triplets)
    recipe = {
        "model": {"type": "hdt", **TINY},
        "tokenizer": 420,
        "objective": {"name": "contrastive"},
        "data": {"train": str(tmp_path / "triplets.jsonl")},
        "batch": {"documents": 4},
        "training": QUICK,
    }
    file, model = tmp_path / "recipe.yaml", tmp_path / "model"
    file.write_text(json.dumps(recipe))
    code, _, error = foveate("train", file, "--output", model)
    assert code == 0, error
    code, _, error = foveate("evaluate", file, "-m", model, tmp_path / "triplets.jsonl")
    assert code == 2
    assert error == (
        "foveate: Contrastive trains an encoder for its vectors, which makes no predictions\n"
    )
