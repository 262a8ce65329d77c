import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.rotary import rotary_angles, rotate
from tests.numerics import TOLERANCE, relative_error


def heads(n, num_heads, head_dim, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    both = torch.randn(2, n, num_heads, head_dim, generator=generator, dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in both]


def with_gradients(q, k, angles, backend):
    outputs = rotate(q, k, *angles, backend=backend)
    weights = torch.randn(2, *q.shape, generator=torch.Generator().manual_seed(1)).to(q.dtype)
    return *outputs, *torch.autograd.grad(outputs, (q, k), list(weights))


@given(st.integers(0, 9), st.integers(1, 3), st.sampled_from([2, 6, 16]))
@settings(max_examples=20)
def test_torch_is_the_reference(n, num_heads, head_dim):
    q, k = heads(n, num_heads, head_dim)
    angles = rotary_angles(torch.arange(n) * 1000, head_dim, 10_000.0)
    pairs = zip(
        *(with_gradients(q, k, angles, name) for name in ("eager", "reference")), strict=True
    )
    assert all(relative_error(*each) < 1e-14 for each in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    angles = rotary_angles(torch.arange(40), 8, 10_000.0)
    outputs = with_gradients(*heads(40, 2, 8, dtype), angles, None)
    assert all(each.dtype == dtype for each in outputs)
    exact = with_gradients(*heads(40, 2, 8), angles, "reference")
    for actual, expected in zip(outputs, exact, strict=True):
        assert relative_error(actual, expected) < TOLERANCE[dtype]


def test_gradients_by_differences():
    angles = rotary_angles(torch.tensor([0, 3, 50]), 4, 10_000.0)
    q, k = heads(3, 2, 4)
    assert torch.autograd.gradcheck(lambda q, k: rotate(q, k, *angles), (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: rotate(q, k, *angles), (q, k))


def test_products_depend_on_distances_only():
    q, k = (x[:1].detach().expand(6, 1, 16) for x in heads(1, 1, 16))
    near = rotate(q, k, *rotary_angles(torch.arange(6), 16, 10_000.0))
    far = rotate(q, k, *rotary_angles(torch.arange(6) + 1_000_000, 16, 10_000.0))
    scores, shifted = (a[:, 0] @ b[:, 0].T for a, b in (near, far))
    assert relative_error(shifted, scores) < 1e-6  # cosines are in float32
    assert abs(scores[0, 1] - scores[0, 2]) > 1e-3


def test_what_does_not_fit_is_rejected():
    q, k = heads(3, 2, 4)
    cos, sin = rotary_angles(torch.arange(3), 4, 10_000.0)
    with pytest.raises(ValueError, match="queries and keys must share one shape"):
        rotate(q, k[:2], cos, sin)
    with pytest.raises(ValueError, match="cos must be"):
        rotate(q, k, cos[:2], sin)
    with pytest.raises(ValueError, match="sin must be"):
        rotate(q, k, cos, sin[:, :1])
    with pytest.raises(ValueError, match="pairs of channels"):
        rotate(q[..., :3], k[..., :3], cos, sin)
    with pytest.raises(ValueError, match="head_dim is odd"):
        rotary_angles(torch.arange(3), 5, 10_000.0)
    with pytest.raises(ValueError, match=r"positions must be \(n,\), got \(1, 3\)"):
        rotary_angles(torch.arange(3)[None], 4, 10_000.0)
    with pytest.raises(ValueError, match="theta must be positive, got 0"):
        rotary_angles(torch.arange(3), 4, 0.0)
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        rotate(q, k, cos, sin, backend="cuda")
