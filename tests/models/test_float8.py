import copy
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from foveate.models import projections
from foveate.models.float8 import Float8Linear, project_float8
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTModel
from foveate.models.projections import feed_forward, lay_out_weights, project
from foveate.models.speed_ups import cuda_graphs, use_float8
from foveate.models.speed_ups.cuda_graphs import capture
from tests.devices import DEVICE, gpu
from tests.numerics import relative_error
from tests.tree_bert import tree_bert


@contextmanager
def count_calls(module, name):
    """Record the calls of a function."""
    calls = []
    function = getattr(module, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, lambda *args: calls.append(args) or function(*args))
        yield calls


@pytest.fixture
def joined(monkeypatch):
    """Join products on a CPU, too."""
    monkeypatch.setattr(projections, "_joins", lambda x: True)


def hdt(**fields):
    torch.manual_seed(0)
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    return HDTModel(HDTConfig(vocab_size=50, **sizes | fields)).eval()


def test_the_layer_is_the_product_of_rounded_rows():
    torch.manual_seed(0)
    for bias in (False, True):
        linear = nn.Linear(32, 48, bias=bias)
        x = torch.randn(2, 5, 32)
        found = Float8Linear(linear)(x)
        assert found.shape == (2, 5, 48)
        assert found.dtype == torch.float32
        assert 1e-3 < relative_error(found, linear(x)) < 0.06
        assert Float8Linear(linear)(x[:, :0]).shape == (2, 0, 48)
        relu = Float8Linear(linear)(x, relu=True)
        assert torch.equal(relu, Float8Linear(linear)(x.clamp(min=0)))


def test_layers_of_one_input_share_a_product(joined):
    torch.manual_seed(0)
    layers = nn.ModuleList(Float8Linear(nn.Linear(32, n)) for n in (16, 48))
    x = torch.randn(3, 32)
    for found, layer in zip(project(x, *layers), layers, strict=True):
        assert torch.equal(found, layer(x))
    apart = [layer(x) for layer in layers]
    lay_out_weights(layers)
    assert layers[1].values.data_ptr() == layers[0].values.data_ptr() + 16 * 32
    with count_calls(torch, "cat") as concatenated:
        together = project(x, *layers)
    assert not concatenated
    assert all(map(torch.equal, together, apart))
    moved = copy.deepcopy(layers)
    moved[1].values = moved[1].values.clone()
    assert all(map(torch.equal, project(x, *moved), apart))
    layers[1].register_forward_hook(lambda module, args, output: output + 1)
    assert torch.equal(project(x, *layers)[1], layers[1](x))


def test_layers_made_in_inference_mode_share_a_product(joined):
    with torch.inference_mode():
        model = use_float8(hdt())
    attention = model.encoder.block[0].layer[0].SelfAttention
    q, k = attention.q.values, attention.k.values
    assert k.data_ptr() == q.data_ptr() + q.nbytes


def test_relu_is_computed_where_rows_are_rounded():
    torch.manual_seed(0)
    first, second = (Float8Linear(nn.Linear(*sizes)) for sizes in ((32, 64), (64, 16)))
    x, dropout = torch.randn(3, 32), nn.Dropout().eval()
    found = feed_forward(x, first, nn.ReLU(), second, dropout)
    assert torch.equal(found, second(first(x).relu()))
    other = feed_forward(x, first, nn.GELU(), second, dropout)
    assert torch.equal(other, second(nn.functional.gelu(first(x))))


@pytest.mark.parametrize("activation", ["relu", "gated-gelu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_stays_close(activation, dtype):
    model = hdt(feed_forward_proj=activation)
    ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]], device=DEVICE)
    parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]], device=DEVICE)
    exact = model.to(DEVICE)(ids, parent_ids=parents).last_hidden_state
    for rounded in (use_float8(copy.deepcopy(model)).to(dtype), use_float8(model.to(dtype))):
        found = rounded(ids, parent_ids=parents).last_hidden_state
        assert found.dtype == dtype
        assert not found.requires_grad
        assert 1e-3 < relative_error(found, exact) < 0.1


@gpu
def test_it_is_captured():
    model = use_float8(hdt().to("cuda", torch.bfloat16))
    ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]], device="cuda")
    parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]], device="cuda")
    direct = model(ids, parent_ids=parents).last_hidden_state
    captured = [capture(model)(ids, parent_ids=parents).last_hidden_state for _ in range(3)]
    assert all(relative_error(each, direct) < 1e-2 for each in captured)
    assert len(cuda_graphs._graphs_by_module[model.encoder].graphs) == 1


def test_the_encoder_of_an_encoder_decoder_is_changed():
    config = HDTConfig(
        vocab_size=50, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4,
        num_decoder_layers=1,
    )  # fmt: skip
    model = use_float8(HDTForConditionalGeneration(config))
    rounded = [name for name, each in model.named_modules() if type(each) is Float8Linear]
    assert len(rounded) == 6
    assert all("encoder.block" in name and "decoder" not in name for name in rounded)


def test_gradients_and_saving_are_refused(tmp_path):
    model = use_float8(hdt())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(RuntimeError, match="cannot be saved: save it before use_float8"):
        model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="load them before use_float8"):
        model.load_state_dict(hdt().state_dict(), strict=False)
    layer = model.encoder.block[0].layer[1].DenseReluDense.wi
    with pytest.raises(RuntimeError, match="have no gradients"):
        project_float8(torch.randn(2, 64, requires_grad=True), [layer])


def test_layers_are_replaced_once(joined):
    model = use_float8(hdt())
    layers = [each for each in model.modules() if type(each) is Float8Linear]
    assert [each for each in use_float8(model).modules() if type(each) is Float8Linear] == layers
    assert repr(layers[0]) == "Float8Linear(in_features=64, out_features=64, bias=False)"
    attention = model.encoder.block[0].layer[0].SelfAttention
    with count_calls(torch, "cat") as concatenated:
        project(torch.randn(3, 64), attention.q, attention.k, attention.v)
    assert not concatenated


def test_layers_with_and_without_biases():
    layers = [Float8Linear(nn.Linear(32, 16, bias=bias)) for bias in (True, False)]
    x = torch.randn(3, 32)
    for found, layer in zip(project(x, *layers), layers, strict=True):
        assert torch.equal(found, layer(x))


def test_models_without_such_layers():
    with pytest.raises(ValueError, match="no linear layer of HDT or TreeBert in a Linear"):
        use_float8(nn.Linear(16, 16))
    with pytest.raises(ValueError, match="multiples of 16"):
        use_float8(hdt(d_model=40, d_kv=4, d_ff=24, num_heads=2))


def test_tree_bert():
    model = tree_bert(intermediate_size=32).to(DEVICE)
    inputs = {
        "input_ids": torch.tensor([[1, 2, 3, 10, 11, 3, 12]], device=DEVICE),
        "parent_ids": torch.tensor([[-1, 0, 1, 2, 2, 1, 5]], device=DEVICE),
        "node_types": torch.tensor([[3, 2, 1, 0, 0, 1, 0]], device=DEVICE),
    }
    with torch.inference_mode():
        exact = model(**inputs).last_hidden_state
        found = use_float8(model)(**inputs).last_hidden_state
    assert 1e-3 < relative_error(found, exact) < 0.1
