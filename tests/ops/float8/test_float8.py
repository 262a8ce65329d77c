import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.float8 import float8_linear, quantize_rows
from tests.numerics import relative_error

HALF_STEP = 2**-4
"""The largest relative error of a value with three bits after the first."""


def matrix(rows, channels, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    sizes = 10 ** (6 * torch.rand(rows, 1, generator=generator) - 3)
    return (sizes * torch.randn(rows, channels, generator=generator)).to(dtype)


def meaning(rows):
    return rows.values.double() * rows.scales.double()[:, None]


@given(
    st.integers(0, 5),
    st.integers(1, 40),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_every_value_is_rounded_once(rows, channels, dtype, relu):
    x = matrix(rows, channels, dtype)
    found = quantize_rows(x, relu=relu)
    assert found.values.shape == x.shape
    assert found.values.dtype == torch.float8_e4m3fn
    assert found.scales.shape == (rows,)
    assert found.scales.dtype == torch.float32
    exact = x.double().clamp(min=0) if relu else x.double()
    finest = exact.abs().amax(1, keepdim=True) / 448 * 2**-9 * 0.51  # half of the smallest step
    error = (meaning(found) - exact).abs()
    assert (error <= torch.maximum(exact.abs() * HALF_STEP * 1.001, finest)).all()


def test_rows_of_zeros():
    rows = quantize_rows(torch.zeros(2, 3))
    assert not rows.scales.any()
    assert not rows.values.float().any()
    assert quantize_rows(-torch.ones(1, 3), relu=True).scales == 0


@pytest.mark.parametrize("relu", [False, True])
def test_nan_and_infinity_are_kept(relu):
    x = torch.ones(4, 16)
    x[1, 2] = float("nan")
    x[2, 0] = float("inf")
    x[3] = float("nan")
    found = float8_linear(quantize_rows(x, relu=relu), quantize_rows(torch.ones(16, 16)))
    assert found[0].isfinite().all()
    assert not found[1:].isfinite().any()


def test_tiny_numbers_are_zeros():
    x = torch.tensor([[1e-37, 0.0], [1e-45, 0.0], [1e-30, 0.0]])
    found = quantize_rows(x)
    assert not found.values[:2].float().any()
    assert not found.scales[:2].any()
    assert meaning(found)[2].allclose(x[2].double(), atol=0)


def test_autocast_leaves_the_product_alone():
    x, weight = quantize_rows(matrix(5, 32)), quantize_rows(matrix(16, 32))
    with torch.autocast("cpu", torch.bfloat16):
        found = float8_linear(x, weight, dtype=torch.float32)
    assert relative_error(found, meaning(x) @ meaning(weight).T) < 1e-6


@given(st.integers(0, 5), st.sampled_from([16, 48]), st.sampled_from([16, 80]), st.booleans())
@settings(deadline=None, max_examples=20)
def test_the_product_is_that_of_the_rounded_rows(rows, in_features, out_features, has_bias):
    x, weight = (
        quantize_rows(matrix(rows, in_features)),
        quantize_rows(matrix(out_features, in_features)),
    )
    bias = matrix(1, out_features)[0] if has_bias else None
    found = float8_linear(x, weight, bias, dtype=torch.float32)
    expected = meaning(x) @ meaning(weight).T
    if bias is not None:
        expected += bias
    assert found.dtype == torch.float32
    assert relative_error(found, expected) < 1e-6
    assert float8_linear(x, weight, bias).dtype == torch.bfloat16


def test_what_cannot_be_multiplied():
    x = quantize_rows(torch.ones(2, 16))
    with pytest.raises(ValueError, match=r"rows of 16 and a weight \(16, 32\)"):
        float8_linear(x, quantize_rows(torch.ones(16, 32)))
    with pytest.raises(ValueError, match=r"multiples of 16: got rows of 16 and a weight \(3, 16\)"):
        float8_linear(x, quantize_rows(torch.ones(3, 16)))
    for shape in ((3,), (3, 0)):
        with pytest.raises(ValueError, match=r"needs a matrix with channels, got shape \(3"):
            quantize_rows(torch.ones(shape))
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        quantize_rows(torch.ones(1, 3), backend="cuda")
