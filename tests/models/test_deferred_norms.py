"""HDT in CUDA graphs with the products of QuACK, which needs a Hopper GPU."""

from copy import deepcopy

import pytest
import torch

from foveate.models.hdt import HDTConfig, HDTModel, modeling_hdt
from foveate.models.speed_ups import capture
from foveate.ops.linear import products
from tests.devices import gpu
from tests.numerics import relative_error


@pytest.fixture
def models(monkeypatch):
    """A model in bfloat16, and the same in float64."""
    pytest.importorskip("quack", exc_type=ImportError)
    monkeypatch.setattr(products, "FEWEST_ROWS", 1)
    monkeypatch.setattr(modeling_hdt, "_FEWEST_DEFERRED", 1)
    torch.manual_seed(0)
    config = HDTConfig(
        vocab_size=50, d_model=128, d_kv=32, d_ff=256, num_layers=3, num_heads=4, dropout_rate=0.0
    )
    model = HDTModel(config).cuda().bfloat16().eval()
    for part in model.modules():
        if isinstance(part, torch.nn.RMSNorm):
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
    return model, deepcopy(model).double()


def batch():
    parents = [-1, *[0] * 5, *(1 + i % 5 for i in range(40)), *(6 + i % 40 for i in range(300))]
    parents = torch.tensor([parents]).cuda()
    ids = torch.randint(0, 50, parents.shape, generator=torch.Generator().manual_seed(0)).cuda()
    return {"input_ids": ids, "parent_ids": parents}


@gpu
def test_inference(models, monkeypatch):
    model, exact = models
    calls = []

    def run_blocks(*arguments):
        calls.append(arguments)
        return original(*arguments)

    original = modeling_hdt.run_blocks
    monkeypatch.setattr(modeling_hdt, "run_blocks", run_blocks)
    captured = capture(deepcopy(model))
    with torch.no_grad():
        expected = exact(**batch()).last_hidden_state
        rounded = model(**batch()).last_hidden_state
        assert not calls
        for _ in range(3):
            actual = captured(**batch()).last_hidden_state
            torch.full((1 << 26,), torch.nan, device="cuda")  # where something was freed
        assert calls
    assert relative_error(actual, expected) < 1.3 * relative_error(rounded, expected)


@gpu
def test_training(models):
    model, exact = models
    captured = capture(deepcopy(model))
    for each in (model, exact, captured, captured, captured):
        each.zero_grad()
        each(**batch()).last_hidden_state.square().mean().backward()
    for ours, rounded, correct in zip(*(m.parameters() for m in (captured, *models)), strict=True):
        assert (ours.grad is None) == (correct.grad is None)
        if ours.grad is not None:
            error = relative_error(rounded.grad, correct.grad)
            assert relative_error(ours.grad, correct.grad) < 1.5 * error + 1e-2
