"""On a GPU if there is one, else on the CPU: the functions are the same, the kernels are not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.numerics import TOLERANCE, relative_error
from torch._subclasses.fake_tensor import FakeTensorMode

from foveate.ops.linear import (
    joint_linear,
    lay_side_by_side,
    linear_relu,
    reference,
    relu_feed_forward,
)
from foveate.ops.linear.fused import _joint_gradients

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")

shapes = st.lists(st.integers(0, 5), max_size=2)
features = st.integers(1, 9)


def leaves(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [x.to(DEVICE, dtype).requires_grad_() for x in drawn]


def with_gradients(function, inputs):
    """The outputs and the gradients of the inputs."""
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(out.shape, generator=generator).to(out) for out in outputs]
    return *outputs, *torch.autograd.grad(outputs, inputs, weights)


def joint(function, num_weights):
    """`joint_linear` as a function of all of its tensors."""

    def call(x, *parameters):
        return function(x, parameters[:num_weights], parameters[num_weights:] or None)

    return call


@given(shapes, features, st.lists(features, min_size=1, max_size=3), st.booleans())
@settings(deadline=None, max_examples=40)
def test_joint_linear(shape, in_features, out_features, has_biases):
    weights = [(n, in_features) for n in out_features]
    inputs = leaves((*shape, in_features), *weights, *((n,) for n in out_features if has_biases))
    actual, expected = (
        with_gradients(joint(function, len(weights)), inputs)
        for function in (joint_linear, reference.joint_linear)
    )
    assert all(relative_error(*pair) < 1e-12 for pair in zip(actual, expected, strict=True))
    with torch.no_grad():
        again = joint(joint_linear, len(weights))(*inputs)
    assert all(relative_error(*pair) < 1e-12 for pair in zip(again, expected, strict=False))


@given(shapes, features, features)
@settings(deadline=None, max_examples=40)
def test_linear_relu(shape, in_features, out_features):
    inputs = leaves((*shape, in_features), (out_features, in_features))
    actual, expected = (
        with_gradients(function, inputs) for function in (linear_relu, reference.linear_relu)
    )
    assert all(relative_error(*pair) < 1e-12 for pair in zip(actual, expected, strict=True))
    with torch.no_grad():
        assert relative_error(linear_relu(*inputs), expected[0]) < 1e-12


@given(shapes, features, features, features, st.sampled_from([0.0, 0.5, 1.0]))
@settings(deadline=None, max_examples=40)
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


@given(st.integers(1, 4), features, st.lists(features, min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=40)
def test_gradients_side_by_side_are_one(rows, in_features, widths, data):
    x, *parameters = leaves((rows, in_features), *((n, in_features) for n in widths))
    joint = torch.full((rows, sum(widths) + 3), torch.nan, dtype=x.dtype, device=DEVICE)
    columns = list(joint[:, : sum(widths)].split(widths, 1))
    for grad in columns:
        grad.copy_(torch.randn(grad.shape))
    places = data.draw(st.permutations(range(len(widths))))
    grads = [None if data.draw(st.booleans()) else columns[i] for i in range(len(widths))]
    if places != sorted(places):  # now some are elsewhere
        grads = [None if x is None or i == places[0] else x for i, x in enumerate(grads)]
        grads[places[0]] = columns[places[0]].clone()
    with torch.no_grad():
        groups = list(_joint_gradients(grads, [0] * len(grads)))
    for first, stop, grad in groups:
        assert torch.equal(grad, torch.cat(grads[first:stop], 1))
    assert sum(stop - first for first, stop, _ in groups) == sum(x is not None for x in grads)
    if None not in grads and places == sorted(places):
        assert len(groups) == 1
    given = [i for i, grad in enumerate(grads) if grad is not None]
    results = []
    for function in (joint_linear, reference.joint_linear):
        outputs = function(x, parameters, None)
        needed = [x, *(parameters[i] for i in given)]
        some = [outputs[i] for i in given], needed, [grads[i] for i in given]
        results.append(torch.autograd.grad(*some) if given else ())
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    rounded = leaves((40, 48), (64, 48), (32, 48), (16, 48), dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in rounded]
    actual = with_gradients(joint(joint_linear, 3), rounded)
    expected = with_gradients(joint(reference.joint_linear, 3), exact)
    actual += with_gradients(linear_relu, rounded[:2])
    expected += with_gradients(reference.linear_relu, exact[:2])
    second = leaves((24, 64), dtype=dtype)
    actual += with_gradients(relu_feed_forward, [*rounded[:2], *second])
    exact += [x.detach().double().requires_grad_() for x in second]
    expected += with_gradients(reference.relu_feed_forward, [*exact[:2], exact[-1]])
    for pair in zip(actual, expected, strict=True):
        assert pair[0].dtype == dtype
        assert relative_error(*pair) < TOLERANCE[dtype]


@pytest.mark.parametrize("lays_out", [False, True])
def test_second_derivatives_of_gradients_side_by_side(lays_out):
    x, *weights = leaves((3, 4), (2, 4), (5, 4))
    if lays_out:
        lay_side_by_side(weights)
    results = []
    for function in (joint_linear, reference.joint_linear):
        cubes = torch.cat(function(x, weights, None), 1).pow(3).sum()
        gradients = torch.autograd.grad(cubes, [x, *weights], create_graph=True)
        squares = sum(gradient.square().sum() for gradient in gradients)
        results.append(torch.autograd.grad(squares, [x, *weights]))
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


@pytest.mark.parametrize("frozen", [(), (1,), (0, 2)])
def test_gradients_side_by_side_with_frozen_weights_and_biases(frozen):
    x, *parameters = leaves((6, 4), *[(3, 4)] * 3, *[(3,)] * 3)
    for i in frozen:
        parameters[i].requires_grad_(False)
    needed = [x, *(p for p in parameters if p.requires_grad)]
    results = []
    for function in (joint_linear, reference.joint_linear):
        cubes = torch.cat(function(x, parameters[:3], parameters[3:]), 1).pow(3).sum()
        results.append(torch.autograd.grad(cubes, needed))
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


def test_batches_of_gradients():
    x, *weights = leaves((3, 4), (2, 4), (5, 4))
    batch = torch.randn(6, 3, 7, dtype=x.dtype, device=DEVICE)
    results = []
    for function in (joint_linear, reference.joint_linear):
        out = torch.cat(function(x, weights, None), 1)
        options = {"is_grads_batched": True, "retain_graph": True}
        results.append(torch.autograd.grad(out, [x, *weights], batch, **options))
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))


def test_gradients_of_weights_can_be_clipped_and_changed():
    x, *weights = leaves((3, 4), (2, 4), (5, 4))
    torch.cat(joint_linear(x, weights), 1).pow(3).sum().backward()
    before = [weight.grad.clone() for weight in weights]
    norm = torch.nn.utils.clip_grad_norm_(weights, 0.1)
    for weight, gradient in zip(weights, before, strict=True):
        assert weight.grad.is_contiguous()
        assert relative_error(weight.grad, gradient * 0.1 / norm) < 1e-5
    kept = weights[1].grad.clone()
    weights[0].grad.zero_()
    assert torch.equal(weights[1].grad, kept)


def test_gradients_by_differences():
    x, *parameters = leaves((3, 4), (2, 4), (5, 4), (2,), (5,))
    assert torch.autograd.gradcheck(joint(joint_linear, 2), (x, *parameters))
    assert torch.autograd.gradcheck(linear_relu, (x, parameters[0]))
    assert torch.autograd.gradgradcheck(joint(joint_linear, 2), (x, *parameters))
    assert torch.autograd.gradgradcheck(linear_relu, (x, parameters[0]))
    layers = x, *leaves((5, 4), (3, 5))
    assert torch.autograd.gradcheck(relu_feed_forward, layers)
    assert torch.autograd.gradgradcheck(relu_feed_forward, layers)

    def with_dropout(*layers):
        torch.manual_seed(0)
        return relu_feed_forward(*layers, 0.3)

    assert torch.autograd.gradgradcheck(with_dropout, layers)


@pytest.mark.parametrize("function", [joint(joint_linear, 1), linear_relu, relu_feed_forward])
def test_autocast(function):
    """Around the forward pass, around the backward pass, or around both."""
    second = [(5, 4)] if function is relu_feed_forward else []
    inputs = leaves((6, 8), (4, 8), *second, dtype=torch.float32)
    expected = with_gradients(function, inputs)
    for forward, backward in ((True, False), (False, True), (True, True)):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=forward):
            out = function(*inputs)
            out = out[0] if isinstance(out, tuple) else out
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=backward):
            found = out, *torch.autograd.grad(out, inputs, weight)
        assert out.dtype == (torch.bfloat16 if forward else torch.float32)
        tolerance = TOLERANCE[out.dtype]
        assert all(relative_error(*pair) < tolerance for pair in zip(found, expected, strict=True))


def test_fake_tensors_leave_nothing_behind():
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = torch.empty(3, 7, device=DEVICE), torch.empty(11, 7, device=DEVICE)
        assert linear_relu(*fake).shape == (3, 11)
    x, weight = leaves((3, 7), (11, 7), dtype=torch.float32)
    assert relative_error(linear_relu(x, weight), reference.linear_relu(x, weight)) < 1e-6


def test_only_what_is_needed_is_computed():
    x, first, second = leaves((3, 4), (2, 4), (5, 4))
    kept, unused = joint_linear(x.detach(), [first, second])
    kept.sum().backward()
    assert relative_error(first.grad, x.detach().sum(0).expand(2, 4)) < 1e-12
    assert second.grad is None
    assert x.grad is None
    assert unused.shape == (3, 5)


def test_weights_and_biases_that_do_not_match_are_rejected():
    x, weight = leaves((3, 4), (2, 4))
    with pytest.raises(ValueError, match="got 0 weights and no biases"):
        joint_linear(x, [])
    with pytest.raises(ValueError, match="got 1 weights and 2 biases"):
        joint_linear(x, [weight], [weight[0, :2]] * 2)


@gpu
def test_compiles_without_graph_breaks():
    inputs = leaves((64, 32), (64, 32), (32, 32), (32, 32), dtype=torch.bfloat16)

    def network(x, first, *others):
        a, b = joint_linear(x, others)
        return relu_feed_forward(linear_relu(a * b, first), first.T, first)

    compiled = torch.compile(network, fullgraph=True)
    pairs = zip(with_gradients(compiled, inputs), with_gradients(network, inputs), strict=True)
    assert all(relative_error(*pair) < TOLERANCE[torch.bfloat16] for pair in pairs)
