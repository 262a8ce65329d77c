import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import GenerationConfig
from typer.testing import CliRunner

from foveate.cli.app import app
from foveate.data import Example
from foveate.evaluation.predict import _best_span, predict
from foveate.preprocessing import VCCProcessor
from foveate.training.objectives import (
    Classification,
    Contrastive,
    HotpotQA,
    MaskedLM,
    MultipleChoice,
    QuestionAnswering,
    Retrieval,
    SequenceToSequence,
)

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}


@pytest.fixture
def asked(samples):
    return [
        Example(document=samples[i].document, query="Which?", choices=("whale", "ship"))
        for i in range(3)
    ]


class Fixed:
    """A model that gives what it is told to, one output a call."""

    device = torch.device("cpu")

    def __init__(self, *outputs):
        self.outputs, self.asked = iter(outputs), []

    def eval(self):
        pass

    def __call__(self, **inputs):
        self.asked.append(inputs)
        return SimpleNamespace(**next(self.outputs))

    generation_config = GenerationConfig()

    def generate(self, *, num_beams, max_new_tokens=None, **inputs):
        self.asked.append(inputs | {"num_beams": num_beams, "max_new_tokens": max_new_tokens})
        return next(self.outputs)


def logits(*rows):
    return [{"logits": torch.tensor([row])} for row in rows]


def test_generated_tokens_are_decoded(asked, tree_processor, small_tokenizer):
    texts = ["The whale swims.", "Ice", ""]
    model = Fixed(*(torch.tensor([[0, *small_tokenizer.encode(text), 1]]) for text in texts))
    assert predict(model, tree_processor, SequenceToSequence(9), asked, num_beams=2) == texts
    assert [(one["num_beams"], one["max_new_tokens"]) for one in model.asked] == [(2, 9)] * 3
    features = tree_processor.features(asked[1].document, query="Which?", choices=("whale", "ship"))
    assert torch.equal(model.asked[1]["input_ids"][0], features["input_ids"])
    assert torch.equal(model.asked[1]["parent_ids"][0], features["parent_ids"])


@pytest.mark.parametrize(
    ("own", "positions", "expected"),
    [({}, None, 512), ({}, 64, 63), ({"max_new_tokens": 40}, None, None)],
)
def test_texts_are_not_cut_where_nothing_limits_them(
    own, positions, expected, asked, tree_processor
):
    model = Fixed(torch.tensor([[0, 1]]))
    model.generation_config = GenerationConfig(**own)
    model.config = SimpleNamespace(max_position_embeddings=positions)
    predict(model, tree_processor, SequenceToSequence(), asked[:1])
    assert model.asked[0]["max_new_tokens"] == expected


def test_classes_are_named(asked, tree_processor):
    names = ("a", "b", "c")
    scores = ([-3.0, -1.0, -2.0], [1.0, 0.0, 2.0], [-0.1, 0.1, -0.1])
    one = predict(Fixed(*logits(*scores)), tree_processor, Classification(names), asked)
    assert one == [("b",), ("c",), ("b",)]
    several = Classification(names, multi_label=True)
    found = predict(Fixed(*logits(*scores)), tree_processor, several, asked)
    assert found == [(), ("a", "c"), ("b",)]


def test_the_best_choice_is_chosen(asked, text_processor, small_tokenizer):
    model = Fixed(*logits([0.0, 1.0], [3.0, 1.0], [-2.0, -1.0]))
    assert predict(model, text_processor, MultipleChoice(), asked) == ["ship", "whale", "ship"]
    both = model.asked[0]["input_ids"]
    assert both.shape[:2] == (1, 2)
    begins = [small_tokenizer.decode(row).strip().split("\n")[0] for row in both[0]]
    assert begins == ["Which? whale", "Which? ship"]


def test_vcc_chooses_from_one_sequence(asked, bert_tokenizer):
    model = Fixed(*logits([0.0, 1.0], [3.0, 1.0], [-2.0, -1.0]))
    processor = VCCProcessor(bert_tokenizer)
    assert predict(model, processor, MultipleChoice(), asked) == ["ship", "whale", "ship"]
    assert model.asked[0]["input_ids"].dim() == 2
    assert model.asked[0]["choice_mask"].sum() == 2


def test_yes_and_no_come_before_spans(asked, bert_tokenizer):
    processor = VCCProcessor(bert_tokenizer)
    outputs, examples = [], asked[:1] * 3
    for kind in range(3):
        length = len(processor.features(asked[0].document, query="Which?")["input_ids"])
        starts = torch.zeros(1, length)
        starts[0, 9] = 1.0
        types = torch.zeros(1, 3)
        types[0, kind] = 1.0
        output = {"start_logits": starts, "end_logits": starts, "answer_type_logits": types}
        outputs.append(output)
    examples = [replace(one, choices=()) for one in examples]
    no, yes, span = predict(Fixed(*outputs), processor, HotpotQA(), examples)
    assert (no, yes) == ("no", "yes")
    assert span in asked[0].document.text.lower()


def test_the_best_span_is_cut_out_of_the_text(asked, text_processor):
    outputs, expected = [], []
    for example, (start, end) in zip(asked, [(5, 9), (7, 7), (12, 15)], strict=True):
        features = text_processor.features(
            example.document, query=example.query, choices=example.choices
        )
        starts, ends = torch.zeros(2, 1, len(features["input_ids"]))
        starts[0, start], ends[0, end], ends[0, start - 1] = 5.0, 5.0, 9.0
        outputs.append({"start_logits": starts, "end_logits": ends})
        text = text_processor.text(example.document, example.query, example.choices)
        places = features["offset_mapping"]
        expected.append(text[places[start, 0] : places[end, 1]].strip())
    found = predict(Fixed(*outputs), text_processor, QuestionAnswering(), asked)
    assert found == expected
    assert all(found)


