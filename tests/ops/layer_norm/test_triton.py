"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops._triton.rows import MAX_CHANNELS
from foveate.ops.layer_norm import add_layer_norm
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter


def inputs(shape, dtype, update_dtype=None):
    generator = torch.Generator().manual_seed(0)
    shapes = shape, shape, shape[-1:], shape[-1:]
    dtypes = dtype, update_dtype or dtype, dtype, dtype
    return [
        torch.randn(*one, generator=generator).to(DEVICE, kind).requires_grad_()
        for one, kind in zip(shapes, dtypes, strict=True)
    ]


def gradients(leaves, backend, eps=1e-5):
    out = add_layer_norm(*leaves, eps, backend=backend)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out, *torch.autograd.grad(out, leaves, weight)


def exactly(leaves):
    """The sum as it is stored, and everything else in float64."""
    x, update, *vectors = (leaf.detach() for leaf in leaves)
    total = (x + update).to(x.dtype).double()
    return [one.requires_grad_() for one in (total, total.new_zeros(total.shape))] + [
        vector.double().requires_grad_() for vector in vectors
    ]


@given(
    st.lists(st.sampled_from([1, 3, 40]), max_size=2),
    st.sampled_from([2, 16, 48, 100, 768]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.sampled_from([None, torch.float32, torch.bfloat16]),
)
@settings(max_examples=40 if ON_GPU else 12)
def test_any_shape(shape, width, dtype, update_dtype):
    leaves = inputs((*shape, width), dtype, update_dtype)
    outputs = gradients(leaves, "triton")
    with torch.no_grad():
        again = add_layer_norm(*leaves, 1e-5, backend="triton")
    assert relative_error(again, outputs[0]) < TOLERANCE[dtype]
    truths = gradients(exactly(leaves), "reference")
    assert [one.dtype for one in outputs] == [dtype, *(leaf.dtype for leaf in leaves)]
    for index, (actual, truth) in enumerate(zip(outputs, truths, strict=True)):
        if width == 2 and index < 3:  # the norm is a sign, and its gradient is but rounding
            assert actual.isfinite().all()
        else:
            shortest = max(TOLERANCE[actual.dtype], TOLERANCE[dtype])
            assert relative_error(actual, truth) < shortest


def test_a_large_mean_does_not_cancel_the_variance():
    leaves = inputs((40, 48), torch.float32)
    with torch.no_grad():
        leaves[0] += 1000  # whose square leaves nothing of a variance of 2 in float32
    for actual, truth in zip(
        gradients(leaves, "triton"), gradients(exactly(leaves), "reference"), strict=True
    ):
        assert relative_error(actual, truth) < 1e-3


@pytest.mark.parametrize("update_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keeps_sum", [True, False])
def test_torch_accepts_the_ops(update_dtype, keeps_sum):
    from foveate.ops.layer_norm.triton import _add_layer_norm_backward, _add_layer_norm_forward

    x, update, weight, bias = (x.detach() for x in inputs((4, 48), torch.float32, update_dtype))
    torch.library.opcheck(_add_layer_norm_forward, (x, update, weight, bias, 1e-6, keeps_sum))
    torch.library.opcheck(_add_layer_norm_backward, (x, x, weight, 1e-6, update_dtype))


def test_no_vectors():
    outputs = gradients(inputs((0, 5), torch.float32), "triton")
    assert [one.shape for one in outputs] == [(0, 5), (0, 5), (0, 5), (5,), (5,)]
    assert all(torch.equal(one, torch.zeros_like(one)) for one in outputs)


def test_a_transposed_input_and_no_eps():
    leaves = inputs((40, 48), torch.float32)
    transposed = [leaf.detach().T.contiguous().T.requires_grad_() for leaf in leaves[:2]]
    for actual, truth in zip(
        gradients([*transposed, *leaves[2:]], "triton", eps=0.0),
        gradients(leaves, "reference", eps=0.0),
        strict=True,
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

    def norm(*tensors):
        return add_layer_norm(*tensors, 1e-6, backend="triton") * 2

    compiled = torch.compile(norm, fullgraph=True)
    for actual, expected in zip(
        torch.autograd.grad(compiled(*leaves).square().sum(), leaves),
        torch.autograd.grad(norm(*leaves).square().sum(), leaves),
        strict=True,
    ):
        assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]
