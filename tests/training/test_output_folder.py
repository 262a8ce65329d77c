"""The folder to which a run writes, and what is in it already."""

import json

import pytest

from foveate.training import Recipe, build_trainer, train
from tests.training.conftest import masked_lm


def test_a_folder_that_cannot_be_written_to_is_named(corpus_file):
    for output in (corpus_file, corpus_file / "out"):
        with pytest.raises(OSError, match=r"voyages\.jsonl"):
            build_trainer(masked_lm(corpus_file), output)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": "{}"}, "holds a model, but no recipe.yaml that says how"),
        ({"checkpoint-3/trainer_state.json": "{}"}, "holds a model, but no recipe.yaml"),
        ({"recipe.yaml": "cake: yes"}, "recipe.yaml: objective: .*: correct this file, or"),
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
    with pytest.raises(ValueError, match=r"another recipe, which differs in training"):
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


def test_data_that_is_missing_is_reported_before_anything_is_written(corpus_file, tmp_path):
    data = {"train": str(corpus_file), "dev": "nowhere.jsonl"}
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl does not exist"):
        build_trainer(masked_lm(corpus_file, {"data": data}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
