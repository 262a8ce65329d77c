import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.ops._packed import cpu_kernel, grouped_attention
from foveate.ops.relative_attention import relative_attention
from foveate.ops.relative_attention.reference import relative_attention as reference
from tests.numerics import TOLERANCE, relative_error

HEADS = 2


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@st.composite
def calls(draw):
    """Arguments of `relative_attention`, all given, in float64."""
    q_lengths = draw(st.lists(st.sampled_from([1, 1, 2, 3, 5, 17]), min_size=1, max_size=5))
    self_attention = draw(st.booleans())
    k_lengths = q_lengths if self_attention else [draw(st.integers(1, 19)) for _ in q_lengths]
    m, n = sum(q_lengths), sum(k_lengths)
    seed = draw(st.integers(0, 99))
    positions = randn(m + n, seed=seed).mul(draw(st.sampled_from([3, 90]))).long()
    return {
        "q": randn(m, HEADS, 4, seed=seed + 1),
        "k": randn(n, HEADS, 4, seed=seed + 2),
        "v": randn(n, HEADS, 4, seed=seed + 3),
        "bias": draw(st.sampled_from([None, randn(32, HEADS), randn(6, HEADS)])),
        "q_positions": positions[:m],
        "k_positions": positions[m:],
        "q_lengths": q_lengths,
        "k_lengths": k_lengths,
        "key_bias": draw(st.sampled_from([None, randn(n), randn(n).log()])),
        "causal": draw(st.booleans()),
        "max_distance": draw(st.sampled_from([20, 128])),
        "scale": draw(st.sampled_from([1.0, 0.3])),
    }


def hides_keys(call):
    """Some logarithms are nan, of negative numbers: the keys to hide."""
    key_bias = call["key_bias"]
    return call if key_bias is None else call | {"key_bias": key_bias.nan_to_num(-math.inf)}


@st.composite
def ways(draw):
    """A size of the tiles, and whether torch has the kernel that is fused on a CPU."""
    return draw(st.sampled_from([7, 60, 1 << 18])), draw(st.booleans())


def choose(patch, way):
    """Compute in a way."""
    tile, has_kernel = way
    patch.setattr(grouped_attention, "TILE", tile)
    if not has_kernel:
        patch.setattr(cpu_kernel, "_kernel", None)


@given(calls().map(hides_keys), st.sampled_from(list(TOLERANCE)), ways())
def test_every_call_equals_the_reference(call, dtype, way):
    qkv = {name: call[name].to(dtype) for name in "qkv"}
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, way)
        out = relative_attention(**call | qkv)
    expected = reference(**call | {name: x.double() for name, x in qkv.items()})
    assert out.dtype == dtype
    assert relative_error(out, expected) < TOLERANCE[dtype]


