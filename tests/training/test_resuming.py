"""Runs that go on where another one ended."""

import json
import shutil

import pytest
import torch

from foveate.training import Recipe, build_trainer, train
from tests.conftest import random_record
from tests.training.conftest import TINY, losses, masked_lm, whole_and_resumed


def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(corpus_file, tmp_path):
    recipe = masked_lm(
        corpus_file,
        max_steps=8,
        gradient_accumulation_steps=2,
        save_steps=2,
        dataloader_num_workers=1,
    )
    whole, resumed = whole_and_resumed(recipe, tmp_path, step=5)
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
    with pytest.raises(ValueError, match=r"differs in model, training: name"):
        build_trainer(masked_lm(data, wider, max_steps=9, save_steps=1), output)
