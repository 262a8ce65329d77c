"""Layers that are one in a model and several in its checkpoints."""

import copy
import pickle

import pytest
import torch
from safetensors.torch import load_file

from foveate.models.fovea import FoveaConfig, FoveaForConditionalGeneration
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTForMaskedLM, HDTModel
from foveate.models.tree_bert_network import load_network
from tests.tree_bert import tree_bert

HDT = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
ENCODER, DECODER = "encoder.block.1.layer.", "decoder.block.1.layer."
PARTS = {
    "hdt": [f"model.{ENCODER}0.SelfAttention.{x}" for x in "qkv"],
    "gated hdt": [f"model.{ENCODER}1.DenseReluDense.{x}" for x in ("wi_0", "wi_1")],
    "hdt-ed": [
        *(f"{side}0.SelfAttention.{x}" for side in (ENCODER, DECODER) for x in "qkv"),
        *(f"{DECODER}1.EncDecAttention.{x}" for x in "qkv"),
    ],
    "fovea": [f"{ENCODER}0.SelfAttention.{x}" for x in "qkv"],
    "tree-bert": [f"encoder.layer.1.attention.self.{x}" for x in ("query", "key", "value")],
}
"""Layers in published checkpoints, all of which are as large as their input is wide."""


@pytest.fixture(params=PARTS)
def model(request):
    torch.manual_seed(0)
    match request.param:
        case "hdt":
            model = HDTForMaskedLM(HDTConfig(**HDT))
        case "gated hdt":
            model = HDTForMaskedLM(HDTConfig(**HDT, feed_forward_proj="gated-gelu"))
        case "hdt-ed":
            model = HDTForConditionalGeneration(HDTConfig(**HDT, num_decoder_layers=2))
        case "fovea":
            model = FoveaForConditionalGeneration(FoveaConfig(**HDT))
        case "tree-bert":
            model = tree_bert()
    return model.eval(), PARTS[request.param]


def same(model, other):
    states = model.state_dict(), other.state_dict()
    assert states[0].keys() == states[1].keys()
    return all(torch.equal(x, states[1][name]) for name, x in states[0].items())


def test_checkpoints_have_the_published_names(model, tmp_path):
    model, parts = model
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert {f"{part}.weight" for part in parts} < set(saved)
    assert not [name for name in saved if any(x in name for x in ("qkv", ".kv.", "wi_01"))]
    loaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    assert same(loaded, model)
    loaded.save_pretrained(tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert again.keys() == saved.keys()
    assert all(torch.equal(again[name], x) for name, x in saved.items())


def test_weights_are_loaded_by_either_name(model, tmp_path):
    """As `Trainer` does when it resumes; in copies of a model, too."""
    model, _ = model
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), type(model)(model.config)]
    for other, state in zip(others, (saved, saved, model.state_dict()), strict=True):
        for parameter in other.parameters():
            torch.nn.init.zeros_(parameter)
        missing, unexpected = other.load_state_dict(state, strict=False)
        assert not unexpected
        assert not missing or state is saved  # which leaves out tied weights
        other.tie_weights()
        assert same(other, model)


def test_what_a_checkpoint_lacks_is_said(model, tmp_path):
    model, parts = model
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    del saved[f"{parts[-1]}.weight"]
    missing, unexpected = copy.deepcopy(model).load_state_dict(saved, strict=False)
    assert len([name for name in missing if name.startswith(parts[-1].rpartition(".")[0])]) == 1
    assert f"{parts[-2]}.weight" in unexpected


def test_a_part_of_a_model_is_loaded_by_itself(tmp_path):
    model = HDTForMaskedLM(HDTConfig(**HDT))
    model.save_pretrained(tmp_path)
    assert same(HDTModel.from_pretrained(tmp_path).encoder, model.model.encoder)


def test_models_without_transformers_have_the_same_weights(tmp_path):
    model = tree_bert()
    model.save_pretrained(tmp_path)
    assert same(load_network(tmp_path), model.float())
