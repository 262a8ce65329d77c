import json
import logging

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaModel,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)

from foveate.models.vcc import (
    VccBertConfig,
    VccBertModel,
    VccRobertaConfig,
    VccRobertaModel,
    VccT5Config,
    VccT5EncoderModel,
    VccT5ForConditionalGeneration,
)
from tests.numerics import relative_error
from tests.paths import shared

T5 = {
    "vocab_size": 60,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 3,
    "num_heads": 2,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
}
BERT = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
SHORT = {"segment_size": 16, "num_segment_layers": 1, "block_size": 4, "num_fine_blocks": 2}
ALL = {"num_segment_layers": 0, "block_size": 4, "num_fine_blocks": 1000}

ENCODERS = {
    "t5": (VccT5EncoderModel, VccT5Config, T5),
    "bert": (VccBertModel, VccBertConfig, BERT),
    "roberta": (VccRobertaModel, VccRobertaConfig, BERT),
    "roberta-prelayernorm": (VccRobertaModel, VccRobertaConfig, BERT),
}
PLAIN = {
    "t5": (T5EncoderModel, T5Config),
    "bert": (BertModel, BertConfig),
    "roberta": (RobertaModel, RobertaConfig),
    "roberta-prelayernorm": (RobertaPreLayerNormModel, RobertaPreLayerNormConfig),
}
names = pytest.mark.parametrize("name", ENCODERS)
# T5's norms are of float32 in transformers.
EXACT = {"t5": 1e-6, "bert": 1e-12, "roberta": 1e-12, "roberta-prelayernorm": 1e-12}


def made(name, **fields):
    model, config, sizes = ENCODERS[name]
    if name == "roberta-prelayernorm":
        fields = {"norm_first": True, **fields}
    torch.manual_seed(0)
    return model(config(**(sizes | SHORT | fields))).double().eval()


def plain_model(name):
    """The model of transformers, whose norms and biases are not those of a new one."""
    model, config = PLAIN[name]
    torch.manual_seed(0)
    plain = model(config(**ENCODERS[name][2])).double().eval()
    with torch.no_grad():
        for parameter in plain.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) / 2
    return plain


def ids_of(*shape, seed=0):
    return torch.randint(5, 60, shape, generator=torch.Generator().manual_seed(seed))


def first(length, count, batch=1):
    return (torch.arange(length) < count).expand(batch, -1)


def published(number, names=None):
    """The published encoder's weights in ours, with its inputs and outputs."""
    golden = load_file(shared(f"golden/vcc_t5_encoder_{number}.safetensors"))
    config = json.loads(shared(f"golden/vcc_t5_encoder_{number}.json").read_text())["config"]
    if names is not None:
        layers = config.pop("num_segment_layers")
        config = {names.get(name, name): value for name, value in config.items()}
        classes = ["src.t5.models.layers.T5Block", "src.t5.models.vcc_layers.VccT5Block"]
        rest = config["num_layers"] - layers
        config["encoder_layers"] = classes[:1] * layers + classes[1:] * rest
    model = VccT5EncoderModel(VccT5Config(**config)).double().eval()
    weights = {
        name.removeprefix("weights."): tensor.double()
        for name, tensor in golden.items()
        if name.startswith("weights.")
    }
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["encoder.embed_tokens.weight"], [])  # which is shared
    inputs = golden["input_ids"].long(), golden["attention_mask"]
    return model, lambda: model(*inputs, vip_mask=golden["vip_mask"]).last_hidden_state, golden


@pytest.mark.parametrize("number", [11, 12])
def test_published_encoder(number):
    _, run, golden = published(number)
    real = golden["attention_mask"].bool()
    with torch.no_grad():
        out = run()
    # Published means and multiplicities are of 1e-4 tokens more.
    assert relative_error(out[real], golden["last_hidden_state"][real]) < 2e-5


def test_published_encoder_by_its_own_fields():
    names = {"segment_size": "short_segment_size", "num_vip_slots": "num_important_tokens"}
    _, run, golden = published(12, names)
    real = golden["attention_mask"].bool()
    with torch.no_grad():
        assert relative_error(run()[real], golden["last_hidden_state"][real]) < 2e-5


