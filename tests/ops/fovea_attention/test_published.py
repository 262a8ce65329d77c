"""Coverage "paper" inside a T5 encoder gives the published implementation's outputs."""

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from foveate.ops.fovea_attention import fovea_attention, select_nodes
from tests.numerics import relative_error
from tests.paths import shared


@pytest.fixture(params=["fovea_encoder_11", "fovea_encoder_12"])
def golden(request):
    config = json.loads(shared(f"golden/{request.param}.json").read_text())["config"]
    return config, load_file(shared(f"golden/{request.param}.safetensors"))


def encode(input_ids, weights, config):
    """Encode `(batch, length)` tokens: a T5 encoder whose attention is Fovea's."""

    def weight(name):
        return weights[f"weights.{name}.weight"]

    def norm(x, name):
        return weight(name) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    lengths = [input_ids.shape[1]] * input_ids.shape[0]
    first = "encoder.block.0.layer.0.TransientGlobalSelfAttention"
    x = F.embedding(input_ids.flatten(), weight("shared"))
    for layer in (f"encoder.block.{i}.layer" for i in range(config["num_layers"])):
        attention, feed_forward = f"{layer}.0.TransientGlobalSelfAttention", f"{layer}.1"
        y = norm(x, f"{layer}.0.layer_norm")
        q, k, v = (
            F.linear(y, weight(f"{attention}.{name}")).unflatten(-1, (config["num_heads"], -1))
            for name in "qkv"
        )
        y = fovea_attention(
            *(q, k, v),
            block_size=config["block_size"],
            k_neighbours=config["k_neighbours"],
            coverage=config["coverage"],
            bias=weight(f"{first}.relative_attention_bias"),
            lengths=lengths,
        )
        x = x + F.linear(y.flatten(1), weight(f"{attention}.o"))
        y = norm(x, f"{feed_forward}.layer_norm")
        gate = F.gelu(
            F.linear(y, weight(f"{feed_forward}.DenseReluDense.wi_0")), approximate="tanh"
        )
        y = gate * F.linear(y, weight(f"{feed_forward}.DenseReluDense.wi_1"))
        x = x + F.linear(y, weight(f"{feed_forward}.DenseReluDense.wo"))
    return norm(x, "encoder.final_layer_norm").view(*input_ids.shape, -1)


def test_hidden_states(golden):
    config, tensors = golden
    assert config["feed_forward_proj"] == "gated-gelu"
    actual = encode(tensors["input_ids"], tensors, config)
    # The published code takes norms and softmax in float32, and all else in float64.
    assert relative_error(actual, tensors["last_hidden_state"]) < 1e-6


def test_selected_nodes(golden):
    """The published code numbers nodes level by level, of which level q has N - 2^q + 1."""
    config, tensors = golden
    num_blocks = tensors["input_ids"].shape[1] // config["block_size"]
    levels = range(num_blocks.bit_length())
    first = [sum(num_blocks - 2**lower + 1 for lower in range(level)) for level in levels]
    published = tensors["selected_node_ids"].tolist()
    for nodes, ids in zip(
        select_nodes(num_blocks, config["k_neighbours"], "paper"), published, strict=True
    ):
        assert sorted(first[level] + start for level, start in nodes) == sorted(
            number for number in ids if number >= 0
        )
