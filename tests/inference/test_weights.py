"""Sums over the bits of tensors change when the tensors do."""

import pytest
import torch

from foveate.inference.weights import sum_bits

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def of(dtype, *shape):
    torch.manual_seed(0)
    return torch.randn(shape).mul(50).abs().clamp(max=255).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (1021 * 8,), (4000, 9)])
def test_equal_tensors_have_equal_sums(dtype, shape):
    tensor = of(dtype, *shape)
    sums = sum_bits(tensor)
    assert sums.dtype == torch.uint8
    assert torch.equal(sums, sum_bits(tensor.clone()))
    assert len(sums) <= tensor.nbytes


@pytest.mark.parametrize("position", [0, 12345, -1])
def test_the_last_bit_of_any_number_counts(position):
    tensor = of(torch.float32, 200_000)
    changed = tensor.clone()
    changed.view(torch.int32)[position] ^= 1
    assert not torch.equal(sum_bits(tensor), sum_bits(changed))


@pytest.mark.parametrize(
    "change",
    [
        torch.neg,
        lambda weight: weight.flip(0),
        lambda weight: weight.flip(1),
        lambda weight: weight.roll(64, 0),
        lambda weight: weight[torch.randperm(len(weight))],
        lambda weight: weight + 1e-6,
        lambda weight: weight.index_fill(0, torch.tensor([5, 70]), 0),
        lambda weight: torch.cat([-weight[:2], weight[2:]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_changes_of_a_matrix_count(dtype, change):
    weight = torch.randn(1000, 384, generator=torch.manual_seed(0)).to(dtype)
    assert not torch.equal(sum_bits(weight), sum_bits(change(weight).to(dtype)))


def test_a_part_of_a_tensor_that_is_not_aligned():
    tensor = of(torch.float32, 20_001)
    assert torch.equal(sum_bits(tensor[1:]), sum_bits(tensor[1:].clone()))
    square = of(torch.float32, 200, 200)
    assert torch.equal(sum_bits(square.T), sum_bits(square.T.contiguous()))