def test_published_gradients():
    model, run, golden = published(12)
    run()[golden["attention_mask"].bool()].square().sum().backward()
    gradients = load_file(shared("golden/vcc_t5_encoder_12_gradients.safetensors"))
    for name, gradient in gradients.items():
        # Published scores have 1e-5 and 1e-4 added, too.
        assert relative_error(model.get_parameter(name).grad, gradient.double()) < 1e-4


@names
@pytest.mark.parametrize("fields", [{}, {"budgets": [[8, 99], [4, 99]]}])
def test_seeing_everything_equals_the_plain_model(name, fields, tmp_path):
    plain = plain_model(name)
    plain.save_pretrained(tmp_path)
    model = ENCODERS[name][0].from_pretrained(tmp_path, dtype=torch.float64, **ALL, **fields)
    ids, mask = ids_of(2, 50), torch.ones(2, 50, dtype=torch.long)
    mask[1, 41:] = 0
    vips = first(50, 3, 2) | (torch.arange(50) == 20)
    with torch.no_grad():
        expected = plain(ids, attention_mask=mask, output_hidden_states=True)
        out = model(ids, attention_mask=mask, vip_mask=vips, output_hidden_states=True)
    real = mask.bool()
    assert (
        relative_error(out.last_hidden_state[real], expected.last_hidden_state[real]) < EXACT[name]
    )
    for ours, theirs in zip(out.hidden_states, expected.hidden_states, strict=True):
        assert relative_error(ours[real], theirs[real]) < EXACT[name]
    assert not out.last_hidden_state[~real].any()
    if name != "t5":
        assert relative_error(out.pooler_output, expected.pooler_output) < 1e-12


@names
def test_segments_equal_the_plain_model_on_each(name, tmp_path):
    plain = plain_model(name)
    plain.save_pretrained(tmp_path)
    sizes = {"segment_size": 16, "num_segment_layers": 3}
    model = ENCODERS[name][0].from_pretrained(tmp_path, dtype=torch.float64, **sizes)
    ids = ids_of(1, 40)
    with torch.no_grad():
        out = model(ids).last_hidden_state
        parts = []
        for start in (0, 16, 32):
            part = ids[:, start : start + 16]
            places = {}
            if name != "t5":
                begin = 2 * name.startswith("roberta") + start
                places["position_ids"] = torch.arange(begin, begin + part.shape[1])[None]
            parts.append(plain(part, **places).last_hidden_state)
    assert relative_error(out, torch.cat(parts, 1)) < EXACT[name]


@names
@pytest.mark.parametrize("slots", [None, 3])
def test_neither_padding_nor_other_sequences_matter(name, slots):
    model = made(name, num_vip_slots=slots)
    lengths, longest = [50, 7, 33, 1], 50
    ids, mask, vips = (torch.zeros(4, longest, dtype=torch.long) for _ in range(3))
    for row, length in enumerate(lengths):
        start = 0 if row % 2 == 0 else longest - length  # padding on either side
        ids[row, start : start + length] = ids_of(length, seed=row)
        mask[row, start : start + length] = 1
        vips[row, start : start + min(2 + row, length)] = 1
    with torch.no_grad():
        out = model(ids, attention_mask=mask, vip_mask=vips).last_hidden_state
        for row in range(4):
            real = mask[row].bool()
            alone = model(ids[row][real][None], vip_mask=vips[row][real][None])
            assert relative_error(out[row][real], alone.last_hidden_state[0]) < 1e-12


@names
def test_gradients_reach_every_parameter_and_checkpointing_keeps_them(name):
    model = made(name).train()
    ids, vips, weight = ids_of(2, 40), first(40, 2, 2), torch.randn(2, 40, 16)

    def gradients():
        model.zero_grad()
        torch.manual_seed(0)
        out = model(ids, vip_mask=vips)
        rows = (out.last_hidden_state * weight).sum()
        (rows if name == "t5" else rows + out.pooler_output.sum()).backward()
        return {name: p.grad for name, p in model.named_parameters()}

    plain = gradients()
    assert all(grad is not None and grad.abs().sum() > 0 for grad in plain.values())
    # Newer versions of transformers renamed it.
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    for reentrant in (False, True):
        enable({"use_reentrant": reentrant})
        for key, grad in gradients().items():
            assert torch.allclose(grad, plain[key], rtol=1e-9, atol=1e-12), key


