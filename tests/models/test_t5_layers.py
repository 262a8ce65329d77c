import copy
import pickle

import pytest
import torch
from torch import nn
from transformers import LongT5Config, T5Config
from transformers.models.longt5.modeling_longt5 import LongT5LayerFF, LongT5LayerNorm
from transformers.models.t5.modeling_t5 import T5LayerFF, T5LayerNorm

from foveate.models.speed_ups import LAYER_PATCHES
from foveate.models.speed_ups.patching import apply_patches
from foveate.models.t5_models import T5_ENCODER_PATCHES, PreciseT5LayerNorm
from tests.numerics import TOLERANCE, relative_error

GATES = ["gated-gelu", "gated-gelu_pytorch_tanh", "gated-silu", "relu"]
CONFIGS = {T5LayerFF: T5Config, LongT5LayerFF: LongT5Config}


def made(layer_class, activation, dtype=torch.float32, dropout=0.0):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "d_ff": 40, "dropout_rate": dropout}
    layer = layer_class(CONFIGS[layer_class](feed_forward_proj=activation, **sizes))
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    return layer.to(dtype)


def fused(layer):
    """A copy with the layer's parts replaced as in sped-up models."""
    layer = copy.deepcopy(layer)
    apply_patches(layer, LAYER_PATCHES)
    return layer


def rows(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 9, 24, generator=generator).to(dtype).requires_grad_()


def results(layer, x):
    torch.manual_seed(2)
    out = layer(x)
    out.square().sum().backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters())]
    x.grad = None
    return out, torch.cat([gradient.flatten().float() for gradient in gradients])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("activation", GATES)
@pytest.mark.parametrize("layer_class", CONFIGS)
def test_parts_are_those_of_transformers(layer_class, activation, dropout):
    layer = made(layer_class, activation, dropout=dropout)
    for expected, actual in zip(results(layer, rows()), results(fused(layer), rows()), strict=True):
        assert relative_error(actual, expected) < 1e-6


@pytest.mark.parametrize("activation", GATES)
def test_layers_of_derived_models_are_those_of_transformers(activation):
    layer = made(T5LayerFF, activation)
    ours = copy.deepcopy(layer)
    apply_patches(ours, T5_ENCODER_PATCHES)
    assert type(ours.layer_norm) is PreciseT5LayerNorm
    for expected, actual in zip(results(layer, rows()), results(ours, rows()), strict=True):
        assert relative_error(actual, expected) < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_within_its_rounding(dtype):
    exact = made(T5LayerFF, "gated-gelu")
    layer = copy.deepcopy(exact).to(dtype)
    exact.load_state_dict(layer.state_dict())
    expected = exact(rows(dtype).float())
    assert relative_error(fused(layer)(rows(dtype)), expected) < TOLERANCE[dtype]


def test_a_product_that_is_kept_in_float32():
    layer = made(T5LayerFF, "gated-gelu", torch.float16)
    layer.DenseReluDense.wo.float()
    expected, actual = (each(rows(torch.float16)) for each in (layer, fused(layer)))
    assert actual.dtype == expected.dtype == torch.float32
    assert relative_error(actual, expected) < TOLERANCE[torch.float16]


@pytest.mark.parametrize("layer_class", CONFIGS)
def test_autocast(layer_class):
    layer = made(layer_class, "gated-gelu")
    with torch.autocast("cpu", torch.bfloat16):
        (expected, slope), (actual, ours) = (results(x, rows()) for x in (layer, fused(layer)))
    assert actual.dtype == expected.dtype == torch.float32
    assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]
    assert relative_error(ours, slope) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("of_rows", [torch.float32, torch.float16])
@pytest.mark.parametrize("of_weights", [torch.float32, torch.float16])
@pytest.mark.parametrize("norm_class", [T5LayerNorm, LongT5LayerNorm])
def test_norms_of_rows_that_are_wider_or_narrower(norm_class, of_rows, of_weights):
    norm = norm_class(24)
    nn.init.normal_(norm.weight)
    norm.to(of_weights)
    expected, actual = (each(rows(of_rows)) for each in (norm, fused(norm)))
    assert actual.dtype == expected.dtype
    assert relative_error(actual, expected) < TOLERANCE[actual.dtype]


def test_norms_of_float64():
    norm = T5LayerNorm(24).double()
    expected = norm(rows(torch.float64))
    assert torch.equal(fused(norm)(rows(torch.float64)), expected)  # as imprecise
    ours = PreciseT5LayerNorm(24).double()
    truth = nn.functional.rms_norm(rows(torch.float64), (24,), eps=1e-6)
    assert relative_error(ours(rows(torch.float64)), truth) < 1e-14


def test_copies_are_as_fast():
    layer = fused(made(T5LayerFF, "gated-gelu"))
    types = [type(module) for module in layer.modules()]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert [type(module) for module in other.modules()] == types
