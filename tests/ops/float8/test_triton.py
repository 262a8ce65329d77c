"""The kernel: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.float8 import float8_linear, multiplies_float8, quantize_rows, reference
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import relative_error

pytestmark = gpu_or_interpreter
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def matrix(rows, channels, dtype):
    """Random numbers of few bits, so that scaling leaves nothing to be rounded in some rows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, channels, generator=generator)
    x[::3] = 0
    return x.to(DEVICE, dtype)


@given(
    st.sampled_from([0, 1, 2, 9]),
    st.sampled_from([1, 31, 64, 768, 3000]),
    st.sampled_from(DTYPES),
    st.booleans(),
)
@settings(deadline=None, max_examples=40 if ON_GPU else 15)
def test_any_shape(rows, channels, dtype, relu):
    x = matrix(rows, channels, dtype)
    found = quantize_rows(x, relu=relu, backend="triton")
    expected = quantize_rows(x, relu=relu, backend="reference")
    assert torch.equal(found.scales, expected.scales)
    values, exact = found.values.float(), expected.values.float()
    if not ON_GPU:  # the interpreter loses the carry of a number rounded up to a power of two
        is_power = exact.abs().log2().frac() == 0
        values, exact = values[~is_power], exact[~is_power]
    assert torch.allclose(values, exact, rtol=0 if ON_GPU else 2**-3)
    assert values.isfinite().all()


@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:invalid value")  # of the interpreter
@pytest.mark.parametrize("relu", [False, True])
def test_nan_infinity_and_tiny_numbers(relu):
    x = torch.ones(6, 16, device=DEVICE)
    x[1, 2] = float("nan")
    x[2, 0] = float("inf")
    x[3] = float("nan")
    x[4] = 1e-37
    found = quantize_rows(x, relu=relu, backend="triton")
    products = (found.values.float() * found.scales[:, None]).sum(1)
    assert products[0] == products[5] == 16
    assert not products[1:4].isfinite().any()
    assert products[4] == found.scales[4] == 0


def test_rows_apart():
    x = matrix(8, 40, torch.float32)
    for each in (x[::2], x[:, 3:20], x.t()):
        found = quantize_rows(each, backend="triton")
        assert torch.equal(found.scales, quantize_rows(each, backend="reference").scales)


def test_the_op_knows_its_outputs():
    from foveate.ops.float8.triton import quantize_rows as op

    torch.library.opcheck(op, (matrix(3, 32, torch.float32), True))


@gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_of_tensor_cores(dtype, has_bias):
    if not multiplies_float8(torch.device(DEVICE)):
        pytest.skip("needs a GPU of compute capability 8.9")
    x = quantize_rows(matrix(300, 768, torch.bfloat16))
    weight = quantize_rows(matrix(1536, 768, torch.bfloat16))
    bias = matrix(1, 1536, dtype)[0] + 1 if has_bias else None
    found = float8_linear(x, weight, bias, dtype=dtype)
    assert found.dtype == dtype
    assert relative_error(found, reference.float8_linear(x, weight, bias)) < 1e-2
    assert float8_linear(quantize_rows(matrix(0, 768, dtype)), weight, bias).shape == (0, 1536)