@names
def test_what_was_looked_at_is_told(name):
    out = made(name)(
        ids_of(1, 42), vip_mask=first(42, 2), output_vip_scores=True, output_hidden_states=True
    )
    assert len(out.vip_scores) == len(out.resolutions) == 2
    for scores, resolution in zip(out.vip_scores, out.resolutions, strict=True):
        assert resolution[0, :2].tolist() == [1, 1]
        blocks = resolution[0, 2:].view(10, 4)
        assert (blocks == blocks[:, :1]).all()
        best = scores[0, 2::4].topk(2).indices
        assert (blocks[:, 0] == 1).nonzero()[:, 0].tolist() == sorted(best.tolist())
        assert torch.isclose(scores[0, 2::4].sum(), torch.tensor(1.0).double())
    assert len(out.hidden_states) == 4
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state)


@pytest.mark.parametrize("name", ["bert", "roberta", "roberta-prelayernorm"])
def test_scores_are_the_attention_to_averages(name):
    model = made(name, num_segment_layers=0)
    out = model(
        ids_of(1, 42), vip_mask=first(42, 2), output_vip_scores=True, output_hidden_states=True
    )
    embeddings, attention = out.hidden_states[0][0], model.encoder.layer[0].attention
    vips, means = embeddings[:2], embeddings[2:].view(10, 4, 16).mean(1)
    if name == "roberta-prelayernorm":
        vips, means = attention.LayerNorm(vips), attention.LayerNorm(means)
    q = attention.self.query(vips).view(2, 2, 8).transpose(0, 1)
    k = attention.self.key(means).view(10, 2, 8).transpose(0, 1)
    expected = (q @ k.mT / 8**0.5).softmax(-1).mean((0, 1))
    assert relative_error(out.vip_scores[0][0, 2::4], expected) < 1e-12


@names
def test_saved_and_loaded(name, tmp_path):
    model = made(name, num_vip_slots=5)
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())["model_type"]
    assert saved == f"vcc_{name}".removesuffix("-prelayernorm")
    loaded, info = AutoModel.from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    assert type(loaded) is type(model)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert loaded.config.num_vip_slots == 5
    weights = loaded.state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[key], its) for key, its in model.state_dict().items())
    ids = ids_of(1, 40)
    with torch.no_grad():
        found, expected = loaded(ids).last_hidden_state, model(ids).last_hidden_state
    assert relative_error(found, expected) < 1e-15  # norms round by where weights lie in memory


@names
def test_plain_folders_load_with_fields_and_without_remarks(name, tmp_path, caplog):
    PLAIN[name][0](PLAIN[name][1](**ENCODERS[name][2])).save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        logging.getLogger("transformers").propagate = True
        model, info = ENCODERS[name][0].from_pretrained(
            tmp_path, num_fine_blocks=7, block_size=8, segment_size=32, output_loading_info=True
        )
        logging.getLogger("transformers").propagate = False
    assert not caplog.records
    assert not info["missing_keys"]
    config = model.config
    assert (config.num_fine_blocks, config.block_size, config.segment_size) == (7, 8, 32)
    assert config.num_segment_layers == 1  # a third


# The model.* fields of the published cfgs/t5/base-4k/qasper/vcc-16k.py, smaller.
PUBLISHED = {
    "max_decoder_length": 128,
    "short_segment_size": 16,
    "block_size": 4,
    "num_important_tokens": 3 * 4,
    "num_fine_blocks": 2,
    "include_positions_in_mixed_states": True,
    "selector_type": "attention_based_selector",
    "coarser_type": "mean",
    "explore_prob": 0.2,
    "scale_correction": True,
    "custom_relative_attention": True,
    "checkpoint_attention": True,
    "checkpoint_ffn": True,
}
T5_LAYERS = ["src.t5.models.layers.T5Block"] * 2 + ["src.t5.models.vcc_layers.VccT5Block"]
ROBERTA_LAYERS = [
    *["src.roberta.models.prenorm.EncoderLayer"] * 2,
    "src.roberta.models.vcc.VccEncoderLayer",
]


