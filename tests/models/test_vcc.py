import json
import logging

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)
from transformers.models.t5.modeling_t5 import T5Attention

from foveate import (
    VccBertConfig,
    VccBertForMaskedLM,
    VccBertForMultipleChoice,
    VccBertForQuestionAnswering,
    VccBertForSequenceClassification,
    VccBertModel,
    VccRobertaConfig,
    VccRobertaForMaskedLM,
    VccRobertaForMultipleChoice,
    VccRobertaForQuestionAnswering,
    VccRobertaForSequenceClassification,
    VccRobertaModel,
    VccT5Config,
    VccT5EncoderModel,
    VccT5ForConditionalGeneration,
)
from foveate.models.padding import padding
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
}
PLAIN = {
    "t5": (T5EncoderModel, T5Config),
    "bert": (BertModel, BertConfig),
    "roberta": (RobertaModel, RobertaConfig),
}
names = pytest.mark.parametrize("name", ENCODERS)
EXACT = {"t5": 1e-6, "bert": 1e-12, "roberta": 1e-12}  # T5's norms are of float32 in transformers


def made(name, **fields):
    model, config, sizes = ENCODERS[name]
    torch.manual_seed(0)
    return model(config(**(sizes | SHORT | fields))).double().eval()


def ids_of(*shape, seed=0):
    return torch.randint(5, 60, shape, generator=torch.Generator().manual_seed(seed))


def first(length, count, batch=1):
    return (torch.arange(length) < count).expand(batch, -1)


@pytest.mark.parametrize("number", [11, 12])
def test_published_encoder(number):
    golden = load_file(shared(f"golden/vcc_t5_encoder_{number}.safetensors"))
    config = json.loads(shared(f"golden/vcc_t5_encoder_{number}.json").read_text())["config"]
    model = VccT5EncoderModel(VccT5Config(**config)).double().eval()
    weights = {
        name.removeprefix("weights."): tensor.double()
        for name, tensor in golden.items()
        if name.startswith("weights.")
    }
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["encoder.embed_tokens.weight"], [])  # which is shared
    real = golden["attention_mask"].bool()
    with torch.no_grad():
        out = model(golden["input_ids"].long(), golden["attention_mask"], golden["vip_mask"])
    # Published means and multiplicities are of 1e-4 tokens more.
    assert relative_error(out.last_hidden_state[real], golden["last_hidden_state"][real]) < 2e-5


@names
@pytest.mark.parametrize("fields", [{}, {"budgets": [[8, 99], [4, 99]]}])
def test_seeing_everything_equals_the_plain_model(name, fields, tmp_path):
    plain_class, plain_config = PLAIN[name]
    torch.manual_seed(0)
    plain = plain_class(plain_config(**ENCODERS[name][2])).double().eval()
    plain.save_pretrained(tmp_path)
    model = ENCODERS[name][0].from_pretrained(tmp_path, dtype=torch.float64, **ALL, **fields)
    ids, mask = ids_of(2, 50), torch.ones(2, 50, dtype=torch.long)
    mask[1, 41:] = 0
    vips = first(50, 3, 2) | (torch.arange(50) == 20)
    with torch.no_grad():
        expected = plain(ids, attention_mask=mask)
        out = model(ids, attention_mask=mask, vip_mask=vips)
    real = mask.bool()
    assert (
        relative_error(out.last_hidden_state[real], expected.last_hidden_state[real]) < EXACT[name]
    )
    assert not out.last_hidden_state[~real].any()
    if name != "t5":
        assert relative_error(out.pooler_output, expected.pooler_output) < 1e-12


@names
def test_segments_equal_the_plain_model_on_each(name, tmp_path):
    plain_class, plain_config = PLAIN[name]
    plain = plain_class(plain_config(**ENCODERS[name][2])).double().eval()
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
                places["position_ids"] = (name == "roberta") * 2 + torch.arange(
                    start, start + part.shape[1]
                )[None]
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


