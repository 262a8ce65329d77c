import copy
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    BertConfig,
    BertModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    T5ForTokenClassification,
)
from transformers.models.t5.modeling_t5 import T5LayerNorm

from foveate.models.speed_ups import restore, speed_up
from foveate.ops._packed import grouped_attention
from tests import t5
from tests.numerics import relative_error

SIZES = t5.SIZES | {
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "dropout_rate": 0.0,
}


def made(model_class=T5ForConditionalGeneration, attention="sdpa", **fields):
    """A T5 whose biases and norms are random too, in float64, and its sped-up copy."""
    torch.manual_seed(0)
    config = T5Config(**SIZES, **fields, attn_implementation=attention)
    model = model_class(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model, speed_up(copy.deepcopy(model))


def tokens(*shape):
    return torch.randint(2, 60, shape, generator=torch.Generator().manual_seed(1))


def padded(side, lengths, width):
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        match side:
            case "left":
                mask[row, width - length :] = 1
            case "right":
                mask[row, :length] = 1
            case "between":
                mask[row] = torch.randperm(width) < length
    return mask


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.sampled_from(["left", "right", "between"]),
    st.sampled_from(["sdpa", "eager"]),
    st.integers(1, 6),
)
def test_outputs_and_gradients_are_those_of_t5(lengths, side, attention, written):
    width = max(lengths) + len(lengths) % 2
    mask, ids = padded(side, lengths, width), tokens(len(lengths), width)
    labels = tokens(len(lengths), written)
    outputs = []
    for model in made(attention=attention):
        model.train()
        output = model(ids, attention_mask=mask, labels=labels)
        output.loss.backward()
        outputs.append((output.logits, gradients(model)))
    for expected, actual in zip(*outputs, strict=True):
        assert relative_error(actual, expected) < 1e-10


