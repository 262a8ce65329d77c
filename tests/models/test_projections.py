import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from foveate.models import projections
from foveate.models.projections import feed_forward
from tests.numerics import TOLERANCE, relative_error

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


@pytest.fixture(autouse=True)
def joined(monkeypatch):
    """Join kernels on a CPU, too; return how many were."""
    monkeypatch.setattr(projections, "_joins", lambda hidden_states: True)
    counts = {"relu_feed_forward": 0}

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


def modified(layer, how):
    """A layer that computes something else than its weight says."""
    if how == "class":
        other = Adapter(16, 24, bias=False).to(layer.weight)
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
    elif how == "bias":
        layer.bias = nn.Parameter(torch.ones_like(layer.weight[:, 0]))
    return layer


def compare(device, how=None, dtype=torch.float32, autocast=False, activation=None):
    """`feed_forward` with its gradients, and the layers one after the other."""
    torch.manual_seed(0)
    first, second = (nn.Linear(*shape, bias=False) for shape in ((16, 24), (24, 16)))
    first, second = modified(first, how).to(device, dtype), second.to(device, dtype)
    activation, dropout = activation or nn.ReLU(), nn.Dropout(0.3)
    x = torch.randn(5, 16).to(device, dtype).requires_grad_()
    results = []
    for function in (
        lambda: feed_forward(x, first, activation, second, dropout),
        lambda: second(dropout(activation(first(x)))),
    ):
        torch.manual_seed(1)
        with torch.autocast(device, torch.bfloat16, autocast):
            out = function()
        inputs = [x, *first.parameters(), *second.parameters()]
        results.append([out, *torch.autograd.grad(out.float().square().sum(), inputs)])
    for pair in zip(*results, strict=True):
        assert pair[0].dtype == pair[1].dtype
        assert relative_error(*pair) < TOLERANCE[torch.bfloat16 if autocast else dtype]


@pytest.mark.parametrize("device", DEVICES)
def test_plain_layers_and_relu_are_fused(device, joined):
    compare(device)
    compare(device, autocast=True)
    compare(device, dtype=torch.float64)
    assert joined["relu_feed_forward"] == 3


@pytest.mark.parametrize("how", ["class", "hook", "pre-hook", "forward", "parametrization", "bias"])
@pytest.mark.parametrize("device", DEVICES)
def test_layers_that_compute_something_else_are_called(device, how, joined):
    compare(device, how)
    assert not any(joined.values())


def test_hooks_on_all_modules_and_on_the_activation_are_called(joined):
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
    try:
        compare("cpu")
    finally:
        handle.remove()
    relu = nn.ReLU()
    relu.register_forward_hook(lambda module, args, output: output + 1)
    compare("cpu", activation=relu)
    compare("cpu", activation=nn.GELU())
    assert not any(joined.values())


def test_layers_of_other_kinds_and_dtypes_are_called(joined):
    first, second = nn.Linear(16, 24, bias=False), nn.Linear(24, 16, bias=False)
    x, relu, dropout = torch.randn(3, 16), nn.ReLU(), nn.Dropout(0.0)
    out = feed_forward(x, nn.Sequential(first), relu, second, dropout)
    assert torch.equal(out, second(first(x).relu()))
    # T5 keeps the second weight in float32 in models of float16.
    out = feed_forward(x.half(), first.half(), relu, second, dropout)
    assert torch.equal(out, second(first(x.half()).relu().float()))
    with pytest.raises(RuntimeError, match="dtype"):
        feed_forward(x, first.double(), relu, second, dropout)
    assert not any(joined.values())