@names
def test_saved_and_loaded(name, tmp_path):
    model = made(name, num_vip_slots=5)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == f"vcc_{name}"
    loaded, info = AutoModel.from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    assert type(loaded) is type(model)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert loaded.config.num_vip_slots == 5
    ids = ids_of(1, 40)
    with torch.no_grad():
        assert torch.equal(loaded(ids).last_hidden_state, model(ids).last_hidden_state)


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


def test_layers_of_segments_are_a_third_or_a_quarter():
    assert VccT5Config(num_layers=12).num_segment_layers == 4
    assert VccBertConfig(num_hidden_layers=24).num_segment_layers == 6


@pytest.mark.parametrize(
    "fields",
    [{"segment_size": 0}, {"budgets": [[6, 1], [4, 1]]}, {"num_vip_slots": 0}, {"block_size": 1}],
)
def test_fields_that_make_no_sense_are_refused(fields):
    with pytest.raises(Exception, match=r"must be|multiple"):
        VccT5Config(**fields)


@names
def test_masks_that_do_not_fit_are_refused(name):
    model, ids = made(name), ids_of(2, 20)
    with pytest.raises(ValueError, match="vip_mask must have the shape"):
        model(ids, vip_mask=first(19, 1, 2))
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


@pytest.mark.parametrize("beams", [1, 3])
def test_compressed_cross_attention_of_all_blocks_is_cross_attention(beams):
    def made(**fields):
        torch.manual_seed(0)
        return VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT | fields)).double().eval()

    ids, vips = ids_of(2, 41), first(41, 3, 2)
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    plain = made(num_fine_blocks=99)
    model = made(num_fine_blocks=99, compress_cross_attention=True)
    labels = ids_of(2, 6, seed=1)
    inputs = {"input_ids": ids, "attention_mask": mask, "vip_mask": vips}
    # log multiplicities are of float32.
    assert (
        relative_error(model(**inputs, labels=labels).logits, plain(**inputs, labels=labels).logits)
        < 1e-6
    )
    kept = {"max_new_tokens": 8, "num_beams": beams}
    assert torch.equal(model.generate(**inputs, **kept), plain.generate(**inputs, **kept))


def test_compressed_cross_attention_sees_other_blocks_as_their_mean():
    """As if every token that is not looked at closely were its block's mean."""
    torch.manual_seed(0)
    config = VccT5Config(**T5, **SHORT, compress_cross_attention=True)
    model = VccT5ForConditionalGeneration(config).double().eval()
    states, queries = torch.randn(1, 22, 16).double(), torch.randn(1, 3, 16).double()
    attention = model.decoder.block[0].layer[1].EncDecAttention
    mask = padding(
        batch_size=1, kv_length=22, kv_offset=0, attention_mask=(torch.arange(22) < 20)[None]
    )
    out = attention(queries, mask=mask, key_value_states=states)[0]
    heads = [(x(y)).view(-1, 2, 8) for x, y in ((attention.q, queries), (attention.k, states))]
    means = torch.stack([block.mean(1)[0] for block in states[:, :20].split(4, 1)])
    scores = torch.einsum("qhd,khd->hqk", heads[0], attention.k(means).view(-1, 2, 8))
    best = scores.softmax(-1).mean((0, 1)).topk(2).indices.tolist()
    seen = states[0, :20].clone()
    for block in set(range(5)) - set(best):
        seen[4 * block : 4 * block + 4] = means[block]
    plain = T5Attention.forward(attention, queries, key_value_states=seen[None])[0]
    assert relative_error(out, plain) < 1e-6


