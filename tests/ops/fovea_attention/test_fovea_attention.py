import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from foveate.ops.fovea_attention import COVERAGES, fovea_attention, select_nodes
from foveate.ops.fovea_attention.reference import fovea_attention as reference
from foveate.ops.relative_attention import relative_attention
from tests.numerics import TOLERANCE, relative_error

HEADS = 2

documents = st.lists(st.sampled_from([1, 1, 2, 7, 16, 23, 61]), min_size=1, max_size=4)
shapes = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([1, 2, 3, 4, 6, 8, 100]),
        "k_neighbours": st.integers(1, 3),
        "coverage": st.sampled_from(COVERAGES),
        "max_distance": st.sampled_from([20, 128]),
        "scale": st.sampled_from([1.0, 0.3]),
        "size_bias": st.booleans(),
        "stop_level": st.sampled_from([None, 1, 2]),
    }
)


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@given(documents, shapes, st.booleans(), st.sampled_from(list(TOLERANCE)))
def test_every_batch_equals_the_reference(lengths, shape, biased, dtype):
    q, k, v = randn(3, sum(lengths), HEADS, 4, dtype=dtype)
    table = randn(32, HEADS) if biased else None
    out = fovea_attention(q, k, v, bias=table, lengths=lengths, **shape)
    expected = reference(q.double(), k.double(), v.double(), bias=table, lengths=lengths, **shape)
    assert out.dtype == dtype
    assert relative_error(out, expected) < TOLERANCE[dtype]