@given(calls().map(hides_keys), ways())
def test_gradients_equal_the_reference(call, way):
    leaves = [name for name in ("q", "k", "v", "bias", "key_bias") if call[name] is not None]

    def gradients(attention):
        inputs = {name: call[name].clone().requires_grad_() for name in leaves}
        out = attention(**call | inputs)
        loss = (out * randn(*out.shape, seed=5)).sum()
        return torch.cat([x.flatten() for x in torch.autograd.grad(loss, list(inputs.values()))])

    with pytest.MonkeyPatch.context() as patch:
        choose(patch, way)
        actual = gradients(relative_attention)
    assert relative_error(actual, gradients(reference)) < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(causal):
    q, k, v, table, key_bias = (
        randn(*shape, seed=seed).requires_grad_()
        for seed, shape in enumerate([(4, 2, 2), (6, 2, 2), (6, 2, 2), (6, 2), (6,)])
    )

    def attention(q, k, v, bias, key_bias):
        places = {"q_positions": torch.tensor([9, 2, 5, 1]), "q_lengths": [3, 1]}
        return relative_attention(
            q, k, v, bias=bias, key_bias=key_bias, k_lengths=[4, 2], causal=causal, **places
        )

    assert torch.autograd.gradcheck(attention, (q, k, v, table, key_bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_every_dtype(dtype):
    call = {"causal": True, "q_lengths": [9, 1, 21]}
    inputs = [randn(31, HEADS, 8, seed=seed, dtype=dtype).requires_grad_() for seed in range(3)]
    table = randn(32, HEADS, dtype=dtype).requires_grad_()
    weight = randn(31, HEADS, 8, seed=4, dtype=dtype)
    out = relative_attention(*inputs, bias=table, **call)
    actual = torch.autograd.grad((out * weight).sum(), (*inputs, table))
    exact = [x.detach().double().requires_grad_() for x in (*inputs, table)]
    out = relative_attention(*exact[:3], bias=exact[3], **call)
    expected = torch.autograd.grad((out * weight.double()).sum(), exact)
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == dtype
        assert relative_error(one, other) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_biases_may_have_dtypes_of_their_own(dtype):
    q, k, v = randn(3, 7, HEADS, 4, dtype=torch.float32)
    table = randn(32, HEADS, dtype=dtype).requires_grad_()
    key_bias = randn(7, seed=1, dtype=dtype).requires_grad_()
    out = relative_attention(q, k, v, bias=table, key_bias=key_bias)
    gradients = torch.autograd.grad(out.square().sum(), (table, key_bias))
    assert (out.dtype, *(x.dtype for x in gradients)) == (torch.float32, dtype, dtype)
    same = relative_attention(q, k, v, bias=table.float(), key_bias=key_bias.float())
    assert relative_error(out, same) < 1e-6


@pytest.mark.parametrize("decoder", [False, True])
def test_it_is_the_attention_of_t5(decoder):
    torch.manual_seed(0)
    config = T5Config(d_model=12, d_kv=6, num_heads=2, dropout_rate=0, is_decoder=decoder)
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double().eval()
    x = randn(1, 150, 12)
    mask = torch.zeros(150, 150, dtype=torch.float64)
    mask = mask.masked_fill(torch.ones_like(mask).triu(1).bool() & decoder, -math.inf)
    expected = layer(x, mask=mask[None, None])[0]
    q, k, v = (project(x[0]).unflatten(-1, (2, 6)) for project in (layer.q, layer.k, layer.v))
    table = layer.relative_attention_bias.weight
    out = layer.o(relative_attention(q, k, v, bias=table, causal=decoder).flatten(1))
    assert relative_error(out[None], expected) < 1e-12


def test_multiplicity_as_key_bias_is_attending_a_key_many_times():
    q, k, v = randn(3, 5, HEADS, 4)
    times = torch.tensor([1, 4, 2, 1, 3])
    places = {"bias": randn(32, HEADS), "q_positions": torch.arange(5)}
    coarse = relative_attention(q, k, v, key_bias=times.double().log(), **places)
    many = [x.repeat_interleave(times, 0) for x in (k, v, torch.arange(5))]
    fine = relative_attention(q, *many[:2], k_positions=many[2], **places)
    assert relative_error(coarse, fine) < 1e-12


def test_decoding_step_by_step_equals_decoding_at_once():
    q, k, v = randn(3, 9, HEADS, 4)
    table = randn(32, HEADS)
    at_once = relative_attention(q, k, v, bias=table, causal=True)
    for step in range(9):
        seen = slice(step + 1)
        now = relative_attention(
            *(q[step : step + 1], k[seen], v[seen]),
            bias=table,
            q_positions=torch.tensor([step]),
            causal=True,
        )
        assert relative_error(now, at_once[step : step + 1]) < 1e-12


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_a_sequence_does_not_depend_on_its_batch_mates(lengths):
    q, k, v = randn(3, sum(lengths), HEADS, 4)
    table = randn(32, HEADS)
    together = relative_attention(q, k, v, bias=table, q_lengths=lengths).split(lengths)
    for sequence, *alone in zip(together, *(x.split(lengths) for x in (q, k, v)), strict=True):
        assert relative_error(sequence, relative_attention(*alone, bias=table)) < 1e-14


def test_hidden_keys_are_as_good_as_absent_even_if_enormous():
    q, k, v = randn(3, 6, HEADS, 4)
    hidden = torch.tensor([0, 0, 0, 0, -math.inf, -math.inf])
    table = randn(32, HEADS)
    padded = relative_attention(q, k, v, bias=table, key_bias=hidden)
    k, v = k.clone(), v.clone()
    k[4:], v[4:] = 1e30, 1e30
    assert relative_error(relative_attention(q, k, v, bias=table, key_bias=hidden), padded) == 0
    assert relative_error(relative_attention(q, k[:4], v[:4], bias=table), padded) < 1e-14


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = (x.requires_grad_() for x in randn(3, 2, HEADS, 4))
    later = torch.tensor([3, 4])
    out = relative_attention(q, k, v, k_positions=later, causal=True, bias=randn(32, HEADS))
    assert not out.any()
    assert not any(x.any() for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_a_call_repeats_its_bits():
    q, k, v = (x.requires_grad_() for x in randn(3, 40, HEADS, 4, dtype=torch.float32))
    table = randn(32, HEADS, dtype=torch.float32).requires_grad_()

    def run():
        out = relative_attention(q, k, v, bias=table, q_lengths=[30, 10])
        return out, *torch.autograd.grad(out.square().sum(), (q, k, v, table))

    assert all(map(torch.equal, run(), run()))


@pytest.mark.parametrize(
    ("bias", "has_kernel"), [("diagonals", False), ("diagonals", True), ("pairs", True)]
)
def test_nothing_is_materialized_for_all_pairs(bias, has_kernel, monkeypatch):
    """The largest allocation of a training step, with tiles smaller than a head's pairs."""
    choose(monkeypatch, (1 << 16, has_kernel))

    def largest(n):
        q, k, v = (x.requires_grad_() for x in randn(3, n, HEADS, 4, dtype=torch.float32))
        table = randn(32, HEADS, dtype=torch.float32).requires_grad_()
        places = {"q_positions": torch.arange(n)} if bias == "pairs" else {}
        with torch.profiler.profile(profile_memory=True) as profile:
            relative_attention(q, k, v, bias=table, **places).sum().backward()
        return max(event.cpu_memory_usage for event in profile.events())

    largest(64)
    assert largest(768) <= 2.5 * largest(384)


def test_no_tokens_give_no_tokens():
    q = torch.zeros(0, 2, 4)
    assert relative_attention(q, q, q, bias=torch.zeros(32, 2)).shape == (0, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": torch.zeros(3, 2, 5)}, "k and v share"),
        ({"q": torch.zeros(3, 1, 4)}, "k and v share"),
        ({"v": torch.zeros(3, 2, 4).double()}, "must share one floating dtype"),
        ({"bias": torch.zeros(32, 3)}, r"bias must be \(num_buckets, heads\) with 2 heads"),
        ({"key_bias": torch.zeros(2)}, r"key_bias must be \(3,\)"),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got a tensor: multiply q by it"),
        ({"q_positions": torch.zeros(3)}, r"q_positions must be \(3,\) integers"),
        ({"k_positions": torch.arange(4)}, r"k_positions must be \(3,\) integers"),
        ({"q_lengths": [2, 2]}, "q_lengths must be positive and add up to 3 tokens"),
        ({"k_lengths": [3, 0]}, "k_lengths must be positive and add up to 3 tokens"),
        ({"q_lengths": [1, 2], "k_lengths": [3]}, "2 sequences but k_lengths has 1"),
        ({"bias": torch.zeros(3, 2)}, "3 buckets are too few"),
    ],
)
def test_inputs_that_do_not_match_are_rejected(arguments, message):
    q = torch.zeros(3, 2, 4)
    with pytest.raises(ValueError, match=message):
        relative_attention(**{"q": q, "k": q, "v": q} | arguments)
