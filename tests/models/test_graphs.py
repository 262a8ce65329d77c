"""Encoders captured as CUDA graphs: the same outputs, whatever the inputs, shapes and weights."""

from copy import deepcopy

import pytest
import torch
from transformers import BertConfig, BertModel, LongformerConfig, LongformerModel

from foveate import FoveaConfig, FoveaEncoderModel, accelerate, capture
from foveate.models import graphs
from foveate.models.accelerate import restore
from tests.numerics import relative_error

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def longformer():
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        attention_window=32,
        max_position_embeddings=600,
        pad_token_id=1,
    )
    return accelerate(LongformerModel(config)).eval()


def fovea():
    torch.manual_seed(0)
    config = FoveaConfig(vocab_size=50, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2)
    return FoveaEncoderModel(config).eval()


MODELS = {"Longformer": longformer, "Fovea": fovea}


def batch(model, device, batch=2, length=300, padding=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 50, (batch, length), generator=generator).to(device)
    mask = torch.ones_like(ids)
    if padding:
        mask[-1, -padding:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if isinstance(model, LongformerModel):
        inputs["global_attention_mask"] = torch.zeros_like(ids)
        inputs["global_attention_mask"][:, seed : seed + 2] = 1
    return inputs


def outputs(model, inputs):
    real = inputs["attention_mask"].bool()
    return model(**inputs).last_hidden_state[real]


@pytest.mark.parametrize("name", MODELS)
def test_on_a_cpu_nothing_changes(name):
    model = MODELS[name]()
    inputs = batch(model, "cpu", length=60, padding=7)
    with torch.no_grad():
        before = outputs(model, inputs)
        assert capture(model) is model
        assert torch.equal(outputs(model, inputs), before)
        assert torch.equal(outputs(deepcopy(model), inputs), before)
    assert type(capture(model).encoder) in graphs.CAPTURED.values()
    names = list(model.state_dict())
    assert type(restore(model).encoder) not in graphs.CAPTURED.values()
    assert list(model.state_dict()) == names


def test_what_cannot_be_captured():
    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with pytest.raises(ValueError, match="no encoder to capture in a BertModel"):
        capture(BertModel(config))
    with pytest.raises(ValueError, match="accelerate comes first"):
        capture(restore(longformer()))


@gpu
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_graphs_give_what_layers_give(name, context):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    kinds = [
        batch(model, "cuda", padding=padding, seed=seed) for seed in range(3) for padding in (0, 9)
    ]
    with context():
        for _ in range(2):
            for inputs in kinds:
                assert torch.equal(outputs(captured, inputs), outputs(model, inputs))
    assert len(graphs._graphs[captured.encoder]) == 2


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_graphs_follow_the_weights(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    inputs = batch(model, "cuda", padding=9)
    with torch.no_grad():
        for _ in range(3):
            first = outputs(captured, inputs)
        for change in (
            lambda m: [p.mul_(1.1) for p in m.parameters()],
            lambda m: m.to(torch.bfloat16),
            lambda m: m.load_state_dict({k: v / 2 for k, v in m.state_dict().items()}, assign=True),
        ):
            change(model), change(captured)
            for _ in range(3):
                second = outputs(captured, inputs)
                assert torch.equal(second, outputs(model, inputs))
            assert relative_error(second.float(), first.float()) > 1e-3


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_kept_and_graphs_are_forgotten(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    with torch.no_grad():
        for length in range(40, 40 + 2 * graphs.LIMIT):
            inputs = batch(model, "cuda", length=length)
            kept = [outputs(captured, inputs) for _ in range(3)]
            outputs(captured, batch(model, "cuda", length=length, seed=1))
            for some in kept:
                assert torch.equal(some, outputs(model, inputs))
    assert len(graphs._graphs[captured.encoder]) == graphs.LIMIT
    restore(captured)
    assert captured.encoder not in graphs._graphs


@gpu
def test_training_and_hidden_states_are_as_before():
    model = longformer().cuda()
    captured = capture(deepcopy(model))
    inputs = batch(model, "cuda")
    for one in (model, captured):
        one(**inputs).last_hidden_state.square().mean().backward()
    for a, b in zip(model.parameters(), captured.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or torch.equal(a.grad, b.grad)
    with torch.no_grad():
        all_states = [one(**inputs, output_hidden_states=True)[2] for one in (model, captured)]
    for a, b in zip(*all_states, strict=True):
        assert torch.equal(a, b)
