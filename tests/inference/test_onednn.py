"""Layers that oneDNN computes on a CPU give what the layers they replace give."""

import pytest
import torch
from torch import nn

from foveate import Document, Encoder
from foveate.inference import onednn, tree_runner
from foveate.inference.onednn import OneDNNLinear, OneDNNResidual, use_onednn
from foveate.models.tree_bert_network import NetworkConfig, TreeBertEncoder, TreeBertLayer
from tests.numerics import relative_error
from tests.tree_bert import save_tree_bert

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"
)
needs_bfloat16 = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="the processor does not compute in bfloat16",
)

TEXTS = ["Cod swim. ", "", "Eels are long and live in the sand of rivers. " * 4, "Krill."]
FISH = Document.from_sections("Fish", [("Cod", ["Cod swim.", "They eat krill."]), ("Eel", TEXTS)])


def config(activation="gelu"):
    return NetworkConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_act=activation,
        hidden_dropout_prob=0.1,
        max_position_embeddings=16,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        salience_size=8,
        salience_dropout=0.0,
        _name_or_path="",
    )


def layers_of(activation="gelu"):
    torch.manual_seed(0)
    return TreeBertEncoder(config(activation), TreeBertLayer).eval().requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("gelu_follows", [True, False])
def test_linear_layers(bias, activation, gelu_follows, monkeypatch):
    monkeypatch.setattr(onednn, "GELU_FOLLOWS", gelu_follows)
    torch.manual_seed(0)
    linear = nn.Linear(24, 40, bias=bias).requires_grad_(False)
    x = torch.randn(3, 5, 24)
    expected = linear(x)
    if activation == "gelu":
        expected = nn.functional.gelu(expected)
    assert relative_error(OneDNNLinear(linear, activation=activation)(x), expected) < 1e-6


def test_a_residual_connection():
    torch.manual_seed(0)
    linear = nn.Linear(24, 16).requires_grad_(False)
    x, residual = torch.randn(7, 24), torch.randn(7, 16)
    kept = residual.clone()
    assert relative_error(OneDNNLinear(linear)(x, residual), linear(x) + residual) < 1e-6
    assert torch.equal(residual, kept)


@needs_bfloat16
def test_a_residual_connection_keeps_its_dtype():
    torch.manual_seed(0)
    linear = nn.Linear(24, 16, dtype=torch.bfloat16).requires_grad_(False)
    x, residual = torch.randn(7, 24), 1e3 * torch.randn(7, 16)
    output = OneDNNLinear(linear)(x, residual)
    assert output.dtype == torch.float32
    # In bfloat16 the sum alone would be wrong by a thousandth.
    assert relative_error(output, linear(x.bfloat16()).float() + residual) < 1e-6


PASSAGES = [(1, 1), (2, 3)]  # one of a single token, and two of three


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_layers_of_tree_bert(activation):
    layers, x = layers_of(activation), torch.randn(7, 32)
    expected = layers(x, PASSAGES)
    use_onednn(layers, torch.float32)
    assert isinstance(layers.layer[0].attention.output, OneDNNResidual)
    # What cannot be fused is left as it is.
    assert isinstance(layers.layer[0].intermediate, OneDNNLinear) == (activation == "gelu")
    assert not any(isinstance(module, nn.Linear) for module in layers.modules())
    with torch.inference_mode():
        assert relative_error(layers(x, PASSAGES), expected) < 1e-6


def test_a_dtype_that_the_processor_lacks_changes_nothing(monkeypatch):
    monkeypatch.setattr("foveate.inference.onednn._computes_in", lambda dtype: False)
    layers = layers_of()
    use_onednn(layers, torch.bfloat16)
    assert not any(isinstance(module, OneDNNLinear) for module in layers.modules())


@needs_bfloat16
def test_bfloat16_of_the_default_model_with_and_without(monkeypatch):
    exact = Encoder.from_pretrained(device="cpu")
    fused = Encoder.from_pretrained(device="cpu", dtype="bfloat16")
    monkeypatch.setattr(tree_runner, "use_onednn", lambda model, dtype: None)
    plain = Encoder.from_pretrained(device="cpu", dtype="bfloat16")
    expected = exact.encode_texts(TEXTS)
    for reduced in (fused, plain):
        assert relative_error(reduced.encode_texts(TEXTS), expected) < 1e-2
        assert relative_error(reduced.encode(FISH).sentences, exact.encode(FISH).sentences) < 1e-2


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
def test_vectors_do_not_depend_on_the_other_texts(dtype, tmp_path, tokenizer):
    save_tree_bert(tmp_path, tokenizer)
    encoder = Encoder.from_pretrained(tmp_path, device="cpu", dtype=dtype)
    alone = torch.stack([encoder.encode_texts(text) for text in TEXTS])
    limit = 1e-6 if dtype == "float32" else 5e-3
    assert relative_error(encoder.encode_texts(TEXTS * 20)[-4:], alone) < limit
