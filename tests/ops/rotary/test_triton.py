"""The kernel: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.rotary import rotary_angles, rotate
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter


def heads(n, num_heads, head_dim, dtype):
    """Queries and keys, as slices of one product with the values."""
    generator = torch.Generator().manual_seed(0)
    product = torch.randn(n, 3, num_heads, head_dim, generator=generator).to(DEVICE, dtype)
    return [x.detach().requires_grad_() for x in product.unbind(1)[:2]]


def check(q, k, dtype):
    positions = torch.randint(10**6, (len(q),), generator=torch.Generator().manual_seed(2))
    angles = rotary_angles(positions.to(DEVICE), q.shape[2], 10_000.0)
    weights = torch.randn(2, *q.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    results = []
    for backend, precise in (("triton", dtype), ("reference", torch.float64)):
        both = [x.detach().to(precise).requires_grad_() for x in (q, k)]
        if backend == "triton":
            both = [q, k]
        outputs = rotate(*both, *angles, backend=backend)
        gradients = torch.autograd.grad(outputs, both, list(weights.to(precise)))
        results.append((*outputs, *gradients))
    for actual, expected in zip(*results, strict=True):
        assert actual.dtype == dtype
        assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(
    st.integers(1, 70),
    st.sampled_from([1, 3, 12]),
    st.sampled_from([2, 6, 32, 64, 80]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
@settings(max_examples=40 if ON_GPU else 8)
def test_every_shape_equals_the_reference(n, num_heads, head_dim, dtype):
    check(*heads(n, num_heads, head_dim, dtype), dtype)


def test_channels_that_are_not_adjacent():
    q, k = (x.detach().transpose(1, 2).requires_grad_() for x in heads(5, 8, 4, torch.float32))
    check(q, k, torch.float32)


def test_no_nodes():
    q, k = heads(0, 2, 4, torch.float32)
    outputs = rotate(q, k, *rotary_angles(torch.arange(0, device=DEVICE), 4, 1e4), backend="triton")
    gradients = torch.autograd.grad([x.sum() for x in outputs], (q, k))
    assert all(x.shape == (0, 2, 4) for x in (*outputs, *gradients))


def test_torch_accepts_the_op():
    from foveate.ops.rotary.triton import _rotate

    q, k = (x.detach() for x in heads(5, 2, 4, torch.float32))
    cos, sin = rotary_angles(torch.arange(5, device=DEVICE), 4, 10_000.0)
    torch.library.opcheck(_rotate, (q, k, cos, sin, 1))


@gpu
def test_compiles_without_graph_breaks():
    q, k = heads(64, 4, 16, torch.bfloat16)
    angles = rotary_angles(torch.arange(64, device=DEVICE), 16, 10_000.0)

    def both(q, k):
        return sum(rotate(q, k, *angles, backend="triton"))

    compiled = torch.compile(both, fullgraph=True)
    for actual, expected in zip(
        torch.autograd.grad(compiled(q, k).sum(), (q, k)),
        torch.autograd.grad(both(q, k).sum(), (q, k)),
        strict=True,
    ):
        assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]