@pytest.mark.parametrize("activation", ["gated-gelu", "gated-silu", "relu"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_feed_forward_and_norms_are_those_of_t5(activation, dropout):
    ids, labels, outputs = tokens(2, 9), tokens(2, 5), []
    model, faster = made(feed_forward_proj=activation)
    for each in (model, faster):
        for module in each.modules():
            if type(module).__name__.endswith(("Dense", "LayerFF")):
                module.train().dropout.p = dropout  # attention's is not applied
        torch.manual_seed(0)
        output = each(ids, labels=labels)
        output.loss.backward()
        outputs.append((output.logits, gradients(each)))
    for expected, actual in zip(*outputs, strict=True):
        assert relative_error(actual, expected) < 1e-10
    assert type(faster.encoder.final_layer_norm).__name__ == "FusedT5LayerNorm"
    assert restore(faster) is faster
    for one, other in zip(model.modules(), faster.modules(), strict=True):
        assert type(one) is type(other)


def test_training_with_autocast():
    model, faster = made(feed_forward_proj="gated-gelu")
    model, faster = model.float(), faster.float()
    outputs = []
    for each in (model, faster):
        with torch.autocast("cpu", torch.bfloat16):
            output = each(tokens(2, 30), labels=tokens(2, 5))
        output.loss.backward()
        outputs.append((output.logits, gradients(each)))
    for expected, actual in zip(*outputs, strict=True):
        assert actual.dtype == expected.dtype
        assert relative_error(actual, expected) < 5e-2


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_in_the_decoder(side):
    mask = padded(side, [7, 3, 1], 7)
    ids, labels = tokens(3, 20), tokens(3, 7).masked_fill(mask == 0, -100)
    outputs = []
    for model in made():
        output = model(ids, decoder_attention_mask=mask, labels=labels)
        output.loss.backward()
        outputs.append((output.logits[mask == 1], gradients(model)))
    for expected, actual in zip(*outputs, strict=True):
        assert relative_error(actual, expected) < 1e-10


def test_a_sequence_of_nothing_but_padding_harms_no_other():
    _, faster = made()
    ids, mask = tokens(2, 9), padded("right", [0, 9], 9)
    settings = {"max_new_tokens": 5, "min_new_tokens": 5}
    together = faster.generate(ids, attention_mask=mask, **settings)
    assert torch.equal(together[1:], faster.generate(ids[1:], **settings))
    assert faster(ids, attention_mask=mask, decoder_input_ids=ids).logits.isfinite().all()
    assert faster.encoder(ids, attention_mask=0 * mask)[0].isfinite().all()


def test_the_encoder_alone_and_in_another_model():
    ids, mask = tokens(2, 33), padded("left", [33, 20], 33)
    for model_class in (T5EncoderModel, T5ForTokenClassification):
        expected, actual = (
            model(ids, attention_mask=mask)[0][mask == 1] for model in made(model_class)
        )
        assert relative_error(actual, expected) < 1e-10


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_beams": 3},
        {"num_beams": 3, "use_cache": False},
        {"cache_implementation": "static"},
        {"decoder_input_ids": tokens(2, 4)},
        {"do_sample": True},
    ],
    ids=["greedy", "beams", "no cache", "static cache", "prompt", "sample"],
)
def test_generation_is_that_of_t5(how):
    ids, mask = tokens(2, 33), padded("left", [33, 20], 33)
    outputs = []
    for model in made():
        torch.manual_seed(0)
        output = model.generate(
            *(ids,),
            attention_mask=mask,
            max_new_tokens=10,
            output_scores=True,
            return_dict_in_generate=True,
            **how,
        )
        outputs.append((output.sequences, torch.stack(output.scores).softmax(-1)))
    (expected, expected_scores), (actual, actual_scores) = outputs
    assert torch.equal(actual, expected)
    assert relative_error(actual_scores, expected_scores) < 1e-5  # generation scores in float32


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(reentrant):
    model, faster = made()
    # Newer versions of transformers renamed it.
    enable = getattr(
        faster, "activation_checkpointing_enable", faster.gradient_checkpointing_enable
    )
    enable({"use_reentrant": reentrant})
    for each in (model, faster):
        each.train()
        each(tokens(2, 30), labels=tokens(2, 5)).loss.backward()
    assert relative_error(gradients(faster), gradients(model)) < 1e-10


def test_attention_weights_are_those_of_t5():
    ids, mask = tokens(2, 12), padded("right", [12, 7], 12)
    model, faster = made(attention="eager")
    inputs = {"attention_mask": mask, "labels": tokens(2, 4), "output_attentions": True}
    expected = model(ids, **inputs)
    with pytest.warns(UserWarning, match="without its speed-up"):
        actual = faster(ids, **inputs)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        pairs = zip(actual[name], expected[name], strict=True)
        assert all(relative_error(*pair) < 1e-10 for pair in pairs), name
    assert relative_error(actual.logits, expected.logits) < 1e-10


def test_a_mask_of_all_pairs_is_kept_to():
    ids = tokens(1, 9)
    for dtype in (torch.bool, torch.float64):
        seen = torch.ones(1, 1, 9, 9, dtype=torch.bool).tril()
        mask = seen if dtype == torch.bool else torch.zeros(1, 1, 9, 9).masked_fill(~seen, -1e9)
        model, faster = made(T5EncoderModel)
        expected, actual = (each(ids, attention_mask=mask)[0] for each in (model, faster))
        assert relative_error(actual, expected) < 1e-10


class Largest(TorchDispatchMode):
    """Keeps the bytes of the largest tensor that is made; a view has those of what it views."""

    nbytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = (x for x in tree_leaves(made) if isinstance(x, torch.Tensor))
        self.nbytes = max([self.nbytes, *(x.untyped_storage().nbytes() for x in tensors)])
        return made


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_nothing_of_the_size_of_all_pairs_is_made(attention, monkeypatch):
    monkeypatch.setattr(grouped_attention, "TILE", 1 << 16)
    _, faster = made(attention=attention)
    length = 1500
    ids, mask = tokens(1, length), padded("right", [length - 1], length)
    with Largest() as largest:
        faster(ids, attention_mask=mask, decoder_input_ids=ids).logits.sum().backward()
    assert largest.nbytes < 8 * length**2 / 4  # in float64


