"""The kernel: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.rms_norm import MAX_CHANNELS, residual_rms_norm, rms_norm
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter


def inputs(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, generator=generator).to(DEVICE, dtype).requires_grad_()
    weight = torch.randn(shape[-1], generator=generator).to(DEVICE, dtype).requires_grad_()
    return x, weight


def gradients(leaves, backend, eps=1e-6):
    out = rms_norm(*leaves, eps, backend=backend)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out, *torch.autograd.grad(out, leaves, weight)


@given(
    st.lists(st.sampled_from([1, 3, 40]), max_size=2),
    st.sampled_from([1, 16, 48, 100, 768]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
@settings(max_examples=20 if ON_GPU else 10)
def test_any_shape(shape, width, dtype):
    leaves = inputs((*shape, width), dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    outputs, of_reference = gradients(leaves, "triton"), gradients(exact, "reference")
    # With one channel the output is the sign of x: the gradient of x is nothing but rounding.
    for actual, expected, leaf in zip(outputs, of_reference, (None, *leaves), strict=True):
        if width == 1 and leaf is leaves[0]:
            assert actual.isfinite().all()
            continue
        assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(
    st.lists(st.sampled_from([0, 1, 3, 40]), max_size=2),
    st.sampled_from([16, 48, 100]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.sampled_from([None, torch.bfloat16]),
    st.sampled_from([None, "same", torch.bfloat16]),
)
@settings(max_examples=30 if ON_GPU else 12)
def test_a_residual_connection(shape, width, dtype, cast_to, update):
    leaves = inputs((*shape, width), dtype)
    if update is not None:
        drawn = torch.randn(*shape, width, generator=torch.Generator().manual_seed(2))
        leaves += (drawn.to(DEVICE, dtype if update == "same" else update).requires_grad_(),)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    found = []
    for tensors, backend in ((leaves, "triton"), (exact, "reference")):
        x, weight, *updates = tensors
        added = updates[0] if updates else None
        options = {"update": added, "dtype": cast_to, "backend": backend}
        total, normed = residual_rms_norm(x, weight, 1e-6, **options)
        expected = x if added is None else (x + added).to(x.dtype)
        assert relative_error(total, expected) < TOLERANCE[x.dtype]
        assert normed.dtype == (cast_to or x.dtype)
        loss = (total.double().cos() * normed.double()).sum()
        found.append((total, normed, *torch.autograd.grad(loss, tensors)))
        with torch.no_grad():
            again = residual_rms_norm(x, weight, 1e-6, **options)
        assert all(map(torch.equal, again, (total, normed)))
    shortest = max(TOLERANCE[x.dtype] for x in (*leaves, found[0][1]))
    assert all(relative_error(*both) < shortest for both in zip(*found, strict=True))


def test_a_residual_connection_of_which_one_output_is_used():
    x, weight = inputs((4, 48), torch.float32)
    for used in (0, 1):
        outputs = residual_rms_norm(x, weight, 1e-6, backend="triton")
        expected = residual_rms_norm(x, weight, 1e-6, backend="reference")
        (actual,), (truth,) = (
            torch.autograd.grad(out[used].sin().sum(), [x]) for out in (outputs, expected)
        )
        assert relative_error(actual, truth) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("update_dtype", [torch.float32, torch.bfloat16])
def test_torch_accepts_the_ops(update_dtype):
    from foveate.ops.rms_norm.triton import _rms_norm_backward, _rms_norm_forward

    x, weight = (leaf.detach() for leaf in inputs((4, 48), torch.float32))
    update = x.to(update_dtype)
    torch.library.opcheck(_rms_norm_forward, (x, weight, 1e-6, update, torch.bfloat16))
    torch.library.opcheck(_rms_norm_backward, (x, x, weight, x, 1e-6, update_dtype))


def test_no_vectors():
    leaves = inputs((0, 5), torch.float32)
    _, d_x, d_weight = gradients(leaves, "triton")
    assert d_x.shape == (0, 5)
    assert torch.equal(d_weight, torch.zeros(5, device=DEVICE))


def test_a_transposed_input_and_no_eps():
    x, weight = inputs((40, 48), torch.float32)
    transposed = x.detach().T.contiguous().T.requires_grad_()
    expected = gradients((x, weight), "reference", eps=0.0)
    for actual, truth in zip(
        gradients((transposed, weight), "triton", eps=0.0), expected, strict=True
    ):
        assert relative_error(actual, truth) < TOLERANCE[torch.float32]


def test_repeating_a_call_repeats_its_bits():
    leaves = inputs((300, 40), torch.float32)
    assert all(map(torch.equal, gradients(leaves, "triton"), gradients(leaves, "triton")))


def test_vectors_too_wide_for_the_kernel():
    leaves = inputs((2, MAX_CHANNELS + 1), torch.float32)
    pairs = zip(gradients(leaves, "triton"), gradients(leaves, "reference"), strict=True)
    assert all(relative_error(*pair) < TOLERANCE[torch.float32] for pair in pairs)


@gpu
@pytest.mark.parametrize("width", [512, 1024, 2048, 4096, MAX_CHANNELS])
def test_wide_vectors(width):
    leaves = inputs((5000, width), torch.float32)
    pairs = zip(gradients(leaves, "triton"), gradients(leaves, "reference"), strict=True)
    assert all(relative_error(*pair) < TOLERANCE[torch.float32] for pair in pairs)


@gpu
def test_compiles_without_graph_breaks():
    leaves = inputs((64, 40), torch.bfloat16)

    def norm(x, weight):
        return rms_norm(x, weight, 1e-6, backend="triton") * 2

    compiled = torch.compile(norm, fullgraph=True)
    for actual, expected in zip(
        torch.autograd.grad(compiled(*leaves).square().sum(), leaves),
        torch.autograd.grad(norm(*leaves).square().sum(), leaves),
        strict=True,
    ):
        assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]
