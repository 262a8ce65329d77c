"""Encoders with absolute positions that attend as Fovea does."""

from functools import partial

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel, RobertaConfig, RobertaModel

import foveate.models.fovea  # noqa: F401
from foveate.ops.fovea_attention.reference import fovea_attention
from tests.numerics import relative_error

SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 80,
}


def made(model_class, config_class, **fields):
    torch.manual_seed(0)
    model = model_class(config_class(**SIZES, **fields), add_pooling_layer=False).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


KINDS = [(BertModel, BertConfig), (RobertaModel, RobertaConfig)]


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_is_dense_attention(kind):
    model = made(*kind)
    ids = torch.randint(2, 60, (3, 70))
    mask = torch.ones_like(ids)
    mask[0, 40:] = mask[1, 9:] = 0
    with torch.no_grad():
        expected = model(ids, attention_mask=mask)[0]
        model.set_attn_implementation("foveate_fovea")
        actual = model(ids, attention_mask=mask)[0]
    assert relative_error(actual[mask == 1], expected[mask == 1]) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["none", "ones", "padding"])
def test_rows_attend_as_the_reference_has_it(kind, mask, monkeypatch):
    model = made(*kind, block_size=8, coverage="paper")
    model.set_attn_implementation("foveate_fovea")
    ids = torch.randint(2, 60, (2, 70))
    masks = {"none": None, "ones": torch.ones_like(ids), "padding": torch.ones_like(ids)}
    masks["padding"][1, 50:] = 0
    with torch.no_grad():
        actual = model(ids, attention_mask=masks[mask])[0]
        alone = model(ids[1:, :50])[0]
        monkeypatch.setattr(
            "foveate.models.fovea.attention_interface.fovea_attention",
            partial(fovea_attention, bias=None, max_distance=128),
        )
        expected = model(ids, attention_mask=masks[mask])[0]
    assert relative_error(actual, expected) < 1e-10
    if mask == "padding":
        assert relative_error(actual[1, :50], alone[0]) < 1e-10


def test_arguments_come_before_the_configuration(tmp_path):
    made(BertModel, BertConfig, block_size=64).save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="foveate_fovea").eval()
    ids = torch.randint(2, 60, (1, 70))
    with torch.no_grad():
        coarse = model(ids, block_size=4)[0]
        whole = model(ids)[0]
    assert relative_error(coarse, whole) > 1e-3


def test_it_learns():
    model = made(BertModel, BertConfig, block_size=8)
    model.set_attn_implementation("foveate_fovea")
    model(torch.randint(2, 60, (2, 30)))[0].square().sum().backward()
    assert all(p.grad.norm() > 0 for name, p in model.named_parameters() if "key.bias" not in name)


def test_what_it_is_not_for_is_said():
    ids = torch.randint(2, 60, (1, 12))
    model = made(BertModel, BertConfig)
    model.set_attn_implementation("foveate_fovea")
    with pytest.raises(ValueError, match=r"takes an attention_mask \(batch, length\), got"):
        model(ids, attention_mask=torch.ones(1, 1, 12, 12))
    with pytest.raises(ValueError, match="block_size and k_neighbours must be at least 1"):
        model(ids, block_size=0)
    decoder = made(BertModel, BertConfig, is_decoder=True)
    decoder.set_attn_implementation("foveate_fovea")
    with pytest.raises(ValueError, match="is for encoders: it supports neither causal"):
        decoder(ids)
    with pytest.raises(RuntimeError):  # the model's own embeddings end
        model(torch.randint(2, 60, (1, 81)))
