import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
import transformers
import yaml
from filelock import FileLock
from transformers import AutoModelForMaskedLM, AutoProcessor

from foveate.models.accelerate import patches
from foveate.models.accelerate.cuda_graphs import CapturableEncoder
from foveate.models.hdt import (
    HDTConfig,
    HDTForConditionalGeneration,
    HDTForMaskedLM,
    HDTModel,
    modeling_hdt,
)
from foveate.models.masked_lm import masked_lm_output
from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
from foveate.models.vcc import VccRobertaForMaskedLM, VccT5ForConditionalGeneration
from foveate.preprocessing import HDTProcessor, load_processor
from foveate.training import Recipe, build_trainer, recipe_names, train
from foveate.training import run as training_run
from tests.conftest import random_record

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
QUICK = {
    "use_cpu": True,
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
    "logging_steps": 1,
    "bf16": False,
    "fp16": False,
}


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setattr(transformers.PrinterCallback, "on_log", lambda *args, **kwargs: None)


def masked_lm(corpus_file, changes=None, **training):
    return Recipe.from_dict(
        {
            "model": {"type": "hdt", **TINY},
            "tokenizer": 420,
            "objective": {"name": "masked_lm"},
            "data": {"train": str(corpus_file), "dev": str(corpus_file)},
            "batch": {"tokens": 150},
            "training": {**QUICK, "learning_rate": 0.01, **training},
            **(changes or {}),
        }
    )


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of machines without a GPU")
def test_recipes_for_gpus_run_without_one(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, {"training": {"bf16": True}})
    assert build_trainer(recipe, tmp_path).args.device.type == "cpu"


@pytest.mark.parametrize("asked", [None, False])
def test_training_predicts_masked_tokens_only(asked, corpus_file, tmp_path, monkeypatch):
    seen = []

    def recording(*args, sparse):
        seen.append(sparse)
        return masked_lm_output(*args, sparse=sparse)

    monkeypatch.setattr(modeling_hdt, "masked_lm_output", recording)
    options = {} if asked is None else {"sparse_prediction": asked}
    model = {"model": {"type": "hdt", **TINY, **options}}
    recipe = masked_lm(corpus_file, model, max_steps=2, save_steps=1)
    trainer = train(recipe, tmp_path)
    assert set(seen) == {asked is None}  # also after the first checkpoint was saved
    assert len(seen) == 2
    assert trainer.model.config.sparse_prediction is False
    for folder in (tmp_path / "checkpoint-1", tmp_path):
        assert HDTForMaskedLM.from_pretrained(folder).config.sparse_prediction is False


def test_without_held_out_files_nothing_is_evaluated(corpus_file, tmp_path):
    steps = {"eval_strategy": "steps", "load_best_model_at_end": True}
    recipe = masked_lm(corpus_file, {"data": {"train": str(corpus_file)}}, **steps)
    arguments = build_trainer(recipe, tmp_path).args
    assert (arguments.eval_strategy, arguments.load_best_model_at_end) == ("no", False)


def test_there_are_no_more_workers_than_processors(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, dataloader_num_workers=10_000)
    assert build_trainer(recipe, tmp_path).args.dataloader_num_workers == os.cpu_count()


@pytest.mark.parametrize("pinned", [True, False])
def test_steps_do_not_wait_for_batches_or_losses(corpus_file, tmp_path, pinned):
    on_gpu = {"use_cpu": False, "dataloader_pin_memory": pinned}
    arguments = build_trainer(masked_lm(corpus_file, **on_gpu), tmp_path).args
    # Only pinned memory can be copied while the host goes on.
    assert arguments.accelerator_config.non_blocking == pinned
    assert not arguments.logging_nan_inf_filter
    recipe = masked_lm(corpus_file, {"data": {"train": str(corpus_file)}})
    chosen = {**recipe.to_dict(), "training": {**QUICK, "logging_nan_inf_filter": True}}
    arguments = build_trainer(Recipe.from_dict(chosen), tmp_path / "chosen").args
    assert arguments.logging_nan_inf_filter


def test_on_a_cpu_there_is_nothing_to_copy_ahead(corpus_file, tmp_path):
    arguments = build_trainer(masked_lm(corpus_file), tmp_path).args
    assert not arguments.accelerator_config.non_blocking  # else transformers warns


