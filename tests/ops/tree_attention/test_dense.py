"""Attention within sequences that follow each other equals the dense definition."""

import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.ops.tree_attention.dense import attend_equal
from tests.numerics import TOLERANCE, relative_error

HEADS, HEAD_DIM = 2, 8


def reference(q, k, v, lengths):
    """Attend in float64, one sequence at a time."""
    outs = []
    for queries, keys, values in zip(*(x.double().split(lengths) for x in (q, k, v)), strict=True):
        scores = torch.einsum("ihd,jhd->hij", queries, keys) * HEAD_DIM**-0.5
        outs.append(torch.einsum("hij,jhd->ihd", scores.softmax(-1), values))
    return torch.cat(outs)


def qkv_of(tokens, dtype):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, tokens, HEADS, HEAD_DIM, generator=generator, dtype=torch.float64).to(
        dtype
    )


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40)), min_size=1, max_size=5),
    st.sampled_from(list(TOLERANCE)),
    st.integers(0, 20),
)
@example([(1, 1)], torch.float32, 0)
@example([(40, 1)], torch.float32, 1)
@example([(1, 1031), (1, 3)], torch.float32, 0)  # too long for more keys than it has
def test_outputs_and_gradients_equal_the_reference(runs, dtype, extra):
    lengths = [size for number, size in runs for _ in range(number)]
    qkv = qkv_of(sum(lengths), dtype)
    expected = reference(*(exact := qkv.double().requires_grad_()), lengths)
    filled = F.pad(qkv.requires_grad_(), (0, 0, 0, 0, 0, extra))
    actual = attend_equal(*filled, runs)
    assert actual.dtype == dtype
    assert (actual[sum(lengths) :] == 0).all()
    assert relative_error(actual[: sum(lengths)], expected) < TOLERANCE[dtype]
    weight = torch.randn(expected.shape, dtype=torch.float64)
    (expected * weight).sum().backward()
    (actual[: sum(lengths)] * weight.to(dtype)).sum().backward()
    assert relative_error(qkv.grad, exact.grad) < 4 * TOLERANCE[dtype]


@given(st.lists(st.integers(1, 20), min_size=2, max_size=8))
def test_a_sequence_does_not_depend_on_its_batch_mates(lengths):
    qkv = qkv_of(sum(lengths), torch.float32)
    qkv[:, lengths[0] :] *= 1e3  # scores that would win wherever they took part
    alone = attend_equal(*qkv[:, : lengths[0]], [(1, lengths[0])])
    together = attend_equal(*qkv, [(1, size) for size in lengths])
    assert relative_error(together[: lengths[0]], alone) < 1e-6
