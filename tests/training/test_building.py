"""What recipes are built into: models, vocabularies and data, and what does not fit."""

import contextlib
import json

import pytest
import torch
import transformers
from transformers import AutoModelForMaskedLM

from foveate.models.hdt import HDTModel
from foveate.models.vcc import VccRobertaForMaskedLM
from foveate.training import build_trainer, train
from tests.conftest import random_record
from tests.training.conftest import TINY, checkpoint, losses, masked_lm


@pytest.mark.parametrize("kind", ["hdt", "fovea", "vcc_t5"])
def test_a_checkpoint_of_another_family_is_refused(kind, corpus_file, tmp_path, small_tokenizer):
    checkpoint("roberta", tmp_path / "model", small_tokenizer)
    model = {"type": kind, "checkpoint": str(tmp_path / "model")}
    recipe = masked_lm(corpus_file, {"model": model, "tokenizer": None})
    with pytest.raises(
        ValueError, match="of roberta does not have the parameters of this model: name"
    ):
        build_trainer(recipe, tmp_path / "out")


def test_an_example_of_nothing_to_write_is_left_out(tmp_path, corpus_file):
    lines = [json.loads(line) for line in corpus_file.read_text().splitlines()]
    lines = [{**line, "references": ["Cod."]} for line in lines]
    lines[0]["references"] = lines[1]["references"] = [" "]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = {
        "model": {"type": "hdt", **TINY, "num_decoder_layers": 1},
        "objective": {"name": "sequence_to_sequence"},
    }
    recipe = masked_lm(tmp_path / "c.jsonl", changes, num_train_epochs=1)
    with pytest.warns(UserWarning, match="has no reference to generate"):
        trainer = train(recipe, tmp_path / "out")
    assert all(0 < loss < 50 for loss in losses(trainer))


def test_the_place_of_unusable_examples_is_named(tmp_path):
    data = tmp_path / "c.jsonl"
    data.write_text(json.dumps({**random_record(1), "labels": "z"}) + "\n")
    classes = {"objective": {"name": "classification", "labels": ["a", "b"]}}
    with pytest.raises(ValueError, match=r"none .* such as line 1 of .*c\.jsonl: class 'z' is not"):
        build_trainer(masked_lm(data, classes), tmp_path / "out")
    pair = {name: random_record(i) for i, name in enumerate(("anchor", "positive"))}
    data.write_text(json.dumps(pair) + "\n")
    triplets = {"objective": {"name": "contrastive"}}
    with pytest.raises(ValueError, match=r"line 1 .*: the document needs a positive"):
        build_trainer(masked_lm(data, triplets), tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_keywords": 3}, "processor: HDTProcessor has no option 'num_keywords'"),
        ({"levels": 2}, "processor: levels must be at least 3 or None, got 2"),
        ({"levels": ["x"]}, r"processor: levels must be at least 3 or None, got \['x'\]"),
    ],
)
def test_options_that_the_processor_rejects(options, message, corpus_file, tmp_path):
    with pytest.raises(ValueError, match=message):
        build_trainer(masked_lm(corpus_file, {"processor": options}), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "hdtt", **TINY}}, "model: unknown type 'hdtt': did you mean 'hdt'"),
        (
            {"objective": {"name": "multiple_choice"}},
            "model: a hdt model cannot be trained for this objective, since there is none for "
            "AutoModelForMultipleChoice",
        ),
    ],
)
def test_models_that_there_are_not(changes, message, corpus_file, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        build_trainer(masked_lm(corpus_file, changes), tmp_path)
    assert "Albert" not in str(caught.value)  # a list of all models


@pytest.mark.parametrize(
    ("misspelt", "message"),
    [
        ({"num_layer": 3}, "model: unknown entry 'num_layer': did you mean 'num_layers'"),
        (
            {"decode_anchor": "token"},
            "unknown entry 'decode_anchor': did you mean 'decode_anchors'",
        ),
        ({"dropout": 0.5}, "model: unknown entry 'dropout': did you mean 'dropout_rate'"),
        ({"num_heads": "two"}, "model: Field 'num_heads' expected int, got str"),
        ({"speed_up": "fast"}, "model: speed_up: .* valid boolean.*, got 'fast'"),
        ({"speed_up": True}, "there is nothing to speed up in a HDTForMaskedLM"),
    ],
)
@pytest.mark.parametrize("new", [True, False])
def test_entries_of_the_model_that_do_not_fit(
    new, misspelt, message, corpus_file, tmp_path, small_tokenizer
):
    checkpoint("hdt", tmp_path / "model", small_tokenizer)
    model = {"type": "hdt", **TINY} if new else {"checkpoint": str(tmp_path / "model")}
    changes = {"model": {**model, **misspelt}, "tokenizer": 420 if new else None}
    with pytest.raises(ValueError, match=message):
        build_trainer(masked_lm(corpus_file, changes), tmp_path / "out")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (200, "max_position_embeddings must be at least 300"),
        ("many", "model: max_position_embeddings: .* valid integer.*, got 'many'"),
    ],
)
def test_positions_that_cannot_be_repeated(size, message, corpus_file, tmp_path, small_tokenizer):
    checkpoint("roberta", tmp_path / "model", small_tokenizer)
    model = {"checkpoint": str(tmp_path / "model"), "max_position_embeddings": size}
    with pytest.raises(ValueError, match=message):
        build_trainer(masked_lm(corpus_file, {"model": model, "tokenizer": None}), tmp_path / "out")