def test_compressed_cross_attention_caches_means_alone():
    torch.manual_seed(0)
    config = VccT5Config(**T5, **SHORT, compress_cross_attention=True)
    model = VccT5ForConditionalGeneration(config).double().eval()
    ids, vips = ids_of(1, 50), first(50, 3)
    stepwise = model.generate(
        ids, vip_mask=vips, max_new_tokens=5, return_dict_in_generate=True, use_cache=True
    )
    cache = stepwise.past_key_values.cross_attention_cache
    assert cache.layers[0].keys.shape == (1, 2, 13, 8)
    out = model(ids, vip_mask=vips, labels=ids[:, :4])
    out.loss.backward()
    key = model.decoder.block[0].layer[1].EncDecAttention.k.weight
    assert key.grad.abs().sum() > 0


def test_generation_reads_the_vip_tokens():
    torch.manual_seed(0)
    model = VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT)).double().eval()
    ids = ids_of(1, 60)
    seen = [
        model.get_encoder()(ids, vip_mask=mask, output_vip_scores=True).resolutions[0]
        for mask in (first(60, 3), torch.arange(60)[None] > 56)
    ]
    assert not torch.equal(*seen)
    assert model.generate(ids, vip_mask=first(60, 3), max_new_tokens=4, min_new_tokens=4).shape == (
        1,
        5,
    )


@pytest.mark.parametrize(
    ("family", "head", "auto", "fields"),
    [
        ("bert", VccBertForMaskedLM, AutoModelForMaskedLM, {}),
        ("roberta", VccRobertaForMaskedLM, AutoModelForMaskedLM, {}),
        ("bert", VccBertForSequenceClassification, AutoModelForSequenceClassification, {}),
        ("roberta", VccRobertaForSequenceClassification, AutoModelForSequenceClassification, {}),
        ("bert", VccBertForQuestionAnswering, AutoModelForQuestionAnswering, {}),
        ("roberta", VccRobertaForQuestionAnswering, AutoModelForQuestionAnswering, {}),
        ("bert", VccBertForMultipleChoice, AutoModelForMultipleChoice, {}),
        ("roberta", VccRobertaForMultipleChoice, AutoModelForMultipleChoice, {}),
    ],
)
def test_heads(family, head, auto, fields, tmp_path):
    """Trained from the encoder's folder, they have losses, and save and load."""
    made(family).save_pretrained(tmp_path / "encoder")
    model = head.from_pretrained(tmp_path / "encoder", dtype=torch.float64)
    ids, vips = ids_of(2, 40), first(40, 2, 2)
    labels = {"labels": torch.tensor([0, 1])}
    if "Masked" in head.__name__:
        labels = {"labels": ids}
    elif "Question" in head.__name__:
        labels = {"start_positions": torch.tensor([3, 5]), "end_positions": torch.tensor([4, 9])}
    elif "Choice" in head.__name__:
        ids = ids_of(2, 3, 40)
        vips = vips[:, None].expand(2, 3, 40)
    out = model.train()(ids, vip_mask=vips, **labels)
    out.loss.backward()
    assert torch.isfinite(out.loss)
    assert model.base_model.encoder.layer[2].attention.self.query.weight.grad.abs().sum() > 0
    model.eval().save_pretrained(tmp_path / "head")
    loaded = auto.from_pretrained(tmp_path / "head", dtype=torch.float64)
    assert type(loaded) is head
    with torch.no_grad():
        a, b = model(ids, vip_mask=vips), loaded(ids, vip_mask=vips)
    assert relative_error(a[0], b[0]) < 1e-14


def test_auto_classes():
    config = AutoConfig.for_model("vcc_t5", **T5)
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is VccT5ForConditionalGeneration
    assert type(AutoModel.from_config(config)) is VccT5EncoderModel


def test_trainer(tmp_path):
    torch.manual_seed(0)
    model = VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT))
    ids = ids_of(8, 40)
    data = [
        {"input_ids": row, "vip_mask": first(40, 2)[0].long(), "labels": row[5:9]} for row in ids
    ]
    arguments = TrainingArguments(
        tmp_path,
        per_device_train_batch_size=4,
        num_train_epochs=8,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        logging_steps=2,
        save_strategy="no",
        remove_unused_columns=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3
