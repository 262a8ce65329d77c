import json
from types import SimpleNamespace

import pytest
import torch
import transformers
from typer.testing import CliRunner

from foveate import HDTConfig, HDTForConditionalGeneration, HDTForSequenceClassification
from foveate.cli import app
from foveate.training.objectives import (
    Classification,
    MaskedLM,
    MultipleChoice,
    SequenceToSequence,
    Span,
)
from foveate.training.predict import _best_span, predict

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}


@pytest.fixture
def asked(samples):
    return [
        SimpleNamespace(document=samples[i].document, question="Which?", choices=("whale", "ship"))
        for i in range(3)
    ]


def bert(kind, tokenizer):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "vocab_size": len(tokenizer), "pad_token_id": 0}
    return kind(transformers.BertConfig(**sizes))


def test_each_objective_predicts_in_its_way(asked, tree_reader, text_reader, small_tokenizer):
    config = HDTConfig(vocab_size=len(small_tokenizer), **TINY, num_decoder_layers=1)
    written = predict(
        HDTForConditionalGeneration(config), tree_reader, SequenceToSequence(9), asked, beams=2
    )
    assert all(isinstance(text, str) for text in written)
    config = HDTConfig(vocab_size=len(small_tokenizer), **TINY, num_labels=3)
    model = HDTForSequenceClassification(config)
    one = predict(model, tree_reader, Classification(("a", "b", "c")), asked)
    assert all(len(classes) == 1 for classes in one)
    several = predict(model, tree_reader, Classification(("a", "b", "c"), several=True), asked)
    assert all(set(classes) <= {"a", "b", "c"} for classes in several)
    chooser = bert(transformers.BertForMultipleChoice, small_tokenizer)
    assert set(predict(chooser, text_reader, MultipleChoice(), asked)) <= {"whale", "ship"}
    finder = bert(transformers.BertForQuestionAnswering, small_tokenizer)
    for example, answer in zip(asked, predict(finder, text_reader, Span(), asked), strict=True):
        text = f"{example.question}\n{example.document.title}"
        assert answer in text or answer.split("\n")[-1] in example.document.text
    with pytest.raises(ValueError, match="MaskedLM prepares a model and makes no predictions"):
        predict(model, tree_reader, MaskedLM(), asked)


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
    assert "hdt-e\n" in listed.output
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
    evaluated = runner.invoke(
        app,
        ["evaluate", name, "-m", str(tmp_path / "model"), "--limit", "3", "--json", *arguments],
    )
    assert evaluated.exception is None, evaluated.output
    found = json.loads(evaluated.output)
    assert found["examples"] == 3
    assert set(found) == {"examples", "rouge1", "rouge2", "rougeL"}
    wrong = runner.invoke(app, ["evaluate", "hdt-e", str(corpus_file), "-m", "x"])
    assert "keeps the answers to itself" in str(wrong.exception)
