import pytest
import torch
import yaml

from foveate.inference import default_model_path
from foveate.training import Recipe, recipe_names
from foveate.training.building import build_model, build_tokenizer, load_examples
from foveate.training.objectives import MaskedLM
from foveate.training.recipe import Data

GOOD = {
    "model": {"type": "hdt", "num_layers": 2},
    "tokenizer": 500,
    "objective": {"name": "masked_lm", "ratio": 0.1},
    "data": {"train": "corpus"},
    "batch": {"tokens": 100},
    "training": {"max_steps": 3},
}


def changed(**entries):
    return {name: value for name, value in {**GOOD, **entries}.items() if value is not None}


def test_a_recipe_is_loaded_and_overridden(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    recipe = Recipe.load(file, ["training.max_steps=7", "batch={documents: 4}", "data.dev=[a, b]"])
    assert recipe.objective == MaskedLM(0.1)
    assert recipe.data.train == ("corpus",)
    assert recipe.data.dev == ("a", "b")
    assert recipe.batch.documents == 4
    assert recipe.training == {"max_steps": 7}


def test_other_training_files_have_no_held_out_ones(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(changed(data={"train": "corpus", "dev": "corpus/dev"})))
    assert Recipe.load(file).data.dev == ("corpus/dev",)
    assert Recipe.load(file, ["data.train=texts"]).data.dev == ()
    assert Recipe.load(file, ["data.train=texts", "data.dev=held"]).data.dev == ("held",)


@pytest.mark.parametrize(
    ("text", "number"),
    [("5e-5", 5e-5), ("1E+3", 1e3), ("-.5e2", -50.0), ("1.0e-3", 1e-3), ("2", 2), ("0.5", 0.5)],
)
def test_numbers_are_read_as_written(text, number, tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text(yaml.safe_dump(GOOD) + f"  learning_rate: {text}\n")
    assert Recipe.load(file).training["learning_rate"] == number
    again = Recipe.load(file, [f"training.weight_decay={text}", "data.train=1e-3x"])
    assert again.training["weight_decay"] == number
    assert again.data.train == ("1e-3x",)


def test_the_default_checkpoint_is_the_installed_model():
    recipe = Recipe.load("tree-bert-finetuning")
    assert recipe.checkpoint == str(default_model_path())
    assert recipe.to_dict()["model"] == {"checkpoint": "default"}  # on any machine
    tokenizer = build_tokenizer(recipe, [])
    assert tokenizer.name_or_path == str(default_model_path())
    model = build_model(recipe, tokenizer)
    assert model.config.model_type == "tree_bert"
    # It is stored in bfloat16.
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_other_checkpoints_are_taken_by_their_names():
    assert Recipe.load("tree-bert").checkpoint == "sentence-transformers/all-MiniLM-L6-v2"
    assert Recipe.load("tree-bert-finetuning", ["model.checkpoint=./default"]).checkpoint == (
        "./default"
    )
    assert Recipe.from_dict(GOOD).checkpoint is None


@pytest.mark.parametrize("name", recipe_names())
def test_to_dict_makes_the_same_recipe(name):
    recipe = Recipe.load(name)
    assert Recipe.from_dict(yaml.safe_load(yaml.safe_dump(recipe.to_dict()))) == recipe


@pytest.mark.parametrize("name", recipe_names())
def test_every_installed_recipe_is_valid(name):
    assert Recipe.load(name).training["logging_steps"] >= 10


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], r"should be a valid dictionary, got \[1\]"),
        (changed(data=None), "data: Field required"),
        (changed(modle={}), "modle: Unexpected keyword argument"),
        (changed(model={"num_layers": 2}), "model: give a checkpoint or a type"),
        (changed(tokenizer=None), "tokenizer: name one"),
        (changed(objective={"name": "mlm"}), "objective: name must be one of masked_lm, .*'mlm'"),
        (
            changed(objective={"name": "masked_lm", "ration": 1}),
            "objective: ration: Unexpected keyword argument",
        ),
        (
            changed(objective={"name": "masked_lm", "ratio": "much"}),
            "objective: ratio: .* valid number.*, got 'much'",
        ),
        (changed(objective={"name": "masked_lm", "ratio": 2}), "objective: ratio must be between"),
        (changed(data={}), "data: train: Field required"),
        (changed(data={"train": []}), "data: train names no files: give paths"),
        (changed(data={"train": ""}), "data: train names no files: give paths"),
        (changed(data={"train": "corpus", "dev": [""]}), "data: dev names no files"),
        (changed(data={"train": 3}), "data: train: .* got 3"),
        (
            changed(data={"train": "a", "benchmark": "song"}),
            "data: benchmark must be one of ami, arxiv, .* got 'song'",
        ),
        (changed(processor=["a"]), r"processor: .* valid dictionary, got \['a'\]"),
        (changed(tokenizer=3.5), "tokenizer: .* got 3.5"),
        (
            changed(model={"checkpoint": "mine"}),
            "tokenizer: a checkpoint has its own vocabulary",
        ),
        (
            changed(training={"learning_rate": "fast"}),
            "training: learning_rate: .* valid number, got 'fast'",
        ),
        (changed(training={"max_steps": 2.5}), "training: max_steps: .* valid integer, got 2.5"),
        (changed(training={"bf16": 1}), "training: bf16: .* valid boolean, got 1"),
        (
            changed(training={"gradient_accumulation_steps": 0}),
            "training: gradient_accumulation_steps must be at least 1",
        ),
        (
            changed(training={"num_train_epochs": 0}),
            "training: either num_train_epochs or max_steps must be above 0",
        ),
        (
            changed(training={"metric_for_best_model": "rouge"}),
            "training: metric_for_best_model must be loss, .* got 'rouge'",
        ),
        (
            changed(training={"resume_from_checkpoint": "x"}),
            "training: unknown entry 'resume_from_checkpoint'",
        ),
        (
            changed(model={"type": "hdt", "checkpoint": None}, tokenizer=None),
            "tokenizer: name one, or give the size",
        ),
        (changed(model={"checkpoint": None}), "model: give a checkpoint or a type"),
        (
            changed(objective={"name": "sequence_to_sequence", "max_target_length": 0}),
            "objective: max_target_length must be at least 1 or null, got 0",
        ),
        (
            changed(objective={"name": "span_corruption", "max_target_length": -1}),
            "objective: max_target_length must be at least 1 or null, got -1",
        ),
        (
            changed(objective={"name": "retrieval", "temperature": 0}),
            "objective: temperature must be above 0, got 0",
        ),
        (
            changed(objective={"name": "retrieval", "distillation": -1}),
            "objective: distillation must be at least 0, got -1",
        ),
        (
            changed(objective={"name": "retrieval", "chunk_tokens": 0}),
            "objective: chunk_tokens must be at least 1, got 0",
        ),
        (changed(batch={}), "batch: give either tokens or documents"),
        (changed(batch={"tokens": "x"}), "batch: tokens: .* valid integer.*, got 'x'"),
        (changed(batch={"tokens": 0}), "batch: must be at least 1"),
        (
            changed(training={"learning_rat": 1}),
            "training: unknown entry 'learning_rat': did you mean 'learning_rate'",
        ),
        (
            changed(training={"per_device_train_batch_size": 1}),
            "training: unknown entry 'per_device_train_batch_size'",
        ),
        (
            changed(objective={"name": "classification", "labels": ["a"]}),
            "objective: labels must be at least two",
        ),
        (
            changed(objective={"name": "span_corruption", "noise_density": 3}),
            "objective: noise_density must be between",
        ),
    ],
)
def test_a_wrong_recipe_says_where(data, message):
    with pytest.raises(ValueError, match=message):
        Recipe.from_dict(data)


def test_missing_files_and_invalid_overrides(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no recipe 'hdt-x': name a"):
        Recipe.load("hdt-x")
    with pytest.raises(
        FileNotFoundError, match=r"nope\.yaml does not exist: .* or name one of egad"
    ):
        Recipe.load("nope.yaml")
    with pytest.raises(FileNotFoundError):
        Recipe.load(tmp_path / "none.yaml")
    with pytest.raises(ValueError, match=r"has the form section\.entry=value, got 'max_steps'"):
        Recipe.load("hdt-e", ["max_steps"])
    with pytest.raises(ValueError, match=r"the recipe has no entry tokenizer\.a\.b"):
        Recipe.load("hdt-e", ["tokenizer.a.b=3"])
    file = tmp_path / "bad.yaml"
    file.write_text("a: [")
    with pytest.raises(ValueError, match=r"bad\.yaml: "):
        Recipe.load(file)


def test_files_without_examples_are_named(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(ValueError, match=r"no example in .*empty\.jsonl"):
        load_examples(Data((str(empty),), benchmark="arxiv"), [str(empty)])
