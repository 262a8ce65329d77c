"""Second derivatives and torch.func: right with the backend "reference", otherwise refused.

They are never silently wrong.
"""

import copy

import pytest
import torch
from transformers import T5Config, T5EncoderModel

from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.speed_ups import speed_up
from foveate.models.vcc import VccBertConfig, VccBertModel
from foveate.ops.feed_forward import relu_feed_forward
from foveate.ops.fovea_attention import fovea_attention
from foveate.ops.relative_attention import relative_attention
from foveate.ops.tree_attention import Tree, tree_attention
from foveate.ops.window_attention import global_attention, window_attention
from tests.numerics import relative_error

OPS = {
    "window": lambda q, k, v: window_attention(q, k, v, (2, 3)),
    "relative": relative_attention,
    "fovea": lambda q, k, v: fovea_attention(q, k, v, block_size=2, k_neighbours=1),
}


@pytest.mark.parametrize("name", OPS)
def test_second_derivatives_are_refused(name):
    q, k, v = torch.randn(3, 9, 2, 4, requires_grad=True)
    # The gradient of the sum does not require gradients itself.
    total = OPS[name](q, k, v).sum()
    with pytest.raises(RuntimeError, match="can be differentiated only once: leave create_graph"):
        torch.autograd.grad(total, q, create_graph=True)


def test_the_reference_has_second_derivatives(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    config = T5Config(
        vocab_size=40,
        feed_forward_proj="gated-gelu",
        dropout_rate=0,
        attn_implementation="eager",  # which has second derivatives, too
        **sizes,
    )
    model = T5EncoderModel(config).double()
    ids = torch.randint(3, 40, (2, 9))

    def curvature(model):
        parameters = list(model.encoder.block.parameters())
        loss = model(ids).last_hidden_state[:, 0].sum()
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        size = sum(gradient.square().sum() for gradient in gradients)
        return torch.cat([x.flatten() for x in torch.autograd.grad(size, parameters)])

    actual = curvature(speed_up(copy.deepcopy(model)))
    assert relative_error(actual, curvature(model)) < 1e-5  # T5 brings scores to float32


def test_vcc_models_have_second_derivatives_by_the_reference(monkeypatch):
    model, inputs = vcc()
    parameters = list(model.encoder.parameters())

    def gradients():
        loss = model(*inputs).last_hidden_state[:, 0].sum()
        return torch.autograd.grad(loss, parameters, create_graph=True)

    with pytest.raises(RuntimeError, match="can be differentiated only once"):
        gradients()
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    size = sum(gradient.square().sum() for gradient in gradients())
    query = model.encoder.layer[0].attention.self.query.weight
    (second,) = torch.autograd.grad(size, query)
    assert second.isfinite().all()
    assert second.any()


TREE = Tree.from_parents([-1, 0, 1, 1, 0, 4, 4, 4, 0])
TRANSFORMED = {
    "tree": lambda q, k, v: tree_attention(q, k, v, TREE),
    "feed-forward": lambda q, k, v: relu_feed_forward(q, k[0], v[0].T),
}
BY_REFERENCE = {
    "window": OPS["window"],
    "global": lambda q, k, v: global_attention(q, k, v, q_lengths=[9], k_lengths=[9]),
    "relative": OPS["relative"],
    "fovea": OPS["fovea"],
}


def gradients(op):
    """The gradients of an op by torch.func, and those by torch.autograd."""
    q, k, v = torch.randn(3, 9, 2, 4, dtype=torch.float64, requires_grad=True)

    def loss(q):
        return op(q, k, v).square().sum()

    return torch.func.grad(loss)(q), *torch.autograd.grad(loss(q), q)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_by_any_backend(name):
    actual, expected = gradients(TRANSFORMED[name])
    assert relative_error(actual, expected) < 1e-12


@pytest.mark.parametrize("name", BY_REFERENCE)
def test_transforms_by_the_reference_alone(name, monkeypatch):
    with pytest.raises(RuntimeError, match=r"torch.func.* use the backend \"reference\""):
        gradients(BY_REFERENCE[name])
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    actual, expected = gradients(BY_REFERENCE[name])
    assert relative_error(actual, expected) < 1e-12


def test_kernels_are_not_transformed(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    with pytest.raises(ValueError, match='"triton" cannot run: it cannot be transformed by torch'):
        torch.func.grad(lambda q: relative_attention(q, q, q).sum())(torch.randn(9, 2, 4))


def hdt():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    ids, parents = torch.randint(3, 40, (2, 9)), torch.stack([TREE.parent, TREE.parent])
    mask = torch.ones_like(ids)
    return HDTModel(HDTConfig(vocab_size=40, **sizes)), (ids, mask, parents)


def vcc():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    budget = {"segment_size": 4, "num_segment_layers": 1, "block_size": 2, "num_fine_blocks": 1}
    config = VccBertConfig(vocab_size=40, intermediate_size=24, **sizes, **budget)
    return VccBertModel(config), (torch.randint(3, 40, (2, 9)),)


@pytest.mark.parametrize("build", [hdt, vcc])
def test_models_are_transformed(build, monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    model, inputs = build()
    model = model.double().eval()
    parameters = {name: x for name, x in model.named_parameters() if x.requires_grad}

    def loss(parameters):
        output = torch.func.functional_call(model, parameters, inputs)
        return output.last_hidden_state.square().sum()

    used = torch.autograd.grad(loss(parameters), parameters.values(), allow_unused=True)
    actual = torch.func.grad(loss)(parameters)
    for name, expected in zip(parameters, used, strict=True):
        assert expected is None or relative_error(actual[name], expected) < 1e-9, name
