"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foveate.ops.gated_gelu import gated_gelu
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter


def pair(shape, dtype, spread=3.0):
    generator = torch.Generator().manual_seed(0)
    halves = torch.randn(2, *shape, generator=generator, dtype=torch.float64) * spread
    return [half.to(DEVICE, dtype).requires_grad_() for half in halves]


def check(halves, dtype):
    exact = [half.detach().double().requires_grad_() for half in halves]
    weight = torch.randn(halves[0].shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    outputs = []
    for each, backend in ((halves, "triton"), (exact, "reference")):
        out = gated_gelu(*each, backend=backend)
        outputs.append((out, *torch.autograd.grad(out, each, weight.to(out.dtype))))
    for actual, expected in zip(*outputs, strict=True):
        assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(
    st.lists(st.sampled_from([1, 3, 16, 40]), min_size=0, max_size=3),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
@example([129, 129], torch.bfloat16)
@example([2, 1300], torch.float32)
@settings(max_examples=20 if ON_GPU else 8)
def test_any_shape(shape, dtype):
    check(pair(shape, dtype), dtype)


def test_no_elements():
    halves = pair((0, 5), torch.float32)
    out = gated_gelu(*halves, backend="triton")
    assert all(x.shape == (0, 5) for x in (out, *torch.autograd.grad(out.sum(), halves)))


def test_halves_with_gaps_between_rows():
    both = torch.cat(pair((70, 33), torch.float32), 1).detach()
    a, b = (half.requires_grad_() for half in both.split(33, 1))
    check([a, b], torch.float32)
    transposed = [half.detach().T.requires_grad_() for half in (a, b)]
    check(transposed, torch.float32)


def test_far_from_zero():
    a = torch.tensor([-1e4, -40.0, -9.0, 0.0, 9.0, 40.0, 1e4], device=DEVICE).requires_grad_()
    b = torch.full_like(a, 2.0).requires_grad_()
    out = gated_gelu(a, b, backend="triton")
    d_a, d_b = torch.autograd.grad(out.sum(), (a, b))
    assert torch.allclose(out, 2 * a.clamp(min=0), atol=1e-5)
    assert torch.allclose(d_a, (a > 0).float() * 2 + (a == 0).float(), atol=1e-5)
    assert torch.allclose(d_b, a.clamp(min=0), atol=1e-5)


@gpu
def test_compiles_without_graph_breaks():
    halves = pair((64, 40), torch.bfloat16)

    def both(a, b):
        return gated_gelu(a, b, backend="triton") * 2

    compiled = torch.compile(both, fullgraph=True)
    for actual, expected in zip(
        torch.autograd.grad(compiled(*halves).sum(), halves),
        torch.autograd.grad(both(*halves).sum(), halves),
        strict=True,
    ):
        assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]


@gpu
def test_more_elements_than_32_bits_count():
    a = torch.randn((1 << 31) + 24, device="cuda", dtype=torch.bfloat16)
    out = gated_gelu(a, a)
    expected = gated_gelu(a[-4096:], a[-4096:], backend="eager")
    assert relative_error(out[-4096:], expected) < TOLERANCE[torch.bfloat16]