def test_the_positions_of_a_checkpoint_are_repeated(corpus_file, tmp_path, small_tokenizer):
    checkpoint("roberta", tmp_path / "model", small_tokenizer)
    short = AutoModelForMaskedLM.from_pretrained(tmp_path / "model")
    model = {"checkpoint": str(tmp_path / "model"), "type": "vcc_roberta"}
    model["max_position_embeddings"] = 900
    recipe = masked_lm(corpus_file, {"model": model, "tokenizer": None}, max_steps=1)
    long = build_trainer(recipe, tmp_path / "out").model
    table = long.roberta.embeddings.position_embeddings.weight
    old = short.roberta.embeddings.position_embeddings.weight
    first = short.config.pad_token_id + 1
    assert torch.equal(table[:300], old)
    assert torch.equal(table[300 : 600 - first], old[first:])
    train(recipe, tmp_path / "out")
    saved = VccRobertaForMaskedLM.from_pretrained(tmp_path / "out")
    assert len(saved.roberta.embeddings.position_embeddings.weight) == 900


def test_damaged_weights_are_refused(corpus_file, tmp_path, small_tokenizer):
    checkpoint("hdt", tmp_path / "model", small_tokenizer)
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-99])
    changes = {"model": {"checkpoint": str(tmp_path / "model")}, "tokenizer": None}
    with pytest.raises(ValueError, match=r"the weights of .* are damaged .*: copy or download"):
        build_trainer(masked_lm(corpus_file, changes), tmp_path / "out")


def test_weights_in_half_precision_are_trained_in_float32(corpus_file, tmp_path, small_tokenizer):
    checkpoint("hdt", tmp_path / "model", small_tokenizer)
    HDTModel.from_pretrained(tmp_path / "model").bfloat16().save_pretrained(tmp_path / "model")
    changes = {"model": {"checkpoint": str(tmp_path / "model")}, "tokenizer": None}
    model = build_trainer(masked_lm(corpus_file, changes), tmp_path / "out").model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_vocabulary_larger_than_the_model_knows(corpus_file, tmp_path, small_tokenizer):
    checkpoint("hdt", tmp_path / "model", small_tokenizer)
    larger = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    larger.add_tokens(["narwhal", "orca"])
    larger.save_pretrained(tmp_path / "larger")
    changes = {"model": {"checkpoint": str(tmp_path / "model")}}
    changes["tokenizer"] = str(tmp_path / "larger")
    with pytest.raises(ValueError, match=f"has {len(larger)} tokens, but the model only 420"):
        build_trainer(masked_lm(corpus_file, changes), tmp_path / "out")


@pytest.mark.parametrize("batch", [{"tokens": 150}, {"documents": 1}])
def test_a_document_too_short_to_hide_spans_of_is_left_out(batch, tmp_path):
    data = tmp_path / "c.jsonl"
    lines = [{"text": "a"}, *(random_record(i) for i in range(4))]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = {"objective": {"name": "span_corruption"}, "batch": batch}
    changes["model"] = {"type": "hdt", **TINY, "num_decoder_layers": 1}
    with pytest.warns(
        UserWarning, match="line 1 of .* is skipped: the document has fewer than two tokens"
    ):
        trainer = train(masked_lm(data, changes, num_train_epochs=1), tmp_path / "out")
    assert len(losses(trainer)) == trainer.state.max_steps
    data.write_text(json.dumps(lines[0]))
    skipped = pytest.warns(match="line 1 of .* is skipped")
    with (
        pytest.raises(ValueError, match="fewer than two tokens"),
        skipped if "documents" in batch else contextlib.nullcontext(),
    ):
        train(masked_lm(data, changes, num_train_epochs=1), tmp_path / "other")