def losses(trainer):
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


class Killed(transformers.TrainerCallback):
    """Ends the run in the middle of a step, before its gradients are all there."""

    def on_substep_end(self, args, state, control, **kwargs):
        if state.global_step == 5:
            raise KeyboardInterrupt


def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(corpus_file, tmp_path):
    recipe = masked_lm(
        corpus_file,
        max_steps=8,
        gradient_accumulation_steps=2,
        save_steps=2,
        dataloader_num_workers=1,
    )
    whole = train(recipe, tmp_path / "whole")
    broken = build_trainer(recipe, tmp_path / "broken")
    broken.add_callback(Killed())
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    resumed = train(recipe, tmp_path / "broken")
    assert len(losses(whole)) == 8
    assert losses(resumed) == losses(whole)
    weights = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(*both) for both in weights)
    assert losses(whole)[-1] < losses(whole)[0]


@pytest.mark.parametrize("state", [None, "", '{"epoch": 1, "glob'])
def test_a_checkpoint_that_was_not_written_to_its_end(state, corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, max_steps=4, save_steps=1)
    expected = losses(train(recipe, tmp_path))
    for name in ("checkpoint-3", "checkpoint-4"):
        (tmp_path / name / "trainer_state.json").unlink()
        if state is not None:
            (tmp_path / name / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-4" / "tokenizer.json").unlink()
    shutil.copytree(tmp_path / "checkpoint-1", tmp_path / "checkpoint-best-900")
    again = train(recipe, tmp_path)
    assert again.state.global_step == 4
    assert losses(again) == expected


def test_damaged_weights_are_named(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, max_steps=2, save_steps=1)
    train(recipe, tmp_path)
    (tmp_path / "checkpoint-2" / "model.safetensors").write_bytes(b"xx")
    with pytest.raises(ValueError, match=r"checkpoint-2.model\.safetensors is damaged .*: remove"):
        train(recipe, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint-2")
    assert train(recipe, tmp_path).state.global_step == 2


def test_two_runs_do_not_write_to_the_same_folder(corpus_file, tmp_path):
    recipe, output = masked_lm(corpus_file, max_steps=1, save_strategy="no"), tmp_path / "out"
    output.mkdir()
    with (
        FileLock(output / ".training.lock"),
        pytest.raises(OSError, match=r"another run is writing to .*out: wait"),
    ):
        train(recipe, output)
    train(recipe, output)
    assert not (output / ".training.lock").exists()


def test_a_run_that_begins_as_another_ends_keeps_its_lock(corpus_file, tmp_path, monkeypatch):
    next_run = FileLock(tmp_path / ".training.lock")

    class Lock:
        def __init__(self, path):
            self.lock = FileLock(path)

        def acquire(self, timeout):
            self.lock.acquire(timeout=timeout)

        def release(self):
            self.lock.release()
            next_run.acquire(timeout=0)

    monkeypatch.setattr(training_run, "FileLock", Lock)
    recipe = masked_lm(corpus_file, max_steps=1, save_strategy="no")
    train(recipe, tmp_path)
    with pytest.raises(OSError, match="another run is writing to"):
        train(recipe, tmp_path)
    next_run.release()


def test_a_folder_that_cannot_be_written_to_is_named_first(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, {"data": {"train": "nowhere"}})
    for output in (corpus_file, corpus_file / "out"):
        with pytest.raises(
            OSError, match=r"voyages\.jsonl.* cannot be written to \(.*\): name anot"
        ):
            train(recipe, output)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": "{}"}, "holds a model, but no recipe.yaml that says how"),
        ({"checkpoint-3/trainer_state.json": "{}"}, "holds a model, but no recipe.yaml"),
        ({"recipe.yaml": "cake: yes"}, "recipe.yaml: unknown entry 'cake': correct this file, or"),
        ({"recipe.yaml": "]"}, r"recipe.yaml: while parsing [^:]*(.|\n)*: correct this file, or"),
        ({"recipe.yaml": b"\xff"}, "recipe.yaml is not valid UTF-8"),
    ],
)
def test_what_others_put_into_the_output_folder_is_kept(files, message, corpus_file, tmp_path):
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        train(masked_lm(corpus_file, max_steps=1), tmp_path)
    found = {
        file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.*") if file.is_file()
    }
    assert found == set(files)