@pytest.mark.parametrize("given", ["file", "arguments"])
@pytest.mark.parametrize(
    ("name", "layers"),
    [("t5", {"encoder_layers": T5_LAYERS}), ("roberta", {"encoder_layer_types": ROBERTA_LAYERS})],
)
def test_published_fields_are_obeyed(name, layers, given, tmp_path):
    model, _, sizes = ENCODERS[name]
    PLAIN[name][0](PLAIN[name][1](**sizes)).save_pretrained(tmp_path)
    fields = PUBLISHED | layers
    if given == "file":
        saved = json.loads((tmp_path / "config.json").read_text()) | fields
        (tmp_path / "config.json").write_text(json.dumps(saved))
        fields = {}
    # Published RoBERTa has its norms first, so that its layers are not those of the folder.
    config = model.config_class.from_pretrained(tmp_path, **fields)
    model(config).save_pretrained(tmp_path / "again")
    for found in (config, model.config_class.from_pretrained(tmp_path / "again")):
        assert (found.segment_size, found.num_vip_slots, found.num_segment_layers) == (16, 12, 2)
        assert (found.block_size, found.num_fine_blocks, found.explore_prob) == (4, 2, 0.2)
        assert getattr(found, "norm_first", True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"selector_type": "random"}, "selector_type must be 'attention_based_selector'"),
        ({"coarser_type": "max"}, "coarser_type must be 'mean'"),
        ({"scale_correction": False}, "scale_correction must be True"),
        ({"encoder_layers": T5_LAYERS[::-1]}, "none of segments after one of VCC's"),
        ({"encoder_layers": T5_LAYERS[:2]}, "must name 3 layers"),
    ],
)
def test_published_fields_of_other_values_are_refused(fields, message, tmp_path):
    T5EncoderModel(T5Config(**T5)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        VccT5EncoderModel.from_pretrained(tmp_path, **fields)
    with pytest.raises(ValueError, match=message):
        VccT5Config(**T5, **fields)


def test_layers_of_segments_are_a_third_or_a_quarter():
    assert VccT5Config(num_layers=12).num_segment_layers == 4
    assert VccBertConfig(num_hidden_layers=24).num_segment_layers == 6


@pytest.mark.parametrize(
    "fields",
    [
        {"segment_size": 0},
        {"budgets": [[6, 1], [4, 1]]},
        {"num_vip_slots": 0},
        {"block_size": 1},
        {"num_segment_layers": -1},
        {"num_segment_layers": 99},
        {"is_decoder": True},
        {"explore_prob": 1.5},
    ],
)
@names
def test_fields_that_make_no_sense_are_refused(name, fields, tmp_path):
    model, config, sizes = ENCODERS[name]
    with pytest.raises(Exception, match=r"must be|multiple"):
        config(**fields)
    config(**sizes).save_pretrained(tmp_path)
    set_later = config.from_pretrained(tmp_path, **fields)  # which transformers does not validate
    with pytest.raises(ValueError, match=r"must be|multiple"):
        model(set_later)


@names
def test_arguments_that_would_do_nothing_are_refused(name):
    model, ids = made(name), ids_of(1, 20)
    with pytest.raises(ValueError, match="attention weights are never materialized"):
        model(ids, output_attentions=True)
    with pytest.raises(ValueError, match="attention weights are never materialized"):
        made(name, output_attentions=True)(ids)
    model(ids, output_attentions=False, unknown_to_this_version=1)


def test_generation_refuses_what_would_do_nothing():
    model = VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT)).eval()
    inputs = {"input_ids": ids_of(1, 20), "labels": ids_of(1, 4)}
    with pytest.raises(ValueError, match="output_vip_scores is an argument of encoders only"):
        model(**inputs, output_vip_scores=True)
    with pytest.raises(ValueError, match="attention weights are never materialized"):
        model(**inputs, output_attentions=True)


@pytest.mark.parametrize("name", ["bert", "roberta", "roberta-prelayernorm"])
def test_the_first_real_row_is_pooled(name):
    model, ids = made(name), ids_of(2, 20)
    padded, mask = torch.cat([ids_of(2, 5), ids], 1), ~first(25, 5, 2)
    vips = mask & first(25, 6, 2)
    with torch.no_grad():
        out, alone = model(padded, attention_mask=mask, vip_mask=vips), model(ids)
    assert relative_error(out.pooler_output, alone.pooler_output) < 1e-12
    assert relative_error(alone.pooler_output[0], alone.pooler_output[1]) > 1e-6


