"""The table of patches: what it lists, applies and reverts, and what passes between layers."""

import copy
import pickle

import pytest
import torch
from transformers import PreTrainedConfig, T5Config, T5EncoderModel

from foveate.models.packing import PackedSequences
from foveate.models.speed_ups import ORIGINALS, patches, restore, speed_up
from foveate.models.speed_ups.layouts import BlockSummaries, PackedSpans, WindowLayout
from tests.models.test_speed_up_longformer import led, longformer
from tests.models.test_speed_up_longt5 import longt5


def t5():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    return T5EncoderModel(T5Config(vocab_size=60, feed_forward_proj="gated-gelu", **sizes)).double()


MODELS = {
    "Longformer": (lambda: longformer([8, 4]), (WindowLayout, "from_masks")),
    "LED": (lambda: led().encoder, (WindowLayout, "from_masks")),
    "LongT5 local": (lambda: longt5("local"), (PackedSpans, "from_mask")),
    "LongT5 global": (lambda: longt5("transient-global"), (BlockSummaries, "from_mask")),
    "T5": (t5, (PackedSequences, "from_mask")),
}
names = pytest.mark.parametrize("name", MODELS)


def types(model):
    return [type(module) for module in model.modules()]


@names
def test_patches_are_listed_and_reverted(name):
    model = MODELS[name][0]()
    before = types(model)
    assert patches(model) == {}
    listed = patches(speed_up(model))
    pairs = zip(model.named_modules(), before, strict=True)
    swapped = {path for (path, module), kind in pairs if type(module) is not kind}
    assert swapped <= set(listed)
    for path, patch in listed.items():
        assert type(model.get_submodule(path)) is patch.replacement
    assert patches(restore(model)) == {}
    assert types(model) == before


@names
def test_copies_and_pickles_are_patched(name):
    model = speed_up(MODELS[name][0]())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert types(other) == types(model)
        assert patches(other) == patches(model)
        assert patches(restore(other)) == {}


@names
def test_a_batch_is_laid_out_once_for_all_layers(name, monkeypatch):
    build, (layout, method) = MODELS[name]
    model, calls = speed_up(build()).eval(), []
    lay_out = getattr(layout, method)

    def counted(*args):
        calls.append(args)
        return lay_out(*args)

    monkeypatch.setattr(layout, method, counted)
    ids = torch.randint(5, 50, (2, 20))
    mask = torch.ones_like(ids)
    mask[1, 12:] = 0
    with torch.no_grad():
        for expected in (1, 2):
            model(input_ids=ids, attention_mask=mask)
            assert len(calls) == expected


def test_replacements_are_subclasses():
    assert all(issubclass(new, patch.original) for new, patch in ORIGINALS.items())


@pytest.mark.parametrize("name", ["Longformer", "T5"])
def test_the_configuration_stays_one(name, tmp_path):
    model = speed_up(MODELS[name][0]())
    model.config.output_hidden_states = True
    ids = torch.randint(5, 50, (1, 8))
    for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(each.config, PreTrainedConfig)
        assert each(input_ids=ids).hidden_states is not None
    model.resize_token_embeddings(70, mean_resizing=False)
    restore(model).save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert again.config.vocab_size == len(again.get_input_embeddings().weight) == 70


@pytest.mark.parametrize("name", ["Longformer", "T5"])
def test_a_patched_model_keeps_its_masks(name):
    model = speed_up(MODELS[name][0]())
    model.set_attn_implementation("eager")
    implementations = {
        module.config._attn_implementation
        for module in (model.get_submodule(path) for path in patches(model))
        if getattr(module, "config", None) is not None
    }
    assert "foveate_relative" in implementations or "foveate_one_query" in implementations
    for module in restore(model).modules():
        if getattr(module, "config", None) is not None:
            assert module.config._attn_implementation == "eager"
