"""Second derivatives: right with the backend "reference", otherwise refused.

They are never silently wrong.
"""

import copy

import pytest
import torch
from transformers import T5Config, T5EncoderModel

from foveate.models.speed_ups import speed_up
from foveate.models.vcc import VccBertConfig, VccBertModel
from foveate.ops.fovea_attention import fovea_attention
from foveate.ops.relative_attention import relative_attention
from foveate.ops.window_attention import window_attention
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


def test_second_derivatives_of_vcc_are_refused():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    budget = {"segment_size": 4, "num_segment_layers": 1, "block_size": 2, "num_fine_blocks": 1}
    model = VccBertModel(VccBertConfig(vocab_size=40, intermediate_size=24, **sizes, **budget))
    loss = model(torch.randint(3, 40, (2, 9))).last_hidden_state[:, 0].sum()
    with pytest.raises(RuntimeError, match="can be differentiated only once"):
        torch.autograd.grad(loss, list(model.encoder.parameters()), create_graph=True)


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
