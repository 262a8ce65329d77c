from copy import deepcopy

import pytest
import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn
from torch.nn.utils import parametrizations

from foveate.models import projections
from foveate.models.projections import (
    add_and_norm,
    lay_out_weights,
    project,
    project_heads,
    project_relu,
)
from tests.numerics import TOLERANCE, relative_error

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


@pytest.fixture(autouse=True)
def joined(monkeypatch):
    """Join products on a CPU, too; return how many were."""
    monkeypatch.setattr(projections, "_joins", lambda hidden_states: True)
    counts = {"joint_linear": 0, "linear_relu": 0, "add_layer_norm": 0}

    def counted(name, function):
        def call(*args):
            counts[name] += 1
            return function(*args)

        return call

    for name in counts:
        monkeypatch.setattr(projections, name, counted(name, getattr(projections, name)))
    return counts


class Adapter(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


class Doubled(nn.LayerNorm):
    def forward(self, x):
        return 2 * super().forward(x)


def layers(device, *, bias):
    torch.manual_seed(0)
    return [nn.Linear(16, n, bias=bias, device=device) for n in (16, 8, 24)]


def modified(layer, how):
    """A layer that computes something else than its weight and bias say."""
    if how == "class":
        other = Adapter(16, layer.out_features, bias=layer.bias is not None).to(layer.weight)
        other.load_state_dict(layer.state_dict())
        return other
    if how == "hook":
        layer.register_forward_hook(lambda module, args, output: output + 1)
    elif how == "pre-hook":
        layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    elif how == "forward":
        layer.forward = lambda x: nn.Linear.forward(layer, x) + 1
    elif how == "parametrization":
        parametrizations.weight_norm(layer)
        layer.parametrizations.weight.original0.data *= 2
    return layer


def compare(device, bias, how, dtype=torch.float32, autocast=False):
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    x.requires_grad_()
    plain = [layer.to(dtype) for layer in layers(device, bias=bias)]
    plain[1] = modified(plain[1], how)
    relu = nn.ReLU()
    with torch.autocast(device, torch.bfloat16, autocast):
        actual = *project(x, *plain), project_relu(x, plain[1], relu)
        expected = *(layer(x) for layer in plain), relu(plain[1](x))
    inputs = [x, *(p for layer in plain for p in layer.parameters())]
    gradients = (
        torch.autograd.grad(sum(y.float().square().sum() for y in outputs), inputs)
        for outputs in (actual, expected)
    )
    for pair in zip((*actual, *next(gradients)), (*expected, *next(gradients)), strict=True):
        assert pair[0].dtype == pair[1].dtype
        assert relative_error(*pair) < TOLERANCE[torch.bfloat16 if autocast else dtype]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_every_layer_is_applied(device, bias, joined):
    compare(device, bias, None)
    compare(device, bias, None, autocast=True)
    compare(device, bias, None, dtype=torch.float64)
    assert joined == {"joint_linear": 3, "linear_relu": 0 if bias else 3, "add_layer_norm": 0}


@pytest.mark.parametrize("how", ["class", "hook", "pre-hook", "forward", "parametrization"])
@pytest.mark.parametrize("device", DEVICES)
def test_layers_that_compute_something_else_are_called(device, how, joined):
    compare(device, True, how)
    compare(device, False, how)
    assert not any(joined.values())


def test_hooks_on_all_modules_and_on_the_activation_are_called(joined):
    x, relu = torch.randn(3, 16), nn.ReLU()
    first, second, _ = layers("cpu", bias=False)
    expected = second(x) + 1
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
    try:
        assert relative_error(project(x, first, second)[1], expected) < 1e-6
    finally:
        handle.remove()
    relu.register_forward_hook(lambda module, args, output: output + 1)
    assert relative_error(project_relu(x, first, relu), first(x).relu() + 1) < 1e-6
    assert not any(joined.values())


def test_layers_of_other_kinds_and_dtypes_are_called(joined):
    first, second, _ = layers("cpu", bias=False)
    x = torch.randn(3, 16)
    sequence = nn.Sequential(second)
    assert torch.equal(project(x, first, sequence)[1], second(x))
    assert torch.equal(project_relu(x, sequence, nn.ReLU()), second(x).relu())
    with pytest.raises(RuntimeError, match="dtype"):
        project(x, first, second.double())
    assert not any(joined.values())


def test_heads():
    first, second, _ = layers("cpu", bias=False)
    x = torch.randn(2, 3, 16)
    q, k = project_heads(x, 4, first, second)
    assert q.shape == (2, 3, 4, 4)
    assert k.shape == (2, 3, 4, 2)
    assert relative_error(q.flatten(2), first(x)) < 1e-6


class Layers(nn.Module):
    """Three layers that read one input, and one of another number of features."""

    def __init__(self, bias):
        super().__init__()
        self.q, self.k, self.v = layers("cpu", bias=bias)
        self.other = nn.Linear(8, 16)

    def forward(self, x):
        return torch.cat(project(x, self.q, self.k, self.v), -1)


def are_side_by_side(tensors):
    ends = [x.data_ptr() + x.nbytes for x in tensors]
    return all(end == x.data_ptr() for end, x in zip(ends, tensors[1:], strict=False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [False, True])
def test_weights_side_by_side(device, bias, monkeypatch):
    model = Layers(bias).to(device)
    x = torch.randn(5, 16, device=device)
    names = "weight", "bias"
    expected = model(x)
    expected.sum().backward()
    gradients = {
        name: each.grad.clone() for name, each in model.named_parameters() if "other" not in name
    }
    other = model.other.weight.data_ptr()
    lay_out_weights(model)
    for name in names[: 1 + bias]:
        assert are_side_by_side([getattr(layer, name) for layer in (model.q, model.k, model.v)])
    assert model.other.weight.data_ptr() == other
    places = [each.data_ptr() for each in model.parameters()]
    lay_out_weights(model)
    assert [each.data_ptr() for each in model.parameters()] == places
    model.zero_grad()
    concatenate = torch.cat

    def only_outputs(tensors, *dim):
        assert dim, "weights were copied"
        return concatenate(tensors, *dim)

    monkeypatch.setattr(torch, "cat", only_outputs)
    output = model(x)
    assert relative_error(output, expected) < 1e-6
    output.sum().backward()
    for name, gradient in gradients.items():
        assert relative_error(dict(model.named_parameters())[name].grad, gradient) < 1e-6
    with torch.no_grad():
        assert relative_error(model(x), expected) < 1e-6


def test_moved_weights_are_trained_copied_and_saved_as_before(tmp_path):
    model, plain = Layers(bias=True), Layers(bias=True)
    lay_out_weights(model)
    for each in (model, plain):
        optimizer = torch.optim.AdamW(each.parameters(), 0.1)
        each(torch.ones(2, 16)).square().sum().backward()
        optimizer.step()
    copied = deepcopy(model)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded = load_file(tmp_path / "model.safetensors")
    for name, parameter in plain.named_parameters():
        for found in (model.state_dict(), copied.state_dict(), loaded):
            assert relative_error(found[name], parameter) < 1e-6
    assert (tmp_path / "model.safetensors").stat().st_size < 2000 + 4 * sum(
        each.numel() for each in model.parameters()
    )
    # What was moved away again is concatenated.
    copied.k.weight.data = copied.k.weight.data.clone()
    assert relative_error(copied(torch.ones(2, 16)), plain(torch.ones(2, 16))) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
def test_weights_are_saved_as_if_apart(device, tmp_path):
    """Of weights that share a storage, accelerate saves one, and safetensors' save_model none."""
    model, other = (Layers(bias=True).to(device) for _ in range(2))
    lay_out_weights(model)
    state = model.state_dict()
    storages = {each.untyped_storage().data_ptr() for each in state.values()}
    assert len(storages) == len(state)
    with torch.no_grad():
        state["k.weight"].fill_(2)  # not a copy
    save_model(model, tmp_path / "model.safetensors")
    load_model(other, tmp_path / "model.safetensors")
    assert (other.k.weight == 2).all()
    assert all(map(torch.equal, other.parameters(), model.parameters()))


def test_weights_are_trained_though_laid_out_in_inference_mode():
    model = Layers(bias=True)
    with torch.inference_mode():
        lay_out_weights(model)
    assert are_side_by_side([model.q.weight, model.k.weight, model.v.weight])
    model(torch.ones(2, 16)).sum().backward()
    assert all(each.grad is not None for each in model.q.parameters())


def test_traces_hold_no_addresses():
    model, x = Layers(bias=True), torch.ones(2, 16)
    lay_out_weights(model)
    with torch.no_grad():
        traced = torch.jit.trace(model, x)
        model.k.weight.data = 3 * model.k.weight.data
        assert relative_error(traced(x), model(x)) < 1e-6


def test_weights_that_share_memory_stay():
    tied = Layers(bias=False)
    tied.k.weight = nn.Parameter(tied.q.weight.data[:8])
    views = Layers(bias=False)
    views.v.weight.data = torch.randn(48, 16)[::2]
    kinds = Layers(bias=False)
    kinds.v.bfloat16()
    meta = Layers(bias=False).to("meta")
    with torch.inference_mode():
        inference = Layers(bias=False)
    aliased = nn.ModuleList([Layers(bias=False), Layers(bias=False)])
    for one, other in zip(*(part.parameters() for part in aliased), strict=True):
        other.data = one.data
    for model in (tied, views, kinds, meta, inference, aliased):
        before = [(each.data_ptr(), each.stride()) for each in model.parameters()]
        lay_out_weights(model)
        assert [(each.data_ptr(), each.stride()) for each in model.parameters()] == before


def test_weights_on_a_cpu_stay(monkeypatch):
    monkeypatch.undo()
    model = Layers(bias=True)
    places = [each.data_ptr() for each in model.parameters()]
    lay_out_weights(model)
    assert [each.data_ptr() for each in model.parameters()] == places


def sums_and_norms(layer, x, update, autocast=False):
    """Outputs and gradients of `add_and_norm`, and what they should be."""
    for function in (add_and_norm, lambda x, update, layer: layer(x + update)):
        leaves = [leaf.detach().requires_grad_() for leaf in (x, update)]
        with torch.autocast(x.device.type, torch.bfloat16, autocast):
            out = function(*leaves, layer)
        inputs = [*leaves, *layer.parameters()]
        yield out, *torch.autograd.grad(out.float().square().sum(), inputs)


@pytest.mark.parametrize(
    ("dtypes", "autocast", "adds"),
    [
        ([torch.float32] * 3, False, True),
        ([torch.bfloat16] * 3, False, True),
        ([torch.float32, torch.bfloat16, torch.float32], True, True),
        ([torch.float32] * 3, True, True),
        ([torch.bfloat16] * 3, True, False),  # autocast computes norms in float32
        ([torch.bfloat16, torch.float32, torch.float32], True, False),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_norms_of_sums(device, dtypes, autocast, adds, joined):
    generator = torch.Generator().manual_seed(0)
    x, update = torch.randn(2, 3, 5, 16, generator=generator)
    layer = nn.LayerNorm(16, eps=1e-3, dtype=dtypes[2], device=device)
    nn.init.normal_(layer.weight, generator=None)
    actual, expected = sums_and_norms(
        layer, x.to(device, dtypes[0]), update.to(device, dtypes[1]), autocast
    )
    assert joined["add_layer_norm"] == adds
    for pair in zip(actual, expected, strict=True):
        assert pair[0].dtype == pair[1].dtype
        assert relative_error(*pair) < TOLERANCE[torch.bfloat16 if autocast else dtypes[0]]


@pytest.mark.parametrize("how", ["hook", "class", "no bias", "no weight", "two axes", "broadcast"])
def test_norms_that_compute_something_else_are_called(how, joined):
    x, update = torch.randn(2, 5, 4, 16)
    layer = nn.LayerNorm((4, 16) if how == "two axes" else 16, bias=how != "no bias")
    if how == "hook":
        layer.register_forward_hook(lambda module, args, output: output + 1)
    elif how == "class":
        layer.__class__ = type(
            "Other", (nn.LayerNorm,), {"forward": lambda self, x: 2 * nn.LayerNorm.forward(self, x)}
        )
    elif how == "no weight":
        layer = nn.LayerNorm(16, elementwise_affine=False)
    elif how == "broadcast":
        update = update[:1]
    actual, expected = sums_and_norms(layer, x, update)
    assert joined["add_layer_norm"] == 0
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_layer_is_a_joint_product_too(device, dtype, joined):
    layer = nn.Linear(16, 24, device=device, dtype=dtype)
    x = torch.randn(500, 16, device=device, dtype=dtype)
    with torch.no_grad():
        assert relative_error(project(x, layer)[0], layer(x)) < TOLERANCE[dtype]
    assert joined["joint_linear"] == 1
    for actual, expected in zip(
        torch.autograd.grad(project(x, layer)[0].square().sum(), layer.parameters()),
        torch.autograd.grad(layer(x).square().sum(), layer.parameters()),
        strict=True,
    ):
        assert relative_error(actual, expected) < TOLERANCE[dtype]
    assert joined["joint_linear"] == 2
