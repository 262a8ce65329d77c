"""The published HDT-E layout loads unchanged and gives the published implementation's outputs."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import AutoModel, AutoModelForMaskedLM

from foveate.models.hdt import HDTForMaskedLM, HDTModel
from tests.numerics import relative_error
from tests.paths import shared


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
    config = json.loads(shared(f"golden/{name}.json").read_text())["config"]
    weights = {
        name.removeprefix("weights."): tensor
        for name, tensor in tensors.items()
        if name.startswith("weights.")
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "hdt"}))
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
        folder, dtype=torch.float64, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    real = inputs["attention_mask"].bool()
    # The stored loss also counts labels at padding, where the published outputs are undefined.
    labels = tensors["labels"].masked_fill(~real, -100)
    with torch.no_grad():
        output = model.eval()(**inputs, labels=labels)
    labelled, logits = labels != -100, tensors["prediction_logits"]
    assert relative_error(output.logits[labelled], logits) < 1e-6
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
