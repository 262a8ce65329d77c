"""The published HDT-E layout loads unchanged and gives the published implementation's outputs."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from foveate import Document
from foveate.models.hdt import HDTConfig, HDTForMaskedLM, HDTModel
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import HDTProcessor
from foveate.training.objectives.span_corruption import add_mode_token
from foveate.training.tokenizer import train_tokenizer
from tests.numerics import relative_error
from tests.paths import shared

PUBLISHED = {
    "decode_anchor_tokens": False,
    "dense_act_fn": "relu",
    "dropout_rate": 0.1,
    "encoder_only": False,
    "eos_token_id": 1,
    "feed_forward_proj": "relu",
    "initializer_factor": 1.0,
    "is_encoder_decoder": False,
    "is_gated_act": False,
    "is_hierarchical": True,
    "layer_norm_epsilon": 1e-06,
    "max_decoder_position_embeddings": 256,
    "max_encoder_position_embeddings": 8192,
    "model_max_length": 8192,
    "model_type": "hdt",
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "prediction_head": True,
    "relative_attention_max_distance": 128,
    "relative_attention_num_buckets": 32,
    "torch_dtype": "float32",
    "transformers_version": "4.38.0",
    "use_bias": False,
    "use_cache": True,
}
"""What the published class writes to `config.json`, besides sizes."""


def published_config(sizes):
    """The `config.json` of a published model; an encoder has a number of decoder layers, too."""
    is_encoder_decoder = "num_decoder_layers" in sizes
    changes = {"is_encoder_decoder": is_encoder_decoder, "prediction_head": not is_encoder_decoder}
    return {**PUBLISHED, **changes, "num_decoder_layers": sizes["num_layers"], **sizes}


def parents_of(level):
    """Parents from the levels of nodes in reading order; -1 marks padding."""
    parents = torch.full_like(level, -1)
    for row in range(len(level)):
        latest = {}
        for place, depth in enumerate(level[row].tolist()):
            if depth > 0:
                parents[row, place] = latest[depth - 1]
            latest[depth] = place
    return parents.long()


def save_published(name, folder):
    """Save the weights of a published model as a checkpoint; return it, its tensors and inputs."""
    tensors = load_file(shared(f"golden/{name}.safetensors"))
    sizes = json.loads(shared(f"golden/{name}.json").read_text())["config"]
    weights = {
        name.removeprefix("weights."): tensor
        for name, tensor in tensors.items()
        if name.startswith("weights.")
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(published_config(sizes)))
    inputs = {
        "input_ids": tensors["input_ids"],
        "attention_mask": (tensors["level"] >= 0).long(),
        "parent_ids": parents_of(tensors["level"]),
    }
    return folder, tensors, inputs


@pytest.fixture(params=["hdt_encoder_11", "hdt_encoder_12"])
def golden(request, tmp_path):
    return save_published(request.param, tmp_path)


def test_masked_language_model(golden):
    folder, tensors, inputs = golden
    model, info = HDTForMaskedLM.from_pretrained(
        folder, dtype=torch.float64, sparse_prediction=True, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    real = inputs["attention_mask"].bool()
    # The stored loss also counts labels at padding, where the published outputs are undefined.
    labels = tensors["labels"].masked_fill(~real, -100)
    with torch.no_grad():
        output = model.eval()(**inputs, labels=labels)
    labelled, logits = labels != -100, tensors["prediction_logits"]
    assert relative_error(output.logits, logits) < 1e-6
    assert relative_error(output.loss, cross_entropy(logits, labels[labelled])) < 1e-6


def test_encoder(golden):
    folder, tensors, inputs = golden
    model = AutoModel.from_pretrained(folder, dtype=torch.float64)
    assert isinstance(model, HDTModel)
    with torch.no_grad():
        output = model.eval()(**inputs)
    real = inputs["attention_mask"].bool()
    expected = tensors["last_hidden_state"][real]
    assert relative_error(output.last_hidden_state[real], expected) < 1e-6
    assert relative_error(output.pooler_output, tensors["pooler_output"]) < 1e-6
    assert (output.last_hidden_state[~real] == 0).all()


def test_weights_are_saved_in_the_published_layout(golden, tmp_path):
    folder, tensors, inputs = golden
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float64)
    model.save_pretrained(tmp_path / "again")
    saved = load_file(tmp_path / "again" / "model.safetensors")
    assert {f"weights.{name}" for name in saved} <= set(tensors)
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "again", dtype=torch.float64)
    with torch.no_grad():
        logits = [m.eval()(**inputs).logits for m in (model, again)]
    assert torch.equal(*logits)


SIZES = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}


@pytest.mark.parametrize("loader", [AutoConfig, HDTConfig])
@pytest.mark.parametrize("decoder", [{}, {"num_decoder_layers": 3}])
def test_published_configurations(loader, decoder, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published_config(SIZES | decoder)))
    config = loader.from_pretrained(tmp_path)
    for _ in range(2):  # as published, and saved again
        assert config.position_embedding_type == "hierarchical"
        assert config.decode_anchors == "token"
        assert config.is_encoder_decoder == bool(decoder)
        assert config.num_decoder_layers == decoder.get("num_decoder_layers")
        config.save_pretrained(tmp_path)
        config = loader.from_pretrained(tmp_path)


def test_a_published_decoder_of_anchors_reads_those_of_sections_and_sentences():
    fields = published_config(SIZES | {"num_decoder_layers": 2})
    assert HDTConfig(**fields | {"decode_anchor_tokens": True}).decode_anchors == "sentence"


@pytest.mark.parametrize("field", [{"is_hierarchical": False}, {"use_bias": True}])
def test_published_options_that_no_checkpoint_has_are_refused(field):
    with pytest.raises(ValueError, match="are not supported"):
        HDTConfig(**published_config(SIZES) | field)


def test_an_encoder_decoder_says_how_deep_its_decoder_is():
    with pytest.raises(ValueError, match="needs num_decoder_layers"):
        HDTConfig(**SIZES, is_encoder_decoder=True)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_follows_the_final_norm_of_the_encoder(rate):
    model = HDTModel(HDTConfig(**SIZES, dropout_rate=0.0)).train()
    model.encoder.dropout.p = rate
    ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]])
    parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]])
    zeros = (model(ids, parent_ids=parents).last_hidden_state == 0).double().mean()
    assert (0.2 < zeros < 0.8) if rate else zeros == 0


def published_positions(sections, num_before):
    """The published tokenizer's `position_ids` of sections of sentences of so many tokens.

    The `num_before` tokens of a global query, or of UL2's mode, which it puts before the document,
    are numbered from 0 on all levels; here they follow the document's anchor.
    """
    positions = [(0, 0, 0), *((i, i, i) for i in range(num_before))]
    for section, sentences in enumerate(sections, start=1):
        positions.append((0, 0, section))
        for sentence, length in enumerate(sentences, start=1):
            positions += [(token, sentence, section) for token in range(length + 1)]
    return torch.tensor(positions)


@pytest.mark.parametrize("how", ["alone", "query", "mode"])
def test_sections_count_from_one_whatever_is_read_globally(how):
    document = Document.from_sections(
        "", [("", "Cod swim far. They eat."), ("", "Eels hide."), ("", "Rays.")]
    )
    tokenizer = train_tokenizer([document], 900)
    processor = HDTProcessor(tokenizer, query_as="global")
    query = "Which fish hide?" if how == "query" else None
    features = processor.features(document, query=query)
    num_before = 0 if query is None else len(tokenizer(query, add_special_tokens=False).input_ids)
    if how == "mode":
        features, num_before = add_mode_token(features, 9), 1
    tree = Tree.from_parents(features["parent_ids"])
    model = HDTModel(HDTConfig(**SIZES))
    encoding = model.encoder.embed_positions.encoding(tree.in_level_order)

    sections = [
        [len(tokenizer(s, add_special_tokens=False).input_ids) for s in sentences]
        for sentences in (["Cod swim far.", "They eat."], ["Eels hide."], ["Rays."])
    ]
    positions = published_positions(sections, num_before)
    angles = positions[..., None] * 10000.0 ** (-torch.arange(0, SIZES["d_model"], 2) / 16)
    expected = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(2).sum(1)
    assert relative_error(tree.from_level_order(encoding), expected) < 1e-5
