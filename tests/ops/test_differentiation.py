"""Second derivatives: refused, never silently wrong, and right with the backend "reference"."""

import copy

import pytest
import torch
from transformers import T5Config, T5EncoderModel

from foveate.models.accelerate import speed_up
from foveate.ops.fovea_attention import fovea_attention
from foveate.ops.gated_gelu import gated_gelu
from foveate.ops.relative_attention import relative_attention
from foveate.ops.window_attention import window_attention
from tests.numerics import relative_error

OPS = {
    "window": lambda q, k, v: window_attention(q, k, v, (2, 3)),
    "relative": relative_attention,
    "fovea": lambda q, k, v: fovea_attention(q, k, v, block_size=2, k_neighbours=1),
    "gated GELU": lambda q, k, v: gated_gelu(q, k) + v,
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
    config = T5Config(vocab_size=40, feed_forward_proj="gated-gelu", dropout_rate=0, **sizes)
    config._attn_implementation = "eager"  # which has second derivatives, too
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
