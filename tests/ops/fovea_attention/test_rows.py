"""Padded rows: each attends as it would alone, and nothing waits for their lengths."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from foveate.ops.fovea_attention import COVERAGES, PaddedRows, fovea_attention
from tests.synchronization import no_waiting


@given(
    st.lists(st.sampled_from([0, 1, 2, 7, 16, 23, 40]), min_size=1, max_size=4),
    st.sampled_from([1, 3, 4, 100]),
    st.sampled_from(COVERAGES),
    st.sampled_from(["eager", "reference"]),
)
@example([0, 0], 4, "full", "eager")
def test_every_row_is_as_alone(lengths, block_size, coverage, backend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 40 * len(lengths), 2, 4, generator=generator, dtype=torch.float64)
    bias = torch.randn(32, 2, generator=generator, dtype=torch.float64)
    options = {"block_size": block_size, "k_neighbours": 1, "coverage": coverage, "bias": bias}
    for row, length in zip(x.view(4, len(lengths), 40, 2, 4).unbind(1), lengths, strict=True):
        row[:, length:] = torch.nan
    q, k, v = x[:3].clone().requires_grad_()
    rows = PaddedRows(torch.tensor(lengths), 40)
    out = fovea_attention(q, k, v, lengths=rows, backend=backend, **options)
    gradients = torch.autograd.grad(
        out, (q, k, v), x[3].nan_to_num(), allow_unused=not any(lengths)
    )
    for row, length in enumerate(lengths):
        real, padding = (slice(40 * row + a, 40 * row + b) for a, b in ((0, length), (length, 40)))
        actual = [out, *(torch.zeros_like(out) if one is None else one for one in gradients)]
        assert all((one[padding] == 0).all() for one in actual)
        if length:
            alone = x[:3, real].clone().requires_grad_()
            expected = fovea_attention(*alone, backend="reference", **options)
            expected = [expected, *torch.autograd.grad(expected, alone, x[3, real])[0]]
            for one, other in zip(actual, expected, strict=True):
                assert torch.allclose(one[real], other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block_size", [24, 128])
def test_the_schedule_of_rows_does_not_wait(block_size):
    pytest.importorskip("triton")
    from foveate.ops.fovea_attention.triton.schedule import ScheduleKey, build_padded_schedule

    key = ScheduleKey((2048, 2048), block_size, 1, "full", 128, 32, 128)
    lengths = torch.tensor([2048, 0])
    whole = build_padded_schedule(key, lengths)  # copies what all lengths have in common
    with no_waiting():
        other = build_padded_schedule(key, lengths.flip(0) - 5 * lengths.flip(0).sign())
    for one, its in zip(tree_leaves(whole), tree_leaves(other), strict=True):
        if isinstance(one, torch.Tensor):
            assert one.shape == its.shape


@pytest.mark.parametrize(
    ("lengths", "size", "message"),
    [
        (torch.zeros(2, 1, dtype=torch.long), 4, r"lengths of shape \(2, 1\)"),
        (torch.zeros(2), 4, r"dtype torch.float32, and a size of 4"),
        (torch.zeros(2, dtype=torch.long), 0, "a size of 0"),
        (torch.zeros(2, dtype=torch.long), 4, "add up to 3 tokens, got 2 lengths"),
    ],
)
def test_rows_that_do_not_match_are_rejected(lengths, size, message):
    q = torch.zeros(3, 2, 4)
    with pytest.raises(ValueError, match=message):
        fovea_attention(q, q, q, block_size=4, k_neighbours=1, lengths=PaddedRows(lengths, size))