def test_restored_models_are_as_before():
    model, faster = made(attention="eager")
    ids = tokens(2, 30)
    names = list(faster.state_dict())
    assert names == list(model.state_dict())
    assert speed_up(faster) is faster  # once more changes nothing
    assert restore(faster) is faster
    for one, other in zip(model.modules(), faster.modules(), strict=True):
        assert type(one) is type(other)
        assert vars(one).keys() == vars(other).keys()
    assert faster.encoder.config._attn_implementation == "eager"
    expected, actual = (each(ids, decoder_input_ids=ids[:, :4]).logits for each in (model, faster))
    assert torch.equal(actual, expected)
    assert restore(faster) is faster


def test_models_inside_models_and_saved_ones(tmp_path):
    model, _ = made()
    outer = nn.ModuleDict({"reader": nn.Sequential(model)})
    assert speed_up(outer) is outer
    assert type(model.encoder.block[0].layer[0].SelfAttention).__name__ == "RelativeT5Attention"
    model.save_pretrained(tmp_path)
    again = T5ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(again.encoder.block[0].layer[0].SelfAttention).__name__ == "T5Attention"
    ids = tokens(2, 30)
    logits = (each(ids, decoder_input_ids=ids[:, :4]).logits for each in (model, again))
    assert relative_error(*logits) < 1e-10


def test_half_precision_is_within_its_rounding():
    exact, _ = made()
    ids, mask = tokens(2, 33), padded("right", [33, 20], 33)
    expected = exact(ids, attention_mask=mask, decoder_input_ids=ids[:, :6]).logits
    for dtype, tolerance in ((torch.bfloat16, 5e-2), (torch.float32, 1e-5)):
        model = copy.deepcopy(exact).to(dtype)
        error = relative_error(
            model(ids, attention_mask=mask, decoder_input_ids=ids[:, :6]).logits, expected
        )
        logits = speed_up(model)(ids, attention_mask=mask, decoder_input_ids=ids[:, :6]).logits
        assert relative_error(logits, expected) < min(tolerance, 2 * error)


def test_nothing_to_speed_up_is_said():
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    model = BertModel(config)
    with pytest.raises(ValueError, match=r"nothing to speed up in a BertModel: .*T5Attention"):
        speed_up(model)
    assert restore(model) is model


def test_norms_alone_are_left_as_they_are():
    norms = nn.ModuleList([T5LayerNorm(8)])
    with pytest.raises(ValueError, match="nothing to speed up in a ModuleList"):
        speed_up(norms)
    assert type(norms[0]) is T5LayerNorm


def test_speed_up_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made()[1](tokens(1, 5), labels=tokens(1, 2))


def test_models_that_share_a_configuration_are_changed_one_by_one():
    config = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2)
    models = torch.nn.ModuleList([T5EncoderModel(config), T5EncoderModel(config)]).eval()
    ids = torch.randint(3, 40, (2, 9))
    expected = [model(ids).last_hidden_state for model in models]
    speed_up(models[0])
    for model, hidden in zip(models, expected, strict=True):
        assert relative_error(model(ids).last_hidden_state, hidden) < 1e-6
    restore(speed_up(models))
    assert models[0].encoder.config is models[1].encoder.config is config
    for model, hidden in zip(models, expected, strict=True):
        assert torch.equal(model(ids).last_hidden_state, hidden)


def test_one_encoded_document_serves_several_decoders_rows():
    model, faster = made()
    hidden = model.encoder(torch.randint(3, 40, (1, 9))).last_hidden_state
    arguments = {"encoder_outputs": (hidden,), "decoder_input_ids": torch.randint(3, 40, (3, 5))}
    expected = model(**arguments).logits
    assert relative_error(faster(**arguments).logits, expected) < 1e-6
