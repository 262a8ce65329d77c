"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.relative_attention import relative_attention
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LEAVES = ("q", "k", "v", "bias", "key_bias")

# A table whose last buckets begin at -14 and 14, so that a few hundred tokens have far tiles.
NEAR = {"num_buckets": 8, "max_distance": 20}
RAGGED = {"q_lengths": [1, 150, 9], "k_lengths": [40, 200, 1]}


def randn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE)


def make_call(
    q_lengths,
    k_lengths=None,
    dtype=torch.float32,
    heads=2,
    head_dim=16,
    num_buckets=None,
    key_bias=None,
    spread=None,
    seed=0,
    **options,
):
    """Arguments of `relative_attention`; positions are up to about `spread` where it is given."""
    k_lengths = k_lengths or q_lengths
    m, n = sum(q_lengths), sum(k_lengths)
    call = {
        "q": randn(m, heads, head_dim, seed=seed).mul(head_dim**-0.25).to(dtype),
        "k": randn(n, heads, head_dim, seed=seed + 1).mul(head_dim**-0.25).to(dtype),
        "v": randn(n, heads, head_dim, seed=seed + 2).to(dtype),
        "bias": None if num_buckets is None else randn(num_buckets, heads, seed=seed + 3).float(),
        "key_bias": None if key_bias is None else randn(n, seed=seed + 4).float(),
        "q_lengths": q_lengths,
        "k_lengths": k_lengths,
    }
    if key_bias == "hides":
        call["key_bias"][randn(n, seed=seed + 5) > 0] = -math.inf
    if spread is not None:
        call["q_positions"] = randn(m, seed=seed + 6).mul(spread).long()
        call["k_positions"] = randn(n, seed=seed + 7).mul(spread).int()
    return call | options


def output_weight(call):
    return randn(*call["q"].shape, seed=99).to(call["q"].dtype)


def outputs(call, backend="triton"):
    """Output and gradients."""
    leaves = {x: call[x].detach().requires_grad_() for x in LEAVES if call[x] is not None}
    out = relative_attention(**call | leaves, backend=backend)
    return out, *torch.autograd.grad(out, list(leaves.values()), output_weight(call).to(out.dtype))


def expected_outputs(call):
    """The same from the definition in float64."""
    exact = {x: call[x].double() for x in LEAVES if call[x] is not None}
    return outputs(call | exact, "reference")


def check(call):
    actual, expected = outputs(call), expected_outputs(call)
    dtype = call["q"].dtype
    assert actual[0].dtype == dtype
    assert relative_error(actual[0], expected[0]) < TOLERANCE[dtype]
    # Gradients of all but the values are small differences of numbers as large as these' gradient,
    # which are rounded; hence the common norm. Those of the biases sum many of them.
    size = max(float(x.norm()) for x in expected[1:4])
    for gradient, truth in zip(actual[1:], expected[1:], strict=True):
        assert torch.isfinite(gradient).all()
        assert (gradient - truth).norm() <= TOLERANCE[dtype] * max(truth.norm(), 0.3 * size)


