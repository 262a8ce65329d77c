"""The default model is found and checked; a folder that lacks something says what."""

import sys

import pytest
from safetensors.torch import load_file, save_file

from foveate import Encoder
from foveate.cli import main
from foveate.inference import default_model_path, encoder
from tests.tree_bert import save_tree_bert

PACKAGE = "foveate_tree_bert"

find = default_model_path.__wrapped__  # without the cache


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in place of the default model's, with the same weights."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "model.safetensors").symlink_to(default_model_path() / "model.safetensors")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    return folder


def test_the_folder_of_the_package(package):
    assert find() == package


def test_weights_that_are_not_the_published_ones(package):
    (package / "model.safetensors").unlink()
    (package / "model.safetensors").write_bytes(b"others")
    with pytest.raises(ValueError, match=r"does not hold the published weights .*: reinstall"):
        find()


def test_missing_weights(package):
    (package / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"lacks model\.safetensors: reinstall foveate"):
        find()


def test_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(ImportError, match=r"is not installed: reinstall foveate"):
        find()


def without(*prefixes):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        kept = {name: x for name, x in tensors.items() if not name.startswith(prefixes)}
        assert len(kept) < len(tensors)
        (folder / "model.safetensors").unlink()
        save_file(kept, folder / "model.safetensors", {"format": "pt"})

    return change


def remove(*names):
    def change(folder):
        for name in names:
            (folder / name).unlink()

    return change


def read_as_text(folder):
    (folder / "processor_config.json").write_text('{"processor_class": "TextProcessor"}')


TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
LACKING = {
    "heads": (
        without("pooling.", "salience."),
        ValueError,
        r"model lacks 8 parameters of a TreeBertModel, such as pooling\.bias",
    ),
    "salience head": (
        without("salience."),
        ValueError,
        r"model lacks 6 parameters of a TreeBertModel, such as salience\.dense\.bias",
    ),
    "processor": (
        remove("processor_config.json"),
        ValueError,
        r"model has no processor_config\.json, .*: save the TreeBertProcessor",
    ),
    "processor of trees": (
        read_as_text,
        ValueError,
        "or one that does not say how documents become trees: save the TreeBertProcessor",
    ),
    "tokenizer": (remove(*TOKENIZER), ValueError, "model has no tokenizer: save the tokenizer"),
    "tokenizer.json": (remove(TOKENIZER[0]), ValueError, "model has no tokenizer: save"),
    "tokenizer_config.json": (remove(TOKENIZER[1]), ValueError, "tokenizer names no CLS token"),
    "weights": (remove("model.safetensors"), OSError, r"no file named model\.safetensors"),
    "configuration": (remove("config.json"), OSError, r"model is not a checkpoint: it has no conf"),
    "all but the weights": (
        remove(*TOKENIZER, "processor_config.json"),
        ValueError,
        "model has no tokenizer",
    ),
}


@pytest.fixture
def folder(tmp_path, tokenizer):
    save_tree_bert(tmp_path / "model", tokenizer)
    return tmp_path / "model"


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["foveate", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code or 0, capsys.readouterr().err


@pytest.mark.parametrize("part", LACKING)
def test_a_folder_that_lacks_a_part_says_which(part, folder, tmp_path, monkeypatch, capsys):
    text = tmp_path / "whale.txt"
    text.write_text("The whale swims. It dives.")
    embed = ("embed", text, "--model", folder, "--output", tmp_path / "v.safetensors")
    assert run(monkeypatch, capsys, *embed)[0] == 0
    remove_part, exception, message = LACKING[part]
    remove_part(folder)
    with pytest.raises(exception, match=message):
        Encoder.from_pretrained(folder)
    code, error = run(monkeypatch, capsys, *embed)
    assert code == 2
    lines = [line for line in error.splitlines() if line]
    assert len(lines) == 1
    assert lines[0].startswith("foveate: ")


def test_the_command_line_without_the_default_model(tmp_path, monkeypatch, capsys):
    text = tmp_path / "whale.txt"
    text.write_text("The whale swims. It dives.")
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    monkeypatch.setattr(encoder, "default_model_path", find)
    code, error = run(monkeypatch, capsys, "search", "whale", text, "--device", "cpu")
    assert code == 2
    assert error.startswith("foveate: the default model is not installed: reinstall foveate")
