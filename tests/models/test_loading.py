"""Checkpoints that are not whole: refused in one sentence, never filled up at random."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    ByT5Tokenizer,
    PreTrainedTokenizerFast,
    T5Config,
)

from foveate.models.fovea import FoveaConfig
from foveate.models.hdt import HDTConfig
from foveate.models.loading import load_config, load_model
from foveate.models.vcc import VccBertConfig
from foveate.preprocessing import load_tokenizer
from tests.led import bpe

SIZES = {
    "vocab_size": 300,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(**SIZES)).save_pretrained(tmp_path / "bert")
    bpe(["cod swim"]).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def weights(folder, change):
    path = folder / "model.safetensors"
    tensors = change(load_file(path))
    path.unlink()
    save_file(tensors, path, {"format": "pt"})


def test_a_whole_checkpoint(folder):
    assert load_config(folder).model_type == "bert"
    model = load_model(AutoModel, folder, dtype=torch.bfloat16)  # its pooler is missing
    assert model.dtype == torch.bfloat16
    assert isinstance(load_tokenizer(str(folder)), PreTrainedTokenizerFast)


@pytest.mark.parametrize("config", [FoveaConfig, HDTConfig, VccBertConfig])
def test_our_own_types_are_known(tmp_path, config):
    config().save_pretrained(tmp_path)
    assert type(load_config(tmp_path)) is config


@pytest.mark.parametrize(
    "change",
    [
        lambda own: dict(list(own.items())[::2]),
        lambda own: {f"module.{name}": x for name, x in own.items()},
    ],
)
def test_missing_weights(folder, change):
    weights(folder, change)
    with pytest.raises(ValueError, match=r"bert lacks \d+ parameters of a BertModel, .* random"):
        load_model(AutoModel, folder)


def test_weights_of_another_size(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 20}))
    with pytest.raises(ValueError, match=r"bert do not have the sizes in its config\.json"):
        load_model(AutoModel, folder)


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: b"junk" + data])
def test_damaged_weights(folder, damage):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(damage(data))
    with pytest.raises(ValueError, match=r"the weights of .*bert are damaged"):
        load_model(AutoModel, folder)


def test_no_tokenizer_or_a_damaged_one(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"the tokenizer of .*bert is damaged"):
        load_tokenizer(folder)
    for path in folder.glob("*token*"):
        path.unlink()
    with pytest.raises(ValueError, match="bert has no tokenizer"):
        load_tokenizer(folder)


def test_tokenizers_of_other_kinds(tmp_path):
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r".* has no tokenizer"):
        load_tokenizer(tmp_path)
    ByT5Tokenizer().save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("cod").input_ids


def test_no_checkpoint_at_all(folder):
    (folder / "config.json").unlink()
    with pytest.raises(OSError, match=r"bert is not a checkpoint: it has no config\.json"):
        load_config(folder)
    shutil.rmtree(folder)
    with pytest.raises(OSError, match=r"there is no folder .*bert"):
        load_tokenizer(folder)
    with pytest.raises(TypeError, match="expected the name or path of a checkpoint, got int"):
        load_config(5)
    with pytest.raises(OSError, match=r"there is no folder .*bert"):
        load_config(folder)