@st.composite
def calls(draw, dtype, causal):
    q_lengths = draw(st.lists(st.sampled_from([1, 3, 17, 110]), min_size=1, max_size=3))
    k_lengths = draw(
        st.one_of(st.none(), st.tuples(*[st.sampled_from([1, 5, 40, 90])] * len(q_lengths)))
    )
    return make_call(
        q_lengths,
        k_lengths,
        dtype=dtype,
        num_buckets=draw(st.sampled_from([None, 6, 32])),
        key_bias=draw(st.sampled_from([None, "adds", "hides"])),
        spread=draw(st.sampled_from([None, 5, 400])),
        causal=causal,
        max_distance=draw(st.sampled_from([20, 128])),
        scale=draw(st.sampled_from([1.0, 0.3, -0.5])),
        seed=draw(st.integers(0, 99)),
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=40 if ON_GPU else 2)
def test_every_call_equals_the_reference(dtype, causal, data):
    check(data.draw(calls(dtype, causal)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key_bias", [None, "hides"])
@pytest.mark.parametrize("num_buckets", [None, 8])
def test_far_and_near_tiles(num_buckets, key_bias, causal):
    options = NEAR | {"num_buckets": num_buckets, "key_bias": key_bias, "causal": causal}
    check(make_call(**RAGGED, **options, heads=2 if ON_GPU else 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_far_and_near_tiles_in_half_precision(dtype):
    check(make_call([200], dtype=dtype, heads=1, **NEAR))


@pytest.mark.parametrize("causal", [False, True])
def test_given_positions_may_count_from_zero_too(causal):
    lengths = RAGGED if ON_GPU else {"q_lengths": [1, 70], "k_lengths": [10, 100]}
    call = make_call(**lengths, **NEAR, heads=1, causal=causal)
    places = [torch.cat([*map(torch.arange, lengths[f"{x}_lengths"])]).to(DEVICE) for x in "qk"]
    for one in ({"q_positions": places[0]}, {"k_positions": places[1].int()}):
        for a, b in zip(outputs(call | one), outputs(call), strict=True):
            assert relative_error(a, b) < 1e-5


@pytest.mark.parametrize(
    "options", [NEAR, {"dtype": torch.bfloat16, "causal": True, "spread": 900}]
)
def test_programs_share_the_keys_of_few_queries(options):
    call = make_call([2, 1, 5], [4200, 3, 700], heads=1, key_bias="hides", **options)
    exact = {x: call[x].double() for x in "qkv"}
    out = relative_attention(**call, backend="triton")
    expected = relative_attention(**call | exact, backend="reference")
    assert relative_error(out, expected) < TOLERANCE[out.dtype]
    if ON_GPU:
        check(call)


@pytest.mark.parametrize(
    ("dtype", "heads", "head_dim"),
    [
        *[(torch.float32, 1, 128), (torch.float32, 2, 24), (torch.float32, 1, 8)],
        *[(torch.bfloat16, 1, 64), (torch.bfloat16, 2, 80), (torch.float16, 3, 24)],
    ],
)
def test_shapes_of_heads(dtype, heads, head_dim):
    shape = {"dtype": dtype, "heads": heads, "head_dim": head_dim}
    check(make_call([90, 1], [70, 6], key_bias="adds", **NEAR, **shape))


@gpu
@pytest.mark.parametrize("head_dim", [32, 64, 80, 128])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread", [None, 300])
def test_shapes_of_heads_over_many_tiles(head_dim, dtype, spread):
    check(make_call([900, 1], [1100, 6], dtype=dtype, head_dim=head_dim, spread=spread, **NEAR))


def test_reach_beyond_what_a_program_keeps():
    wide = {"num_buckets": 32, "max_distance": 9000, "spread": 3000}
    check(make_call([30, 3], [70, 5], heads=1, key_bias="adds", **wide))


def test_gradients_that_nobody_asks_for_change_nothing():
    call = make_call([50], heads=1, key_bias="adds", spread=60, **NEAR)
    expected = outputs(call)
    qkv = {x: call[x].detach().requires_grad_() for x in "qkv"}
    out = relative_attention(**call | qkv, backend="triton")
    actual = torch.autograd.grad(out, list(qkv.values()), output_weight(call))
    assert all(map(torch.equal, (out, *actual), expected[:4]))
    bias = call["bias"].detach().requires_grad_()
    out = relative_attention(**call | {"bias": bias}, backend="triton")
    (gradient,) = torch.autograd.grad(out, bias, output_weight(call))
    assert torch.equal(gradient, expected[4])


@pytest.mark.parametrize("scale", [0.0, -0.5, 3.0])
def test_any_scale(scale):
    check(make_call([150], heads=1, scale=scale, **NEAR))


@pytest.mark.parametrize("spread", [None, 30])
def test_every_element_is_written(monkeypatch, spread):
    call = make_call([7, 130], [30, 2], key_bias="adds", spread=spread, **NEAR)
    expected = outputs(call)
    empty, empty_like = torch.empty, torch.empty_like

    def poisoned(x):
        return x.fill_(torch.nan) if x.is_floating_point() else x.fill_(-7)

    monkeypatch.setattr(torch, "empty", lambda *a, **k: poisoned(empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poisoned(empty_like(*a, **k)))
    assert all(map(torch.equal, outputs(call), expected))


def test_a_query_that_sees_nothing_gets_zeros():
    call = make_call([3], spread=5, causal=True, **NEAR)
    call["k_positions"] = call["q_positions"].max() + 1 + torch.arange(3, device=DEVICE)
    assert not any(x.any() for x in outputs(call))
    call = make_call([5, 140], [3, 90], **NEAR)
    call["key_bias"] = torch.tensor([-math.inf] * 3 + [0.0] * 90, device=DEVICE)
    out, dq, dk, *_ = outputs(call)
    assert not out[:5].any()
    assert not dq[:5].any()
    assert not dk[:3].any()
    check(call)


def test_hidden_keys_are_as_good_as_absent_even_if_enormous():
    call = make_call([6], **NEAR)
    hidden = torch.tensor([0, 0, 0, 0, -math.inf, -math.inf], device=DEVICE)
    padded = relative_attention(**call | {"key_bias": hidden}, backend="triton")
    call["k"][4:], call["v"][4:] = 1e30, 1e30
    assert torch.equal(relative_attention(**call | {"key_bias": hidden}, backend="triton"), padded)


def test_slices_of_a_fused_projection_are_read_in_place():
    fused = randn(140, 3, 2, 32).float().requires_grad_()
    table = randn(8, 2).float()
    call = {"bias": table, "max_distance": 20, "scale": 0.2}
    out = relative_attention(*fused.unbind(1), **call, backend="triton")
    expected = relative_attention(*fused.unbind(1), **call, backend="eager")
    assert relative_error(out, expected) < 1e-5
    (gradient,) = torch.autograd.grad(out.sum(), fused)  # of an expanded tensor, stride 0
    (expected,) = torch.autograd.grad(expected.sum(), fused)
    assert relative_error(gradient, expected) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_biases_may_have_dtypes_of_their_own(dtype):
    call = make_call([40], key_bias="adds", **NEAR)
    call |= {x: call[x].to(dtype) for x in ("bias", "key_bias")}
    out, *gradients = outputs(call)
    assert (out.dtype, *(x.dtype for x in gradients[3:])) == (torch.float32, dtype, dtype)
    exact = outputs(call | {x: call[x].float() for x in ("bias", "key_bias")})
    for one, other in zip((out, *gradients), exact, strict=True):
        assert relative_error(one, other.to(one.dtype)) < 1e-6


def test_a_sequence_does_not_depend_on_its_batch_mates():
    lengths = [70, 9, 1]
    together = outputs(call := make_call(lengths, **NEAR))
    weight = output_weight(call).split(lengths)
    qkv = [call[x].split(lengths) for x in "qkv"]
    for i, length in enumerate(lengths):
        alone = {x: parts[i].detach().requires_grad_() for x, parts in zip("qkv", qkv, strict=True)}
        lengths_alone = {"q_lengths": [length], "k_lengths": [length]}
        out = relative_attention(**call | alone | lengths_alone, backend="triton")
        gradients = torch.autograd.grad(out, list(alone.values()), weight[i])
        for a, b in zip((out, *gradients), together, strict=False):
            assert torch.equal(a, b.split(lengths)[i])


def test_no_tokens_give_no_tokens():
    q = torch.zeros(0, 2, 16, device=DEVICE, requires_grad=True)
    out = relative_attention(q, q, q, bias=torch.zeros(32, 2, device=DEVICE), backend="triton")
    assert out.shape == (0, 2, 16)
    assert torch.autograd.grad(out.sum(), q)[0].shape == (0, 2, 16)


@pytest.mark.parametrize("spread", [None, 30])
def test_results_repeat_bit_for_bit(spread):
    size = {"q_lengths": [2000, 1000], "heads": 12} if ON_GPU else {"q_lengths": [90], "heads": 1}
    call = make_call(**size, key_bias="adds", spread=spread, **NEAR)
    once = outputs(call)
    for _ in range(5 if ON_GPU else 1):
        assert all(map(torch.equal, outputs(call), once))


@pytest.mark.parametrize("options", [{}, NEAR | {"key_bias": "adds", "spread": 9}])
def test_torch_accepts_the_op(options):
    from foveate.ops.relative_attention.triton import backward_op, forward_op

    call = make_call([30, 2], [9, 5], **options)
    qkv = [call[x] for x in "qkv"]
    names = ("bias", "key_bias", "q_positions", "k_positions", "q_lengths", "k_lengths")
    rest = [*(call.get(x) for x in names), False, call.get("max_distance", 128), 0.25]
    torch.library.opcheck(forward_op, (*qkv, *rest))
    out, lse = forward_op(*qkv, *rest)
    torch.library.opcheck(backward_op, (output_weight(call), out, lse, *qkv, *rest, True, True))


def test_compiles_without_graph_breaks():
    call = make_call([50, 20], key_bias="adds", **NEAR)
    leaves = {x: call[x].requires_grad_() for x in LEAVES}

    def layer(q, **rest):
        return relative_attention(q * 2, **rest, backend="triton") * 3

    compiled = torch.compile(layer, fullgraph=True, backend="inductor" if ON_GPU else "aot_eager")
    actual = torch.autograd.grad(compiled(**call), list(leaves.values()), output_weight(call))
    expected = torch.autograd.grad(layer(**call), list(leaves.values()), output_weight(call))
    for a, b in zip(actual, expected, strict=True):
        assert relative_error(a, b) < 1e-5


def test_checkpointing_changes_nothing():
    call = make_call([50, 20], **NEAR)
    leaves = {x: call[x].requires_grad_() for x in LEAVES if call[x] is not None}
    out = torch.utils.checkpoint.checkpoint(
        relative_attention, **call, backend="triton", use_reentrant=False
    )
    actual = torch.autograd.grad(out, list(leaves.values()), output_weight(call))
    assert all(map(torch.equal, actual, outputs(call)[1:]))


@gpu
def test_graphs_capture_forward_and_backward():
    call = make_call([500, 300], dtype=torch.bfloat16, num_buckets=32)
    leaves = [call[x].requires_grad_() for x in LEAVES if call[x] is not None]
    weight = output_weight(call)

    def step(call):
        out = relative_attention(**call)
        return out, *torch.autograd.grad(out, [call[x] for x in ("q", "k", "v", "bias")], weight)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        copies = {x: call[x].detach().clone().requires_grad_() for x in ("q", "k", "v", "bias")}
        step(call | copies)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        captured = step(call)
    with torch.no_grad():
        for x in leaves:
            x.copy_(torch.randn_like(x) / 2)
    graph.replay()
    torch.cuda.synchronize()
    copies = {x: call[x].detach().clone().requires_grad_() for x in ("q", "k", "v", "bias")}
    assert all(map(torch.equal, captured, step(call | copies)))


@gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_nothing_waits_for_the_device():
    call = make_call([500, 300], dtype=torch.bfloat16, num_buckets=32, key_bias="adds")
    outputs(call)
    leaves = {x: call[x].detach().requires_grad_() for x in LEAVES}
    weight = output_weight(call)
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = relative_attention(
            **call | leaves | {"q_lengths": [501, 299], "k_lengths": [400] * 2}
        )
        torch.autograd.grad(out, list(leaves.values()), weight)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@gpu
def test_memory_is_the_outputs_and_two_floats_per_row_and_head():
    n, heads, head_dim = 1 << 15, 12, 64
    call = make_call([n], dtype=torch.bfloat16, heads=heads, head_dim=head_dim, num_buckets=32)
    leaves = {x: call[x].requires_grad_() for x in LEAVES if call[x] is not None}
    weight = output_weight(call)
    relative_attention(**call)
    output, slack = n * heads * head_dim * 2, 1 << 20
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = relative_attention(**call)
    assert torch.cuda.max_memory_allocated() - before <= output + 4 * n * heads + slack
    torch.autograd.grad(out, list(leaves.values()), weight)
    by_tile = n // 64 * heads * 2 * 32 * 4  # sums for the gradients of 32 biases, on both sides
    extra = torch.cuda.max_memory_allocated() - before
    assert extra <= 4 * output + 2 * 4 * n * heads + by_tile + slack


@gpu
def test_offsets_beyond_32_bits():
    n = 1 << 20
    fused = torch.zeros(n, 3, 16, 64, device="cuda", dtype=torch.bfloat16)
    fused[-300:] = torch.randn_like(fused[-300:])
    fused.requires_grad_()
    q, k, v = fused.unbind(1)
    out = relative_attention(q, k, v, q_lengths=[8] * ((n - 304) // 8) + [304])[-300:]
    short = [x[-304:].detach().double().requires_grad_() for x in (q, k, v)]
    expected = relative_attention(*short, backend="reference")[-300:]
    assert relative_error(out, expected) < TOLERANCE[torch.bfloat16]
    weight = torch.randn_like(out)
    (gradient,) = torch.autograd.grad(out, fused, weight)
    truth = torch.autograd.grad(expected, short, weight.double())
    assert relative_error(gradient[-304:], torch.stack(truth, 1)) < TOLERANCE[torch.bfloat16]


@gpu
def test_autocast_on_the_gpu():
    call = make_call([70], **NEAR)
    leaves = {x: call[x].requires_grad_() for x in "qkv"}
    with torch.autocast("cuda", torch.bfloat16):
        out = relative_attention(**call)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out, list(leaves.values()), output_weight(call).bfloat16())
    assert all(x.dtype == torch.float32 for x in gradients)
