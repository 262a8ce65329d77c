import copy
import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

from foveate.models.fovea import FoveaConfig, FoveaEncoderModel, FoveaForConditionalGeneration
from tests import t5
from tests.numerics import relative_error

CACHE = next(  # its name depends on the version of transformers
    name
    for name in inspect.signature(T5ForConditionalGeneration.forward).parameters
    if name in ("cache", "past_key_values")
)
SIZES = t5.SIZES | {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}


@pytest.fixture
def config():
    return FoveaConfig(**SIZES, block_size=4, feed_forward_proj="gated-gelu")


def made(model_class, config):
    """A model whose biases and norms are random too, in float64."""
    torch.manual_seed(0)
    model = model_class(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def writer(config):
    return made(FoveaForConditionalGeneration, config)


def tokens(*shape):
    return torch.randint(2, 60, shape, generator=torch.Generator().manual_seed(1))


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=3),
    st.sampled_from(["left", "right", "between"]),
    st.sampled_from(["full", "paper"]),
)
def test_a_row_depends_neither_on_padding_nor_on_its_batch_mates(lengths, side, coverage):
    config = FoveaConfig(**SIZES, block_size=4, coverage=coverage)
    model = made(FoveaEncoderModel, config)
    width = max(lengths) + 2
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        mask[row, {"left": slice(width - length, None), "right": slice(length)}.get(side)] = 1
        if side == "between":
            mask[row] = torch.randperm(width) < length
    ids = tokens(len(lengths), width)
    with torch.no_grad():
        together = model(ids, attention_mask=mask).last_hidden_state
        assert (together[mask == 0] == 0).all()
        for row, real in enumerate(mask.bool()):
            if real.any():
                alone = model(ids[row, real][None]).last_hidden_state[0]
                assert relative_error(together[row, real], alone) < 1e-12


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=3),
    st.sampled_from(["full", "paper"]),
    st.booleans(),
)
@settings(max_examples=20)
def test_rows_padded_for_graphs_are_as_each_alone(lengths, coverage, has_gaps):
    model = made(FoveaEncoderModel, FoveaConfig(**SIZES, block_size=4, coverage=coverage))
    model.encoder.layer_runner = lambda *arguments: (model.encoder.run_layers, True)
    places = torch.arange(33).expand(len(lengths), -1)
    if has_gaps:
        generator = torch.Generator().manual_seed(sum(lengths))
        places = torch.rand(places.shape, generator=generator).argsort()
    mask = places < torch.tensor(lengths)[:, None]
    embeddings = torch.linspace(-1, 1, mask.numel() * 16, dtype=torch.float64).sin()
    embeddings = embeddings.view(*mask.shape, 16).requires_grad_()
    together = model(inputs_embeds=embeddings, attention_mask=mask.long()).last_hidden_state
    assert (together[~mask] == 0).all()
    sources = [embeddings, *(x for x in model.encoder.block.parameters())]
    actual = torch.autograd.grad(together.square().sum(), sources, allow_unused=True)
    del model.encoder.layer_runner
    loss = 0
    for row, real in enumerate(mask):
        if real.any():
            alone = model(inputs_embeds=embeddings[row, real][None]).last_hidden_state[0]
            assert relative_error(together[row, real], alone) < 1e-9
            loss += alone.square().sum()
    if mask.any():
        expected = torch.autograd.grad(loss, sources)
        for one, other in zip(actual, expected, strict=True):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)
    else:
        assert all(one is None or (one == 0).all() for one in actual)


def test_a_sequence_of_one_block_is_seen_as_t5_sees_it(config):
    t5 = made(
        T5ForConditionalGeneration,
        T5Config(**SIZES, feed_forward_proj="gated-gelu", dropout_rate=0.0),
    )
    fovea = FoveaForConditionalGeneration(FoveaConfig(**t5.config.to_dict(), block_size=32))
    fovea.double().eval().load_state_dict(t5.state_dict())
    ids, labels = tokens(2, 23), tokens(2, 5)
    mask = torch.ones_like(ids)
    mask[1, 17:] = 0
    with torch.no_grad():
        expected = t5(ids, attention_mask=mask, labels=labels)
        actual = fovea(ids, attention_mask=mask, labels=labels)
    # T5 takes the variance of its norms in float32.
    assert relative_error(actual.logits, expected.logits) < 1e-6
    assert relative_error(actual.loss, expected.loss) < 1e-6


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"num_beams": 3, "use_cache": False}])
def test_generation_writes_what_the_whole_model_scores(writer, how):
    """Every token greedily chosen, or scored by beams, is what the model without cache gives."""
    ids = tokens(2, 30)
    mask = torch.ones_like(ids)
    mask[1, 20:] = 0
    output = writer.generate(
        *(ids,),
        attention_mask=mask,
        max_new_tokens=8,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **how,
    )
    written = output.sequences
    with torch.no_grad():
        logits = writer(ids, attention_mask=mask, decoder_input_ids=written).logits
    log_p = logits.log_softmax(-1)[:, :-1].gather(2, written[:, 1:, None])[:, :, 0]
    live = (written[:, 1:] != 0).cumprod(1).bool()
    if "num_beams" in how:
        scores = (log_p * live).sum(1) / live.sum(1)
        assert relative_error(output.sequences_scores, scores) < 1e-5  # kept in float32
    else:
        best = logits[:, :-1].argmax(-1)
        assert torch.equal(best[live], written[:, 1:][live])


