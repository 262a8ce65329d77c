"""The cards of trained models."""

import json

import pytest
import torch
import yaml

from foveate.training import train
from tests.training.benchmark_files import egad
from tests.training.conftest import losses, masked_lm


def card_of(folder):
    """The header of a model card, and its table."""
    text = (folder / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    rows = (line.strip("| ").split(" | ", 1) for line in body.splitlines() if " | " in line)
    return text, yaml.safe_load(header), {row[0]: row[1] for row in rows if len(row) == 2}


def test_a_trained_model_has_a_card(corpus_file, tmp_path):
    training = {"max_steps": 2, "gradient_accumulation_steps": 3, "eval_strategy": "steps"}
    recipe = masked_lm(corpus_file, eval_steps=1, **training)
    trainer = train(recipe, tmp_path / "cod")
    text, header, rows = card_of(tmp_path / "cod")
    assert header == {"library_name": "transformers", "tags": ["foveate"]}
    assert "\n# license: replace this line" in text
    assert "# cod\n" in text
    assert str(tmp_path) not in text
    assert str(corpus_file.parent) not in text
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    assert rows["Class"] == f"`HDTForMaskedLM`, {parameters:,} parameters"
    assert rows["Base model"] == "none: trained from random weights"
    assert rows["Objective"] == "name: masked_lm, ratio: 0.15"
    assert rows["Training data"] == rows["Held-out data"] == "voyages.jsonl, 24 examples"
    assert (rows["Batch"], rows["Steps"]) == ("up to 450 tokens a step", "2")
    assert float(rows["Training loss"]) == pytest.approx(losses(trainer)[-1], rel=1e-3)
    assert float(rows["Held-out loss"]) > 0
    assert f"torch {torch.__version__.partition('+')[0]}" in rows["Software"]
    assert not [file for file in (tmp_path / "cod").iterdir() if file.name.startswith(".")]


def test_the_card_names_the_base_model_and_the_benchmark(tmp_path, bert_tokenizer):
    train(egad(tmp_path, bert_tokenizer, {"num_keywords": 2}, max_steps=1), tmp_path / "out")
    _, header, rows = card_of(tmp_path / "out")
    assert "base_model" not in header  # it is a folder
    assert rows["Base model"] == "model"
    assert rows["Training data"] == "arxiv: train.jsonl, 12 examples"
    assert "num_keywords: 2" in rows["Processor"]
    assert "Held-out data" not in rows
    assert rows["Batch"] == "2 documents a step"


def test_a_card_that_is_finished_is_left_alone(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, max_steps=1, save_strategy="no")
    train(recipe, tmp_path)
    unfinished = (tmp_path / "README.md").read_text()
    recipe = masked_lm(corpus_file, max_steps=2, save_strategy="no")
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe.to_dict()))
    train(recipe, tmp_path)
    assert (tmp_path / "README.md").read_text() != unfinished
    finished = "---\nlicense: mit\n---\n\nMine.\n"
    (tmp_path / "README.md").write_text(finished)
    train(recipe, tmp_path)
    assert (tmp_path / "README.md").read_text() == finished