@given(documents, shapes)
def test_gradients_equal_the_reference(lengths, shape):
    inputs = [x.requires_grad_() for x in (*randn(3, sum(lengths), HEADS, 4), randn(32, HEADS))]
    weight = randn(sum(lengths), HEADS, 4, seed=1)

    def gradients(attention):
        out = attention(*inputs[:3], bias=inputs[3], lengths=lengths, **shape)
        return torch.autograd.grad((out * weight).sum(), inputs)

    for actual, expected in zip(gradients(fovea_attention), gradients(reference), strict=True):
        # A sequence of one token has no gradient in q and k but rounding errors.
        assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size_bias", [False, True])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_gradcheck(coverage, size_bias):
    inputs = [x.requires_grad_() for x in (*randn(3, 15, 1, 2), randn(6, 1))]
    shape = {"block_size": 2, "k_neighbours": 1, "coverage": coverage, "lengths": [13, 2]}
    shape["size_bias"] = size_bias
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias: fovea_attention(q, k, v, bias=bias, **shape), inputs
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_every_dtype(dtype):
    inputs = [x.to(dtype).requires_grad_() for x in (*randn(3, 90, HEADS, 8), randn(32, HEADS))]
    weight = randn(90, HEADS, 8, seed=1).to(dtype)

    def gradients(inputs, weight):
        *qkv, table = inputs
        out = fovea_attention(*qkv, bias=table, block_size=4, k_neighbours=1, lengths=[71, 19])
        return torch.autograd.grad((out * weight).sum(), inputs)

    exact = [x.detach().double().requires_grad_() for x in inputs]
    for actual, expected in zip(
        gradients(inputs, weight), gradients(exact, weight.double()), strict=True
    ):
        assert actual.dtype == dtype
        assert relative_error(actual, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize(
    ("block_size", "k_neighbours"),
    [(50, 1), (64, 3), (10, 4), (3, 16)],  # one block, or level 0 reaches both ends
)
def test_seeing_every_token_is_dense_attention(block_size, k_neighbours, coverage):
    q, k, v = randn(3, 50, HEADS, 4)
    table = randn(32, HEADS)
    out = fovea_attention(
        q, k, v, block_size=block_size, k_neighbours=k_neighbours, coverage=coverage, bias=table
    )
    assert relative_error(out, relative_attention(q, k, v, bias=table)) < 1e-12


@given(documents, shapes)
def test_a_document_does_not_depend_on_its_batch_mates(lengths, shape):
    q, k, v = randn(3, sum(lengths), HEADS, 4)
    table = randn(32, HEADS)
    together = fovea_attention(q, k, v, bias=table, lengths=lengths, **shape).split(lengths)
    for sequence, *alone in zip(together, *(x.split(lengths) for x in (q, k, v)), strict=True):
        assert relative_error(sequence, fovea_attention(*alone, bias=table, **shape)) < 1e-13


@pytest.mark.parametrize("block_size", [4, 6])
def test_full_coverage_lets_every_token_reach_every_query(block_size):
    x = randn(101, 1, 1).requires_grad_()
    out = fovea_attention(x, x.detach(), x, block_size=block_size, k_neighbours=1)
    for query in (0, 37, 100):
        reached = torch.autograd.grad(out[query].sum(), x, retain_graph=True)[0]
        assert reached.flatten().count_nonzero() == 101


def test_averages_of_equal_values_are_these_values():
    """Padding in an average, or a missing token, would change it."""
    q, k = randn(2, 83, HEADS, 4)
    out = fovea_attention(q, k, torch.ones_like(q), block_size=8, k_neighbours=1, lengths=[82, 1])
    assert relative_error(out, torch.ones_like(q)) < 1e-14


@given(documents, shapes)
def test_with_size_bias_every_token_of_equal_keys_weighs_the_same(lengths, shape):
    q, k, v = randn(3, sum(lengths), HEADS, 4)
    shape |= {"coverage": "full", "size_bias": True}
    out = fovea_attention(q, torch.ones_like(k), v, lengths=lengths, **shape)
    for attended, values in zip(out.split(lengths), v.split(lengths), strict=True):
        assert torch.allclose(attended, values.mean(0).expand_as(attended), rtol=0, atol=1e-12)


def test_a_call_repeats_its_bits():
    inputs = [x.float().requires_grad_() for x in (*randn(3, 90, HEADS, 4), randn(32, HEADS))]

    def run():
        *qkv, table = inputs
        out = fovea_attention(*qkv, bias=table, block_size=4, k_neighbours=1, lengths=[61, 29])
        return out, *torch.autograd.grad(out.square().sum(), inputs)

    assert all(map(torch.equal, run(), run()))


def training_step(n, block_size):
    q, k, v = (x.float().requires_grad_() for x in randn(3, n, 1, 16))
    table = randn(32, 1).float().requires_grad_()
    fovea_attention(q, k, v, block_size=block_size, k_neighbours=1, bias=table).sum().backward()


def test_memory_grows_linearly():
    def largest_allocation(n):
        with profile(profile_memory=True) as memory:
            training_step(n, 32)
        return max(x.cpu_memory_usage for x in memory.events())

    largest_allocation(64)
    assert largest_allocation(4096) <= 4.2 * largest_allocation(1024)


def test_work_is_in_the_nodes_that_the_blocks_attend():
    """Of these each block has O(log n), see test_nodes.py."""

    def products(n, block_size):
        with FlopCounterMode(display=False) as counter:
            training_step(n, block_size)
        nodes = sum(map(len, select_nodes(n // block_size, 1, "full")))
        return counter.get_total_flops() / (nodes * block_size**2)

    assert products(4096, 16) == products(1024, 32) == products(512, 512)


def test_no_tokens_give_no_tokens():
    q = torch.zeros(0, 2, 4)
    assert fovea_attention(q, q, q, block_size=4, k_neighbours=1).shape == (0, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": torch.zeros(2, 2, 4)}, "q, k and v must share one shape"),
        ({"v": torch.zeros(3, 2, 5)}, "k and v must share one shape"),
        ({"block_size": 0}, "block_size and k_neighbours must be at least 1, got 0 and 1"),
        ({"k_neighbours": 0}, "must be at least 1, got 4 and 0"),
        ({"block_size": 4.0}, "block_size and k_neighbours must be integers, got 4.0, 1"),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got a tensor: multiply q by it"),
        ({"stop_level": 0}, "stop_level must be at least 1 or None, got 0"),
        ({"coverage": "half"}, r"unknown coverage 'half': choose among \['full', 'paper'\]"),
        ({"lengths": [1, 1]}, "lengths must be positive and add up to 3 tokens"),
        ({"bias": torch.zeros(32, 3)}, r"bias must be \(num_buckets, heads\) with 2 heads"),
    ],
)
def test_inputs_that_do_not_match_are_rejected(arguments, message):
    q = torch.zeros(3, 2, 4)
    fitting = {"q": q, "k": q, "v": q, "block_size": 4, "k_neighbours": 1}
    with pytest.raises(ValueError, match=message):
        fovea_attention(**fitting | arguments)


@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_lengths_may_be_a_tensor(backend):
    q, k, v = torch.randn(3, 9, 2, 4)
    expected, actual = (
        fovea_attention(q, k, v, block_size=2, k_neighbours=1, lengths=lengths, backend=backend)
        for lengths in ([5, 4], torch.tensor([5, 4]))
    )
    assert torch.equal(actual, expected)