def test_cached_steps_give_the_logits_of_the_whole(writer):
    ids, written = tokens(2, 30), tokens(2, 9)
    with torch.no_grad():
        whole = writer(ids, decoder_input_ids=written).logits
        encoded, cache, steps = writer.encoder(ids), None, []
        for cut in (written[:, :3], written[:, 3:7], written[:, 7:8], written[:, 8:]):
            output = writer(
                encoder_outputs=encoded,
                decoder_input_ids=cut,
                use_cache=True,
                **{CACHE: cache},
            )
            cache = output.past_key_values
            steps.append(output.logits)
    assert relative_error(torch.cat(steps, dim=1), whole) < 1e-12


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(config, reentrant):
    config.dropout_rate = 0.0
    model = made(FoveaForConditionalGeneration, config).train()
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            # Newer versions of transformers renamed it.
            enable = getattr(
                model, "activation_checkpointing_enable", model.gradient_checkpointing_enable
            )
            enable({"use_reentrant": reentrant})
        model.zero_grad()
        model(tokens(2, 30), labels=tokens(2, 5)).loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert relative_error(*gradients) < 1e-12


def test_hidden_states_tuples_and_embeddings(writer):
    ids = tokens(2, 11)
    encoder = writer.encoder
    output = encoder(ids, output_hidden_states=True)
    assert len(output.hidden_states) == 3
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert torch.equal(encoder(ids, return_dict=False)[0], output[0])
    assert torch.equal(encoder(inputs_embeds=writer.shared(ids))[0], output[0])
    whole = writer(ids, decoder_input_ids=ids, output_hidden_states=True)
    assert len(whole.encoder_hidden_states) == len(whole.decoder_hidden_states) == 3


def test_attention_weights_are_the_decoders_alone(writer):
    ids = tokens(2, 11)
    with (
        pytest.warns(UserWarning, match="encoder never materializes attention weights"),
        pytest.warns(UserWarning, match="without its speed-up"),
    ):
        output = writer(ids, decoder_input_ids=ids[:, :3], output_attentions=True)
    assert output.encoder_attentions is None
    assert output.cross_attentions[1].shape == (2, 2, 3, 11)


def test_wrong_inputs_are_said(writer):
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        writer.encoder()
    with pytest.raises(ValueError, match=r"shape \(1, 4\) of the tokens, got \(1, 5\)"):
        writer.encoder(tokens(1, 4), attention_mask=torch.ones(1, 5))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_size": 0}, "block_size and k_neighbours must be at least 1, got 0 and 1"),
        ({"k_neighbours": -1}, "must be at least 1, got 128 and -1"),
        ({"coverage": "half"}, "unknown coverage 'half': choose among"),
    ],
)
def test_a_wrong_configuration_is_said(fields, message):
    with pytest.raises(ValueError, match=message):
        FoveaConfig(**fields)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(config, tmp_path, dtype):
    made(FoveaForConditionalGeneration, config).float().save_pretrained(tmp_path)
    exact = FoveaForConditionalGeneration.from_pretrained(tmp_path)
    half = FoveaForConditionalGeneration.from_pretrained(tmp_path, dtype=dtype)
    ids, labels = tokens(2, 30), tokens(2, 5)
    with torch.no_grad():
        outputs = half(ids, labels=labels).logits, exact(ids, labels=labels).logits
    assert relative_error(*outputs) < {torch.bfloat16: 5e-2, torch.float16: 1e-2}[dtype]


def test_auto_classes_save_and_load(writer, config, tmp_path):
    writer.save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), FoveaConfig)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(again) is FoveaForConditionalGeneration
    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is FoveaEncoderModel
    ids = tokens(2, 30)
    with torch.no_grad():
        expected = writer.encoder(ids)[0]
        assert torch.equal(again.encoder(ids)[0], expected)
        assert torch.equal(encoder(ids)[0], expected)
    encoder.save_pretrained(tmp_path / "encoder")
    assert not AutoConfig.from_pretrained(tmp_path / "encoder").is_encoder_decoder


@pytest.mark.parametrize("model_class", [FoveaForConditionalGeneration, FoveaEncoderModel])
def test_every_weight_has_t5s_initial_value(model_class):
    sizes = SIZES | {"d_model": 64, "d_ff": 96}
    model = model_class(FoveaConfig(**sizes, feed_forward_proj="gated-gelu"))
    for module in model.modules():
        module._is_hf_initialized = False
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
    model.initialize_weights()
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name
        if "norm" not in name and "bias" not in name and "lm_head" not in name:
            fan = {"q": 64 * 8, "o": 16, "wo": 96, "shared": 1, "embed_tokens": 1}
            std = fan.get(name.split(".")[-2], 64) ** -0.5
            assert abs(parameter.std().item() / std - 1) < 0.2, name


def test_the_decoder_is_sped_up_wherever_the_model_goes(writer):
    assert copy.deepcopy(writer).decoder.config._attn_implementation == "foveate_relative"
    assert type(writer.decoder.block[1].layer[1].EncDecAttention).__name__ == "RelativeT5Attention"


def test_it_learns_with_trainer(config, tmp_path):
    config.dropout_rate = 0.0
    torch.manual_seed(0)
    rows = [
        {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[3:7]}
        for ids in tokens(8, 20)
    ]
    model = FoveaForConditionalGeneration(config)
    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path),
            max_steps=40,
            learning_rate=1e-2,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            dataloader_pin_memory=False,
            disable_tqdm=True,
        ),
        train_dataset=rows,
    )
    trainer.train()
    ids = torch.stack([row["input_ids"] for row in rows])
    labels = torch.stack([row["labels"] for row in rows])
    written = model.eval().generate(ids, max_new_tokens=4, min_new_tokens=4)
    assert (written[:, 1:] == labels).float().mean() > 0.9
