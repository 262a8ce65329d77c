"""`foveate evaluate` on vectors, and on the hard questions of QuALITY."""

import json

import pytest
from transformers import BertConfig, BertForMultipleChoice

from tests.evaluation.papers import subject, write_lines, write_tasks
from tests.t5 import save_t5
from tests.tree_bert import SIZES, save_bert, save_tree_bert

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
QUICK = {"max_steps": 2, "use_cpu": True, "disable_tqdm": True, "dataloader_pin_memory": False}


@pytest.fixture
def tasks(tmp_path):
    return write_tasks(tmp_path / "tasks")


def test_the_default_model_on_all_tasks(foveate, tasks):
    code, output, error = foveate("evaluate", "scirepeval", tasks, "--device", "cpu")
    assert (code, error) == (0, "")
    lines = [line.split() for line in output.splitlines()]
    assert lines[0] == ["task", "kind", "examples", "%"]
    assert lines[1][:3] == ["biomimicry", "classification", "4"]
    assert ["scidocs_cite", "proximity", "1", "MAP", "100.0"] in lines
    assert ["search", "search", "2", "nDCG", "100.0"] in lines
    assert lines[-1][:-1] == ["average", "of", "each", "first", "score"]


def test_scores_for_machines(foveate, tasks, tokenizer, tmp_path):
    save_tree_bert(tmp_path / "model", tokenizer)
    arguments = ["evaluate", "scirepeval", tasks / "scidocs_cite", tasks / "cite_count"]
    code, output, _ = foveate(
        *arguments, "-m", tmp_path / "model", "--json", "--distance", "cosine", "--limit", 3
    )
    found = json.loads(output)
    assert code == 0
    assert set(found) == {"distance", "average", "tasks"}
    ranking, regression = found["tasks"]
    assert set(ranking) == {"task", "kind", "examples", "MAP", "nDCG"}
    assert (regression["kind"], regression["examples"]) == ("regression", 3)
    assert found["average"] == (ranking["MAP"] + regression["Kendall's τ"]) / 2


def test_a_contrastive_model(foveate, tasks, tmp_path):
    """From a recipe's training to scores: a checkpoint without a head."""
    triplets = [
        {
            name: {"title": f"Study {i + j}", "text": f"We study {subject(i + j)} at sea."}
            for j, name in ((0, "anchor"), (2, "positive"), (1, "negative"))
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
    code, output, error = foveate("evaluate", "scirepeval", tasks, "-m", model, "--json")
    assert code == 0, error
    assert len(json.loads(output)["tasks"]) == 7
    code, _, error = foveate("evaluate", file, "-m", model, tmp_path / "triplets.jsonl")
    assert code == 2
    assert error == (
        "foveate: Contrastive trains an encoder for its vectors, which makes no predictions: "
        "evaluate it with `foveate evaluate scirepeval`\n"
    )


def test_a_bert_by_its_first_token(foveate, tasks, tokenizer, tmp_path):
    save_bert(tmp_path / "bert", tokenizer)
    arguments = ["evaluate", "scirepeval", tasks / "search", "-m", tmp_path / "bert", "--json"]
    sentences, first_token = (
        json.loads(foveate(*arguments, *more)[1])["tasks"][0] for more in ((), ("--flat",))
    )
    assert set(sentences) == set(first_token)
    assert sentences["nDCG"] != first_token["nDCG"]


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
        f"foveate: {tmp_path}/bare is an encoder without a head (BertModel), which gives vectors "
        "and makes no predictions: evaluate them with `foveate evaluate scirepeval`, or fine-tune "
        "it with this recipe first\n"
    )


def test_errors_are_one_sentence(foveate, tasks, tmp_path):
    save_t5(tmp_path / "t5", "whale")
    for arguments, message in {
        ("scirepeval",): "name folders of SciRepEval's tasks, or tasks to download",
        ("scirepeval", "taks"): "'taks' is neither a folder nor a task of SciRepEval",
        ("scirepeval", tasks, "-m", tmp_path / "t5"): "t5 model, which writes text and gives no",
        ("scirepeval", tasks, "-m", "no/such/model"): "there is no folder no/such/model",
        (
            "scirepeval",
            tasks,
            "--beams",
            2,
        ): "scirepeval has no recipe, no beams and no",
        ("scirepeval", tasks, "--flat"): "--flat is for models that read one text",
        ("hdt-ed-summarization", "x.jsonl"): "name the folder of the model that the recipe",
        ("hdt-ed-summarization", "x.jsonl", "-m", "x", "--flat"): "are for scirepeval",
        ("hdt-e-summaries", "x.jsonl", "-m", "x"): "there is no recipe 'hdt-e-summaries'",
    }.items():
        code, output, error = foveate("evaluate", *arguments)
        assert (code, output) == (2, "")
        assert error.startswith("foveate: ")
        assert message in error
        assert error.count("\n") == 1
