import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from foveate.models.projections import project, project_heads, project_relu
from tests.numerics import TOLERANCE, relative_error

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Adapter(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


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
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
def test_every_layer_is_applied(device, bias):
    compare(device, bias, None)
    compare(device, bias, None, autocast=True)
    compare(device, bias, None, dtype=torch.float64)


@pytest.mark.parametrize("how", ["class", "hook", "pre-hook", "forward", "parametrization"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
def test_layers_that_compute_something_else_are_called(device, how):
    compare(device, True, how)
    compare(device, False, how)


@gpu
def test_layers_of_other_dtypes_are_called():
    first, second, _ = layers("cuda", bias=False)
    x = torch.randn(3, 16, device="cuda")
    with pytest.raises(RuntimeError, match="dtype"):
        project(x, first, second.double())


def test_heads():
    first, second, _ = layers("cpu", bias=False)
    x = torch.randn(2, 3, 16)
    q, k = project_heads(x, 4, first, second)
    assert q.shape == (2, 3, 4, 4)
    assert k.shape == (2, 3, 4, 2)
    assert torch.equal(q.flatten(2), first(x))
