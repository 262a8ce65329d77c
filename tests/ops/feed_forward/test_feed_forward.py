"""On a GPU if there is one, else on the CPU: the functions are the same, the kernels are not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from foveate.ops.feed_forward import reference, relu_feed_forward
from tests.numerics import TOLERANCE, relative_error

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")

shapes = st.lists(st.integers(0, 5), max_size=2)
features = st.integers(1, 9)


def leaves(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [x.to(DEVICE, dtype).requires_grad_() for x in drawn]


def with_gradients(function, inputs):
    """The output and the gradients of the inputs."""
    out = function(*inputs)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out, *torch.autograd.grad(out, inputs, weight)


@given(shapes, features, features, features, st.sampled_from([0.0, 0.5, 1.0]))
def test_relu_feed_forward(shape, in_features, inner_features, out_features, dropout):
    inputs = leaves(
        (*shape, in_features), (inner_features, in_features), (out_features, inner_features)
    )
    results = []
    for function in (relu_feed_forward, reference.relu_feed_forward):
        torch.manual_seed(0)
        results.append(with_gradients(lambda *x, f=function: f(*x, dropout), inputs))
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))
    with torch.no_grad():
        torch.manual_seed(0)
        assert relative_error(relu_feed_forward(*inputs, dropout), results[1][0]) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    rounded = leaves((40, 48), (64, 48), (24, 64), dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in rounded]
    actual = with_gradients(relu_feed_forward, rounded)
    expected = with_gradients(reference.relu_feed_forward, exact)
    for pair in zip(actual, expected, strict=True):
        assert pair[0].dtype == dtype
        assert relative_error(*pair) < TOLERANCE[dtype]


def test_batches_of_gradients():
    inputs = leaves((3, 4), (5, 4), (2, 5))
    batch = torch.randn(6, 3, 2, dtype=torch.float64, device=DEVICE)
    results = [
        torch.autograd.grad(function(*inputs), inputs, batch, is_grads_batched=True)
        for function in (relu_feed_forward, reference.relu_feed_forward)
    ]
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


def test_gradients_by_differences():
    layers = leaves((3, 4), (5, 4), (3, 5))
    assert torch.autograd.gradcheck(relu_feed_forward, layers)
    assert torch.autograd.gradgradcheck(relu_feed_forward, layers)

    def with_dropout(*layers):
        torch.manual_seed(0)
        return relu_feed_forward(*layers, 0.3)

    assert torch.autograd.gradgradcheck(with_dropout, layers)


def test_autocast():
    """Around the forward pass, around the backward pass, or around both."""
    inputs = leaves((6, 8), (4, 8), (5, 4), dtype=torch.float32)
    expected = with_gradients(relu_feed_forward, inputs)
    for forward, backward in ((True, False), (False, True), (True, True)):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=forward):
            out = relu_feed_forward(*inputs)
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=backward):
            found = out, *torch.autograd.grad(out, inputs, weight)
        assert out.dtype == (torch.bfloat16 if forward else torch.float32)
        tolerance = TOLERANCE[out.dtype]
        assert all(relative_error(*pair) < tolerance for pair in zip(found, expected, strict=True))


def test_fake_tensors_leave_nothing_behind():
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = (torch.empty(shape, device=DEVICE) for shape in ((3, 7), (11, 7), (5, 11)))
        assert relu_feed_forward(*fake).shape == (3, 5)
    inputs = leaves((3, 7), (11, 7), (5, 11), dtype=torch.float32)
    expected = reference.relu_feed_forward(*inputs)
    assert relative_error(relu_feed_forward(*inputs), expected) < 1e-6


@pytest.mark.parametrize("frozen", range(3))
def test_only_what_is_needed_is_computed(frozen):
    inputs = leaves((3, 4), (5, 4), (2, 5))
    inputs[frozen].requires_grad_(False)
    needed = [x for x in inputs if x.requires_grad]
    results = [
        torch.autograd.grad(function(*inputs).pow(3).sum(), needed)
        for function in (relu_feed_forward, reference.relu_feed_forward)
    ]
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


@gpu
def test_compiles_without_graph_breaks():
    inputs = leaves((64, 32), (64, 32), (32, 64), dtype=torch.bfloat16)
    compiled = torch.compile(relu_feed_forward, fullgraph=True)
    found, expected = (with_gradients(run, inputs) for run in (compiled, relu_feed_forward))
    pairs = zip(found, expected, strict=True)
    assert all(relative_error(*pair) < TOLERANCE[torch.bfloat16] for pair in pairs)