def test_a_trained_model_is_not_replaced_by_another_run(corpus_file, tmp_path):
    train(masked_lm(corpus_file, max_steps=1, save_strategy="no"), tmp_path)
    trained = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"another recipe, which differs in training\.seed"):
        train(masked_lm(corpus_file, max_steps=1, save_strategy="no", seed=7), tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == trained


def test_the_same_recipe_in_the_output_folder_keeps_its_comments(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, max_steps=1, save_strategy="no")
    sections = {**recipe.to_dict(), "objective": {"name": "masked_lm"}}  # without its defaults
    text = f"# mine\n{json.dumps(sections)}\n"
    (tmp_path / "recipe.yaml").write_text(text)
    train(tmp_path / "recipe.yaml", tmp_path)
    assert (tmp_path / "recipe.yaml").read_text() == text
    changed = masked_lm(corpus_file, max_steps=2, save_strategy="no")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "recipe.yaml").write_text(text)  # of a run that did not get far
    train(changed, tmp_path / "new")
    assert Recipe.load(tmp_path / "new" / "recipe.yaml") == changed


def test_a_recipe_by_path_and_by_name(corpus_file, tmp_path):
    file = tmp_path / "r.yaml"
    recipe = masked_lm(corpus_file, max_steps=1, save_strategy="no")
    file.write_text(json.dumps(recipe.to_dict()))
    assert train(file, tmp_path / "out").state.global_step == 1
    assert Recipe.load(tmp_path / "out" / "recipe.yaml") == recipe
    with pytest.raises(FileNotFoundError, match="corpus/train does not exist"):
        train("hdt-e", tmp_path / "named")
    with pytest.raises(FileNotFoundError, match="there is no recipe 'hdt-x'"):
        train("hdt-x", tmp_path / "named")
    assert not (tmp_path / "named").exists()