def test_pretraining_objectives_make_no_predictions(asked, tree_processor):
    with pytest.raises(ValueError, match="MaskedLM is for pretraining and makes no predictions"):
        predict(Fixed(), tree_processor, MaskedLM(), asked)


def test_objectives_of_encoders_make_no_predictions(asked, tree_processor):
    for objective in (Contrastive(), Retrieval()):
        with pytest.raises(ValueError, match=r"trains an encoder for its vectors"):
            predict(Fixed(), tree_processor, objective, asked)


def test_the_best_span_ends_where_it_starts_or_soon_after():
    starts, ends = torch.zeros(50), torch.zeros(50)
    ends[2], starts[10], ends[12], ends[45] = 9.0, 5.0, 3.0, 8.0
    assert _best_span(starts, ends) == (0, 2)
    ends[2] = 0
    starts[10] = 4.0
    assert _best_span(starts, ends) == (16, 45)
    ends[45] = 4.0
    assert _best_span(starts, ends) == (10, 12)


def test_the_commands_train_and_evaluate(tmp_path, corpus_file):
    runner = CliRunner()
    listed = runner.invoke(app, ["train", "--recipes"])
    assert "hdt-e " in listed.output
    papers = tmp_path / "papers.jsonl"
    lines = [json.loads(line) for line in corpus_file.read_text().splitlines()]
    papers.write_text(
        "".join(json.dumps({**line, "references": ["The whale swims."]}) + "\n" for line in lines)
    )
    changes = {
        "model": json.dumps({"type": "hdt", **TINY, "num_decoder_layers": 1}),
        "tokenizer": 420,
        "data.train": papers,
        "data.dev": papers,
        "data.benchmark": "''",
        "objective.max_target_length": 8,
        "training": '{"max_steps": 2, "use_cpu": true, "disable_tqdm": true,'
        '"dataloader_pin_memory": false, "learning_rate": 0.001}',
    }
    arguments = [f"--set={entry}={value}" for entry, value in changes.items()]
    name = "hdt-ed-summarization"
    trained = runner.invoke(app, ["train", name, "-o", str(tmp_path / "model"), *arguments])
    assert trained.exception is None, trained.output
    to = ["--predictions", str(tmp_path / "written.jsonl")]
    evaluated = runner.invoke(
        app,
        [
            "evaluate",
            name,
            "-m",
            str(tmp_path / "model"),
            "--limit",
            "3",
            "--json",
            *arguments,
            *to,
        ],
    )
    assert evaluated.exception is None, evaluated.output
    found = json.loads(evaluated.output)
    assert found["examples"] == 3
    assert set(found) == {"examples", "rouge1", "rouge2", "rougeL"}
    written = [json.loads(line) for line in (tmp_path / "written.jsonl").read_text().splitlines()]
    assert [record["references"] for record in written] == [["The whale swims."]] * 3
    assert all(isinstance(record["prediction"], str) for record in written)
    with papers.open("a") as file:
        file.write("{\n")
    again = [*("evaluate", name, "-m", str(tmp_path / "model")), *arguments]
    broken = runner.invoke(app, again)
    assert f"line {len(lines) + 1} of {papers} is not a document" in str(broken.exception)
    silent = [*("evaluate", name, "-m", "x"), *arguments, str(corpus_file)]
    assert "contains no answers" in str(runner.invoke(app, silent).exception)
    wrong = runner.invoke(app, ["evaluate", "hdt-e", str(corpus_file), "-m", "x"])
    assert "MaskedLM is for pretraining and makes no predictions" in str(wrong.exception)


def test_examples_without_a_class_count(tmp_path):
    cases = [
        {"case_id": str(i), "facts": [f"Thing {i}."], "violated_articles": ["3"] * (i % 3 == 0)}
        for i in range(9)
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    quick = {"max_steps": 1, "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    recipe = {
        "model": {"type": "hdt", **TINY},
        "tokenizer": 420,
        "objective": {"name": "classification", "labels": ["3", "6"], "multi_label": True},
        "data": {"train": str(file), "dev": str(file), "benchmark": "ecthr"},
        "batch": {"documents": 3},
        "training": {**quick, "dataloader_pin_memory": False},
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    runner, output = CliRunner(), str(tmp_path / "model")
    trained = runner.invoke(app, ["train", str(tmp_path / "r.yaml"), "-o", output])
    assert trained.exception is None, trained.output
    evaluate = ["evaluate", str(tmp_path / "r.yaml"), "-m", output, "--json"]
    evaluated = runner.invoke(app, evaluate)
    assert json.loads(evaluated.output)["examples"] == 9
    other = {**cases[0], "violated_articles": ["77"]}
    (tmp_path / "one.jsonl").write_text(json.dumps(other) + "\n")
    written = ["--predictions", str(tmp_path / "p.jsonl"), str(tmp_path / "one.jsonl")]
    with pytest.warns(match="lacks 1 of the 1 classes in the files, such as '77': they count"):
        evaluated = runner.invoke(app, [*evaluate[:-1], *written])
    assert evaluated.output.startswith("1 example\n")
    [record] = map(json.loads, (tmp_path / "p.jsonl").read_text().splitlines())
    assert set(record.pop("prediction")) <= {"3", "6"}
    assert record == {"id": "0", "query": "", "labels": ["77"]}
    nowhere = runner.invoke(app, [*evaluate, "--predictions", str(tmp_path / "no" / "p.jsonl")])
    assert "cannot be written" in str(nowhere.exception)
    for limit in ("0", "-1"):
        assert runner.invoke(app, [*evaluate, "--limit", limit]).exit_code == 2
