"""Folders that others published: Fovea in LongT5's layout, LongT5 and T5."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    LongT5Config,
    LongT5ForConditionalGeneration,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)

from foveate.models.fovea import (
    FoveaConfig,
    FoveaEncoderModel,
    FoveaForConditionalGeneration,
    FoveaForSequenceClassification,
)
from tests.numerics import relative_error
from tests.paths import shared
from tests.t5 import SIZES


@pytest.mark.parametrize("name", ["fovea_encoder_11", "fovea_encoder_12"])
def test_a_published_folder_gives_the_published_hidden_states(name, tmp_path):
    found = json.loads(shared(f"golden/{name}.json").read_text())["config"]
    tensors = load_file(shared(f"golden/{name}.safetensors"))
    block_size, k_neighbours = found.pop("block_size"), found.pop("k_neighbours")
    assert found.pop("coverage") == "paper"
    config = found | {
        "model_type": "longt5",
        "encoder_attention_type": "transient-global",
        "local_radius": 127,
        "block_len": block_size,
        "wing_size": k_neighbours,
        "stop_level": 20,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = {k.removeprefix("weights."): v for k, v in tensors.items() if "weights." in k}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model, info = FoveaEncoderModel.from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    assert not info["missing_keys"]
    assert all("global_" in key for key in info["unexpected_keys"])
    assert (model.config.block_size, model.config.k_neighbours) == (block_size, k_neighbours)
    assert model.config.coverage == "paper"
    with torch.no_grad():
        actual = model(tensors["input_ids"]).last_hidden_state
    assert relative_error(actual, tensors["last_hidden_state"]) < 1e-6


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # What the published scripts/run_summarization.sh gives, and the published class's default.
        ({"wing_size": 1, "block_len": 128, "stop_level": 20}, (128, 1, 20)),
        ({"wing_size": 2, "block_len": 16, "global_attn": True}, (16, 2, 5)),
    ],
)
def test_published_fields_are_obeyed_wherever_they_are_given(fields, expected, tmp_path):
    config = LongT5Config(**SIZES, encoder_attention_type="transient-global")
    LongT5ForConditionalGeneration(config).save_pretrained(tmp_path)
    model = FoveaForConditionalGeneration.from_pretrained(tmp_path, **fields)
    for found in (model.config, FoveaConfig(**SIZES, **fields)):
        assert (found.block_size, found.k_neighbours, found.stop_level) == expected
        assert found.coverage == "paper"
    attention = model.encoder.block[0].layer[0].SelfAttention
    assert (attention.block_size, attention.stop_level) == (expected[0], expected[2])
    with pytest.raises(ValueError, match="stop_level must be at least 1"):
        FoveaConfig(stop_level=0)


T5 = T5ForConditionalGeneration, T5Config
LONG_T5 = LongT5ForConditionalGeneration, LongT5Config


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("kind", "fields", "block_size"),
    [
        (T5, {}, 128),
        (T5, {"feed_forward_proj": "gated-gelu"}, 128),
        (LONG_T5, {"local_radius": 31}, 32),
        (LONG_T5, {"local_radius": 31, "encoder_attention_type": "transient-global"}, 32),
    ],
)
def test_folders_of_t5_and_longt5_load_with_no_new_parameters(
    kind, fields, block_size, tied, tmp_path
):
    model_class, config_class = kind
    torch.manual_seed(0)
    config = config_class(**SIZES, **fields, tie_word_embeddings=tied, initializer_factor=0.5)
    published = model_class(config).eval()
    published.save_pretrained(tmp_path)
    loaded, info = FoveaForConditionalGeneration.from_pretrained(
        tmp_path, k_neighbours=2, output_loading_info=True
    )
    assert not info["missing_keys"]
    assert (loaded.config.block_size, loaded.config.k_neighbours) == (block_size, 2)
    assert loaded.config.coverage == "full"

    ids = torch.randint(2, 60, (2, 30))
    if "encoder_attention_type" not in fields:  # a block of Fovea, or T5's window, sees it all
        with torch.no_grad():
            expected = published(ids, decoder_input_ids=ids[:, :5]).logits
            assert relative_error(loaded(ids, decoder_input_ids=ids[:, :5]).logits, expected) < 1e-5

    loaded.save_pretrained(tmp_path / "again")
    again = FoveaForConditionalGeneration.from_pretrained(tmp_path / "again")
    saved = json.loads((tmp_path / "again" / "config.json").read_text())
    assert saved["model_type"] == "fovea"
    assert not {"local_radius", "encoder_attention_type"} & set(saved)
    state = loaded.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in again.state_dict().items())
    with torch.no_grad():
        outputs = (model(ids, decoder_input_ids=ids[:, :5]).logits for model in (loaded, again))
        assert torch.equal(*outputs)


def test_what_a_checkpoint_lacks_is_said(tmp_path):
    T5EncoderModel(T5Config(**SIZES)).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"lacks \d+ parameters .* are random: decoder"):
        FoveaForConditionalGeneration.from_pretrained(tmp_path)
    assert FoveaEncoderModel.from_pretrained(tmp_path).config.coverage == "full"


def test_arguments_take_the_place_of_the_configuration(tmp_path):
    T5EncoderModel(T5Config(**SIZES)).save_pretrained(tmp_path)
    model = FoveaEncoderModel.from_pretrained(tmp_path, block_size=16, coverage="paper")
    assert (model.config.block_size, model.config.coverage) == (16, "paper")
    attention = model.encoder.block[1].layer[0].SelfAttention
    assert (attention.block_size, attention.coverage) == (16, "paper")
    with pytest.raises(ValueError, match="unknown coverage 'half'"):
        FoveaEncoderModel.from_pretrained(tmp_path, coverage="half")


def test_a_published_folder_classifies(tmp_path):
    T5ForConditionalGeneration(T5Config(**SIZES)).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"lacks 4 parameters .* classification_head"):
        model = FoveaForSequenceClassification.from_pretrained(tmp_path, num_labels=3).eval()
    model.save_pretrained(tmp_path / "again")
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "again").eval()
    assert type(again) is FoveaForSequenceClassification
    ids = torch.randint(2, 60, (2, 30))
    mask = torch.ones_like(ids)
    mask[1, :10] = 0
    out = model(ids, attention_mask=mask, labels=torch.tensor([0, 2]))
    assert out.logits.shape == (2, 3)
    assert torch.equal(again(ids, attention_mask=mask).logits, out.logits)
    alone = model(ids[1:, 10:]).logits[0]
    assert relative_error(out.logits[1], alone) < 1e-5
    out.loss.backward()
    weights = model.encoder.block[0].layer[0].SelfAttention.q.weight
    assert weights.grad.abs().sum() > 0