def test_data_that_is_missing_is_reported_before_anything_is_written(corpus_file, tmp_path):
    data = {"train": str(corpus_file), "dev": "nowhere.jsonl"}
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl does not exist"):
        build_trainer(masked_lm(corpus_file, {"data": data}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_accelerate_must_be_installed(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("foveate.training.run.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[training\]'`"):
        build_trainer(masked_lm(corpus_file), tmp_path)


def test_what_reports_must_be_installed(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="wandb"):
        build_trainer(masked_lm(corpus_file, report_to="wandb"), tmp_path)


@pytest.mark.parametrize("kind", ["hdt", "fovea", "vcc_t5", "vcc_bert"])
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
    triplets = {"objective": {"name": "contrastive", "loss": "triplet"}}
    with pytest.raises(ValueError, match=r"line 1 .*: the triplet loss needs a negative"):
        build_trainer(masked_lm(data, triplets), tmp_path / "other")


def test_a_run_goes_on_with_its_own_vocabulary_and_recipe(tmp_path):
    data, output = tmp_path / "c.jsonl", tmp_path / "out"
    lines = [random_record(i) for i in range(12)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first = train(masked_lm(data, max_steps=2, save_steps=1), output)
    vocabulary = first.processing_class.tokenizer.get_vocab()
    lines += [{"text": f"Quick zebras jump over {i} foxes. " * 9} for i in range(12)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = build_trainer(Recipe.load(output / "recipe.yaml"), output)
    assert again.processing_class.tokenizer.get_vocab() == vocabulary
    anew = build_trainer(masked_lm(data, max_steps=2, save_steps=1), tmp_path / "other")
    assert anew.processing_class.tokenizer.get_vocab() != vocabulary
    wider = {"model": {"type": "hdt", **TINY, "d_ff": 32}}
    with pytest.raises(ValueError, match=r"differs in model\.d_ff, training\.max_steps: name"):
        build_trainer(masked_lm(data, wider, max_steps=9, save_steps=1), output)


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
        ({"speed_up": "yes"}, "model: speed_up must be of type bool, got 'yes'"),
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
        ("many", "model: max_position_embeddings must be of type int or null"),
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


def test_the_output_is_a_model_that_reads(corpus_file, tmp_path, samples):
    trainer = train(masked_lm(corpus_file, num_train_epochs=1.5, eval_strategy="steps"), tmp_path)
    packs = trainer.train_dataset
    assert trainer.state.global_step == len(packs) > packs.count_packs(1)
    first, second = (trainer.evaluate()["eval_loss"] for _ in range(2))
    assert first == second
    processor = AutoProcessor.from_pretrained(tmp_path)
    assert isinstance(processor, HDTProcessor)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert model(**processor(samples[0].document)).logits.shape[-1] == len(processor.tokenizer)


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


def test_gradient_checkpointing_changes_no_loss(corpus_file, tmp_path):
    found = [
        losses(train(masked_lm(corpus_file, max_steps=3, **more), tmp_path / str(i)))
        for i, more in enumerate([{}, {"gradient_checkpointing": True}])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_what_a_compiler_replaces_is_not_captured(corpus_file, tmp_path):
    for compiles in (False, True):
        recipe = masked_lm(corpus_file, torch_compile=compiles)
        trainer = build_trainer(recipe, tmp_path / str(compiles))
        encoders = [x for x in trainer.model.modules() if isinstance(x, CapturableEncoder)]
        assert [x.uses_cuda_graphs for x in encoders] == [not compiles]


def test_models_are_captured_where_they_are_trained(corpus_file, tmp_path, monkeypatch):
    steps = []
    move, name = HDTForMaskedLM.to, "foveate.training.run.capture"
    monkeypatch.setattr(HDTForMaskedLM, "to", lambda *args: steps.append("to") or move(*args))
    monkeypatch.setattr(name, lambda model: steps.append("capture"))
    build_trainer(masked_lm(corpus_file), tmp_path)
    assert steps == ["to", "capture"]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_model_learns_the_same(corpus_file, tmp_path):
    # aot_eager traces as the default backend does, and leaves out compiling C++.
    compiled = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    found = [
        losses(train(masked_lm(corpus_file, max_steps=3, **more), tmp_path / str(i)))
        for i, more in enumerate([{}, compiled])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_two_processes_learn_what_one_learns(corpus_file, tmp_path):
    recipe = {
        "model": {"type": "hdt", **TINY, "dropout_rate": 0.0},
        "tokenizer": 420,
        "objective": {"name": "masked_lm"},
        "data": {"train": str(corpus_file)},
        "batch": {"tokens": 150},
        "training": {**QUICK, "max_steps": 3, "learning_rate": 0.01, "save_strategy": "no"},
    }
    alone = {**recipe["training"], "gradient_accumulation_steps": 2}
    expected = losses(train(Recipe.from_dict({**recipe, "training": alone}), tmp_path / "one"))
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--no-python", sys.executable, "-c", "from foveate.cli import main; main()"]
    command += ["train", str(tmp_path / "r.yaml"), "--output", str(tmp_path / "two")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    state = json.loads((tmp_path / "two" / "trainer_state.json").read_text())
    found = [log["loss"] for log in state["log_history"] if "loss" in log]
    assert found == pytest.approx(expected, rel=1e-4)


def checkpoint(kind, folder, tokenizer):
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    bert = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    bert |= {"num_attention_heads": 2, "max_position_embeddings": 300}
    t5 = {**TINY, "num_decoder_layers": 1, "decoder_start_token_id": 0}
    led = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 8}
    led |= {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("attention_heads",)}
    led |= {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_encoder_position_embeddings": 512}
    model = {
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**sizes, **bert)),
        "tree-bert": lambda: TreeBertModel(TreeBertConfig(**sizes, **bert)),
        "hdt": lambda: HDTModel(HDTConfig(**sizes, **TINY)),
        "hdt-ed": lambda: HDTForConditionalGeneration(
            HDTConfig(**sizes, **TINY, num_decoder_layers=1)
        ),
        "roberta": lambda: transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(**sizes, **bert)
        ),
        "vcc-roberta": lambda: VccRobertaForMaskedLM(
            VccRobertaForMaskedLM.config_class(**sizes, **bert)
        ),
        "vcc-t5": lambda: VccT5ForConditionalGeneration(
            VccT5ForConditionalGeneration.config_class(**sizes, **t5)
        ),
        "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **t5)),
        "longt5": lambda: transformers.LongT5ForConditionalGeneration(
            transformers.LongT5Config(**sizes, **t5, local_radius=3, global_block_size=2)
        ),
        "led": lambda: transformers.LEDForConditionalGeneration(
            transformers.LEDConfig(**sizes, **led)
        ),
    }[kind]()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


CHECKPOINTS = {
    "hdt-e-anchor-classification": "hdt",
    "hdt-e-contrastive": "hdt",
    "hdt-e-classification": "hdt",
    "hdt-ed-summarization": "hdt-ed",
    "vcc-roberta": "roberta",
    "vcc-roberta-hotpotqa": "vcc-roberta",
    "vcc-roberta-quality": "vcc-roberta",
    "vcc-roberta-wikihop": "vcc-roberta",
    "vcc-t5": "t5",
    "vcc-t5-finetuning": "vcc-t5",
    "fovea": "longt5",
    "egad": "led",
    "tree-bert": "bert",
    "tree-bert-finetuning": "tree-bert",
}
"""Checkpoints that recipes start from."""

TREE, TEXT = {"input_ids", "parent_ids"}, {"input_ids", "attention_mask"}
VIPS = TEXT | {"vip_mask"}
PAIRS = VIPS | {"token_type_ids"}
LIKE_INPUTS = ("inputs",)
GENERATED = (2, "any")
ANCHORS = ("inputs", 15)
EXPECTED = {
    "egad": ("LEDForConditionalGeneration", TEXT | {"global_attention_mask"}, (2,), GENERATED),
    "fovea": ("FoveaForConditionalGeneration", TEXT, (2,), GENERATED),
    "hdt-e": ("HDTForMaskedLM", TREE, (1,), LIKE_INPUTS),
    "hdt-e-anchor-classification": ("HDTForAnchorClassification", TREE, (1,), ANCHORS),
    "hdt-e-classification": ("HDTForSequenceClassification", TREE | TEXT, (2,), (2, 10)),
    "hdt-e-contrastive": ("HDTModel", TREE | TEXT, (6,), (2,)),
    "hdt-ed": ("HDTForConditionalGeneration", TREE, (1,), GENERATED),
    "hdt-ed-summarization": ("HDTForConditionalGeneration", TREE, (1,), GENERATED),
    "tree-bert": ("TreeBertModel", None, None, None),  # its batches have a form of their own
    "tree-bert-finetuning": ("TreeBertModel", None, None, None),
    "vcc-roberta": ("VccRobertaForMaskedLM", PAIRS, (2,), LIKE_INPUTS),
    "vcc-roberta-hotpotqa": ("VccRobertaForQuestionAnswering", PAIRS, (2,), (2,)),
    "vcc-roberta-quality": ("VccRobertaForMultipleChoice", PAIRS, (2, 2), (2,)),
    "vcc-roberta-wikihop": ("VccRobertaForMultipleChoice", PAIRS, (2, 2), (2,)),
    "vcc-t5": ("VccT5ForConditionalGeneration", VIPS, (2,), GENERATED),
    "vcc-t5-finetuning": ("VccT5ForConditionalGeneration", VIPS, (2,), GENERATED),
}
"""For each recipe, the class of its model; the columns of a batch of two documents that the model
takes, and their sizes except the length; and the sizes of the targets."""


def section(part):
    text = " ".join(part["sentences"])
    return {"section_title": part["heading"], "paragraphs": [text], "subsections": []}


def benchmark_record(benchmark, number):
    """A made-up record in the form in which the benchmark is published."""
    document = random_record(number)
    titles = [part["heading"] for part in document["sections"]]
    texts = [part["sentences"] for part in document["sections"]]
    text = "\n\n".join(" ".join(sentences) for sentences in texts)
    facets = ["Purpose", "Design/methodology/approach", "Findings", "Originality/value"]
    question = {"question": "Does the ship swim?", "question_unique_id": f"q{number}"}
    return {
        "": document,
        "arxiv": {
            "article_id": str(number),
            "section_names": titles,
            "sections": texts,
            "abstract_text": ["<S> the whale </S>"],
        },
        "ecthr": {"case_id": str(number), "facts": texts[0], "violated_articles": ["3"]},
        "ecthr_arg": {
            "case_id": str(number),
            "paragraphs": [" ".join(sentences) for sentences in texts],
            "labels": [["Subsumtion", "Overruling"] for _ in texts],
        },
        "facetsum_sections": {
            "id": str(number),
            "title": document["title"],
            "section_names": titles,
            "sections": texts,
            "abstract_sections_names": facets,
            "abstract_sections": [["the whale"]] * 4,
        },
        "govreport": {
            "id": str(number),
            "title": document["title"],
            "summary": ["the whale"],
            "reports": section(document["sections"][0]),
        },
        "hotpotqa": {
            "_id": str(number),
            "question": "What swims?",
            "answer": "the whale",
            "context": [[title, own] for title, own in zip(titles, texts, strict=True)],
        },
        "quality": {
            "article": text,
            "questions": [{**question, "options": ["the whale", "the ship"], "gold_label": 1}],
        },
        "wikihop": {
            "id": str(number),
            "query": "swims_with ship",
            "supports": [text],
            "candidates": ["the whale", "the ship"],
            "answer": "the whale",
        },
    }[benchmark]


def write_benchmark(benchmark, folder):
    """Write made-up files in the form in which the benchmark is published; return the path."""
    if benchmark == "multi_news":
        (folder / "train.tgt").write_text("the whale\n" * 12)
        text = "the whale swims ||||| a ship follows home again\n"
        (folder / "train.src.cleaned").write_text(text * 12)
        return folder / "train.src.cleaned"
    records = [benchmark_record(benchmark, i) for i in range(12)]
    if benchmark in ("hotpotqa", "wikihop"):
        (folder / "train.json").write_text(json.dumps(records))
        return folder / "train.json"
    (folder / "train.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder / "train.jsonl"


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_trains_on_small_data(name, tmp_path, small_tokenizer, bert_tokenizer):
    if name == "hdt-e-contrastive":
        data = tmp_path / "triplets.jsonl"
        parts = ("anchor", "positive", "negative")
        lines = [{part: random_record(i + j) for j, part in enumerate(parts)} for i in range(6)]
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        data = write_benchmark(Recipe.load(name).data.benchmark, tmp_path)
    entries = {"data.train": data, "training.max_steps": 2, "training.warmup_steps": 0}
    entries |= {f"training.{entry}": value for entry, value in QUICK.items()}
    entries |= {"training.gradient_accumulation_steps": 2, "training.save_strategy": "no"}
    entries |= {"training.eval_strategy": "no", "training.load_best_model_at_end": False}
    entries |= {"batch": "{documents: 2}", "data.dev": "[]"}
    if name in CHECKPOINTS:
        # BERT's, LED's and RoBERTa's tokenizers put special tokens around a text.
        encloses = CHECKPOINTS[name] in ("bert", "tree-bert", "led", "roberta", "vcc-roberta")
        tokenizer = bert_tokenizer if encloses else small_tokenizer
        checkpoint(CHECKPOINTS[name], tmp_path / "model", tokenizer)
        entries["model.checkpoint"] = tmp_path / "model"
    else:
        entries["tokenizer"] = 420
        entries |= {f"model.{entry}": value for entry, value in TINY.items()}
    if name == "tree-bert":
        entries["training.dataloader_prefetch_factor"] = "null"  # there are no workers
    if "roberta" in name:
        entries["processor.max_length"] = 256
    recipe = Recipe.load(name, [f"{entry}={value}" for entry, value in entries.items()])
    trainer = train(recipe, tmp_path / "out")
    assert len(losses(trainer)) == 2
    assert all(0 < loss < 50 for loss in losses(trainer))

    kind, columns, leading, target = EXPECTED[name]
    assert type(trainer.model).__name__ == kind
    config = trainer.model.config
    for entry in recipe.model.keys() - {"checkpoint", "type", "speed_up"}:
        assert getattr(config, entry) == recipe.model[entry]
    if recipe.model.get("speed_up"):
        assert patches(trainer.model)
    processor, saved = trainer.processing_class, load_processor(tmp_path / "out", config)
    assert type(saved) is type(processor)
    example = trainer.train_dataset.examples[0]
    for entry, value in recipe.processor.items():
        assert getattr(saved, entry) == value
    asked = {"query": example.query, "choices": example.choices}
    expected = processor.features(example.document, **asked)
    assert all(
        torch.equal(column, expected[column_name])
        for column_name, column in saved.features(example.document, **asked).items()
    )
    batch = trainer.data_collator([trainer.train_dataset[0]])
    if kind == "TreeBertModel":
        assert len(batch["targets"]["document"].unique()) == 2
        return
    targets = {"start_positions", "end_positions"} if name.endswith("hotpotqa") else {"labels"}
    assert set(batch) == columns | targets
    inputs = batch["input_ids"].shape
    assert inputs[:-1] == leading
    assert all(batch[column].shape == inputs for column in columns)
    for column in targets:
        shape = tuple(batch[column].shape)
        assert shape == {
            LIKE_INPUTS: inputs,
            GENERATED: (2, shape[-1]),
            ANCHORS: (*inputs, 15),
        }.get(target, target)


def egad(folder, tokenizer, processor, **training):
    """The recipe `egad`, with a small model, small data and other keywords."""
    checkpoint("led", folder / "model", tokenizer)
    entries = {"data.train": write_benchmark("arxiv", folder), "data.dev": "[]"}
    entries |= {"model.checkpoint": folder / "model", "batch": "{documents: 2}"}
    training = {**QUICK, "gradient_accumulation_steps": 1, "save_strategy": "no", **training}
    entries |= {f"training.{entry}": value for entry, value in training.items()}
    entries |= {f"processor.{entry}": value for entry, value in processor.items()}
    return Recipe.load("egad", [f"{entry}={value}" for entry, value in entries.items()])


@pytest.mark.parametrize(
    "detector",
    [
        "tfidf",
        "{name: yake, max_words: 1}",
        "{name: embedding, diversity: 0.7}",
        "{name: random, seed: 5}",
        "{name: gibberish, seed: 5}",
        "{name: given, keywords: [whale, ship]}",
    ],
)
def test_egad_trains_with_every_detector(detector, tmp_path, bert_tokenizer):
    recipe = egad(tmp_path, bert_tokenizer, {"num_keywords": 2, "detector": detector}, max_steps=1)
    trainer = train(recipe, tmp_path / "out")
    assert len(losses(trainer)) == 1
    saved = load_processor(tmp_path / "out", trainer.model.config)
    assert saved.detector == recipe.processor["detector"]
    document = trainer.train_dataset.examples[0].document
    keywords = " ".join(saved.keywords(document))
    batch = trainer.data_collator([trainer.train_dataset[0]])
    num_tokens = len(bert_tokenizer(keywords, add_special_tokens=False)["input_ids"])
    features = saved.features(document)
    assert features["global_attention_mask"].sum() == 1 + num_tokens
    assert (batch["global_attention_mask"].sum(1) > 1).all()


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        ({"detector": "rake"}, "processor: there is no detector 'rake': name one of tfidf"),
        ({"detector": "{name: yake, words: 2}"}, "processor: the detector 'yake' has no option"),
        ({"detector": "3"}, "processor: `detector` is neither a name, a mapping nor callable"),
        ({"detector": "yake", "language": "ja"}, "processor: YAKE needs spaces between words"),
        ({"num_keywords": "-1"}, "processor: num_keywords must be at least 0, got -1"),
    ],
)
def test_a_wrong_detector_of_egad_is_named(processor, message, tmp_path, bert_tokenizer):
    with pytest.raises(ValueError, match=message):
        build_trainer(egad(tmp_path, bert_tokenizer, processor), tmp_path / "out")


def test_labels_are_smoothed(tmp_path, bert_tokenizer):
    recipe = egad(tmp_path, bert_tokenizer, {}, max_steps=1, label_smoothing_factor=0.2)
    trainer = build_trainer(recipe, tmp_path / "out")
    model = trainer.model.eval()
    batch = trainer.data_collator([trainer.train_dataset[0]])
    with torch.no_grad():
        log_probabilities = model(**batch).logits.log_softmax(-1)
        loss = trainer.compute_loss(model, dict(batch))
    counts = batch["labels"] != -100
    true = log_probabilities.gather(2, batch["labels"].clamp(min=0)[..., None])[..., 0]
    expected = -(0.8 * true + 0.2 * log_probabilities.mean(-1))[counts].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert len(losses(train(recipe, tmp_path / "out"))) == 1


def test_labels_that_cannot_be_smoothed(corpus_file, tmp_path):
    changes = {"objective": {"name": "contrastive"}}
    recipe = masked_lm(corpus_file, changes, label_smoothing_factor=0.1)
    with pytest.raises(ValueError, match="label_smoothing_factor has no effect on this objective"):
        build_trainer(recipe, tmp_path)
