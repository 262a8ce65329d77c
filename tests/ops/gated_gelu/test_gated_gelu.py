import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.gated_gelu import gated_gelu
from tests.numerics import TOLERANCE, relative_error


def pair(shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    halves = torch.randn(2, *shape, generator=generator, dtype=torch.float64) * 3
    return [half.to(dtype).requires_grad_() for half in halves]


def with_gradients(halves, backend):
    out = gated_gelu(*halves, backend=backend)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return out, *torch.autograd.grad(out, halves, weight)


@given(st.lists(st.integers(0, 7), max_size=3))
@settings(max_examples=20)
def test_torch_is_the_reference(shape):
    halves = pair(shape)
    pairs = zip(*(with_gradients(halves, name) for name in ("eager", "reference")), strict=True)
    assert all(relative_error(*each) < 1e-14 for each in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    exact, rounded = pair((40, 9)), pair((40, 9), dtype)
    outputs = with_gradients(rounded, None)
    assert all(each.dtype == dtype for each in outputs)
    for actual, expected in zip(outputs, with_gradients(exact, "reference"), strict=True):
        assert relative_error(actual, expected) < TOLERANCE[dtype]


def test_gradients_by_differences():
    assert torch.autograd.gradcheck(gated_gelu, pair((3, 4)))


def test_it_saves_only_its_inputs():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        halves = pair((5, 6))
        gated_gelu(*halves)
    assert [x.data_ptr() for x in kept] == [half.data_ptr() for half in halves]


def test_halves_that_differ_are_rejected():
    a, b = pair((3, 4))
    for other in (b[:2], b.float(), b.to("meta")):
        with pytest.raises(ValueError, match="a and b must share shape, dtype and device"):
            gated_gelu(a, other)
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        gated_gelu(a, b, backend="cuda")
