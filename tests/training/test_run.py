"""Runs of training: what they log, how they use devices, and the model that they give."""

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoProcessor

from foveate.models.hdt import HDTForMaskedLM
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
from foveate.preprocessing import HDTProcessor
from foveate.training import Recipe, build_trainer, train
from tests.profiles import NIGHTLY
from tests.training.conftest import QUICK, TINY, losses, masked_lm


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of machines without a GPU")
def test_recipes_for_gpus_run_without_one(corpus_file, tmp_path):
    recipe = masked_lm(corpus_file, {"training": {"bf16": True}})
    assert build_trainer(recipe, tmp_path).args.device.type == "cpu"


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


def test_accelerate_must_be_installed(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("foveate.training.run.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[training\]'`"):
        build_trainer(masked_lm(corpus_file), tmp_path)


def test_what_reports_must_be_installed(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="wandb"):
        build_trainer(masked_lm(corpus_file, report_to="wandb"), tmp_path)


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


@pytest.mark.skipif(not NIGHTLY, reason="compiling takes half a minute")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_model_learns_the_same(corpus_file, tmp_path):
    # aot_eager traces as the default backend does, and leaves out compiling C++.
    compiled = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    found = [
        losses(train(masked_lm(corpus_file, max_steps=3, **more), tmp_path / str(i)))
        for i, more in enumerate([{}, compiled])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.skipif(not NIGHTLY, reason="starting processes that train takes long")
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