@names
def test_a_lone_first_token_asks_with_slots_too(name):
    model, ids = made(name, num_vip_slots=5), ids_of(2, 60)
    with torch.no_grad():
        told = model(ids, vip_mask=first(60, 1, 2), output_vip_scores=True)
        default = model(ids, output_vip_scores=True)
    assert torch.equal(told.last_hidden_state, default.last_hidden_state)
    assert torch.equal(told.vip_scores[0], default.vip_scores[0])


@names
def test_training_explores(name):
    model, ids = made(name, explore_prob=1), ids_of(1, 60)

    def seen(seed):
        torch.manual_seed(seed)
        return model(ids, output_vip_scores=True).resolutions[0]

    assert torch.equal(seen(0), seen(1))
    model.train()
    assert not torch.equal(seen(0), seen(1))


@names
def test_masks_that_do_not_fit_are_refused(name):
    model, ids = made(name), ids_of(2, 20)
    with pytest.raises(ValueError, match="vip_mask must have the shape"):
        model(ids, vip_mask=first(19, 1, 2))
    with pytest.raises(ValueError, match="the batch has no tokens"):
        model(ids, attention_mask=torch.zeros_like(ids))
    with pytest.raises(ValueError, match="the batch has no tokens"):
        model(ids[:, :0], attention_mask=torch.zeros(2, 0))
    with pytest.raises(ValueError, match="sequence 1 has no VIP token"):
        model(ids, vip_mask=torch.stack([first(20, 1)[0], first(20, 0)[0]]))
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model()


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_the_table_of_positions_begins_again(name):
    size = 20 if name == "bert" else 22
    model = made(name, max_position_embeddings=size)
    seen = []
    model.embeddings.position_embeddings.register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0])
    )
    model(ids_of(1, 50))
    begin = 0 if name == "bert" else 2
    assert seen[0][0].tolist() == [begin + i % 20 for i in range(50)]


def test_generation_equals_t5_where_everything_is_seen(tmp_path):
    torch.manual_seed(0)
    plain = T5ForConditionalGeneration(T5Config(**T5)).double().eval()
    plain.save_pretrained(tmp_path)
    model = VccT5ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float64, **ALL)
    ids, vips = ids_of(2, 40), first(40, 3, 2)
    assert torch.equal(
        model.generate(ids, vip_mask=vips, max_new_tokens=8, num_beams=2),
        plain.generate(ids, max_new_tokens=8, num_beams=2),
    )
    labels = ids_of(2, 6, seed=1)
    ours = model(ids, vip_mask=vips, labels=labels)
    theirs = plain(ids, labels=labels)
    assert relative_error(ours.logits, theirs.logits) < EXACT["t5"]
    assert torch.isclose(ours.loss, theirs.loss)


def test_generation_reads_the_vip_tokens():
    torch.manual_seed(0)
    model = VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT)).double().eval()
    ids, asked = ids_of(1, 60), (first(60, 3), torch.arange(60)[None] > 56)
    seen = [
        model.get_encoder()(ids, vip_mask=mask, output_vip_scores=True).resolutions[0]
        for mask in asked
    ]
    assert not torch.equal(*seen)
    begun = ids_of(1, 4, seed=1)
    logits = [model(ids, vip_mask=mask, decoder_input_ids=begun).logits for mask in asked]
    assert relative_error(*logits) > 1e-6
    kept = {"max_new_tokens": 2, "output_logits": True, "return_dict_in_generate": True}
    first_step = [model.generate(ids, vip_mask=mask, **kept).logits[0] for mask in asked]
    assert relative_error(*first_step) > 1e-6
    assert model.generate(ids, vip_mask=first(60, 3), max_new_tokens=4, min_new_tokens=4).shape == (
        1,
        5,
    )


def test_auto_classes():
    config = AutoConfig.for_model("vcc_t5", **T5)
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is VccT5ForConditionalGeneration
    assert type(AutoModel.from_config(config)) is VccT5EncoderModel
