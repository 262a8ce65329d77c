import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.ops.fovea_attention.nodes import PyramidNode
from foveate.ops.fovea_attention.pyramid import PyramidIndex, build_pyramid
from tests.numerics import relative_error


@given(st.integers(1, 120), st.integers(1, 17))
def test_every_node_is_windows_of_the_pyramid(n, block_size):
    x = torch.randn(n, 2, 3, dtype=torch.float64)
    num_blocks = -(-n // block_size)
    levels = num_blocks.bit_length()
    pyramid = build_pyramid(x, block_size, levels)
    index = PyramidIndex(n, block_size, levels, start=5)
    assert index.end == 5 + len(pyramid)
    for node in (
        PyramidNode(q, s) for q in range(levels) for s in range(num_blocks - (1 << q) + 1)
    ):
        field = x[node.start * block_size : (node.start + node.num_blocks) * block_size]
        means = torch.stack([window.mean(0) for window in field.split(node.num_blocks)])
        taken = torch.tensor(index.window_indices(node)) - 5
        assert relative_error(pyramid[taken], means) < 1e-12


@pytest.mark.parametrize(("block_size", "n"), [(16, 4096), (64, 4096), (128, 65536), (256, 65536)])
def test_all_levels_take_little_more_than_twice_the_tokens(block_size, n):
    num_blocks = n // block_size
    num_windows = PyramidIndex(n, block_size, num_blocks.bit_length()).end
    assert num_windows <= (2 + num_blocks.bit_length() / block_size) * n
    pyramid = build_pyramid(torch.zeros(n, 1, 1), block_size, num_blocks.bit_length())
    assert len(pyramid) == num_windows


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_averages_of_narrow_dtypes_neither_overflow_nor_lose_tokens(dtype):
    x = torch.full((4096, 1, 1), 30000.0, dtype=dtype)
    means = build_pyramid(x, 4, 10)
    assert means.dtype == torch.float32
    assert torch.equal(means, x[:1].float().expand_as(means))
