"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LongformerConfig, LongformerModel, LongT5Config, LongT5EncoderModel

from foveate.models.speed_ups import capture, speed_up
from foveate.ops._triton import math
from foveate.ops.window_attention import GlobalKeysValues, window_attention
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter, small_card  # noqa: F401
from tests.numerics import TOLERANCE, relative_error
from tests.ops.window_attention.calls import HEADS, calls, prepared, randn
from tests.profiles import NIGHTLY
from tests.synchronization import replace_graphs, replace_training_graphs

pytestmark = gpu_or_interpreter

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def outputs(call, dtype, backend="triton"):
    """Output and gradients by name."""
    arguments, leaves = prepared(call, dtype, DEVICE)
    out = window_attention(**arguments, backend=backend)
    weight = randn(*out.shape, seed=5, dtype=dtype).to(DEVICE)
    return {"out": out} | dict(
        zip(leaves, torch.autograd.grad(out, list(leaves.values()), weight), strict=True)
    )


def rounded(call, dtype):
    """The call as its tensors are once brought to a dtype, in float64."""
    names = [name for name in ("q", "k", "v", "bias") if call.get(name) is not None]
    call = call | {name: call[name].to(dtype).double() for name in names}
    if (kv := call["global_keys_values"]) is not None:
        tensors = {"k": kv.k, "v": kv.v} | ({} if kv.bias is None else {"bias": kv.bias})
        kv = kv._replace(**{name: x.to(dtype).double() for name, x in tensors.items()})
    return call | {"global_keys_values": kv}


def check(call, dtype):
    call = rounded(call, dtype)
    actual, expected = outputs(call, dtype), outputs(call, torch.float64, "reference")
    assert actual["out"].dtype == dtype
    # Where little but itself is in sight, the gradients of queries and keys are small differences
    # of numbers as large as the values' gradients, rounded as these; hence the common norm.
    size = max(expected[name].norm() for name in ("v", "global_v") if name in expected)
    for name, truth in expected.items():
        assert torch.isfinite(actual[name]).all(), name
        error = (actual[name].double() - truth).norm()
        assert error <= 3 * TOLERANCE[dtype] * max(truth.norm(), size / 2), name


def long_call(lengths=(140, 1, 20), head_dim=16, **rest):
    """A call whose sequences have more tokens than a tile."""
    n = sum(lengths)
    qkv = {name: randn(n, HEADS, head_dim, seed=i) for i, name in enumerate("qkv")}
    call = {
        "window": (40, 30),
        "global_keys_values": None,
        "masked_keys": None,
        "lengths": list(lengths),
    }
    return qkv | call | rest


def long_global(lengths=(140, 1, 20), global_lengths=(70, 0, 5), head_dim=16, biased=True):
    k, v = randn(2, sum(global_lengths), HEADS, head_dim, seed=9)
    positions = torch.cat([torch.arange(n) // 2 for n in lengths])
    bias = (randn(8, HEADS, seed=8), positions) if biased else ()
    return GlobalKeysValues(k, v, list(global_lengths), *bias)


@given(calls(head_dim=16), st.sampled_from(DTYPES))
@settings(max_examples=100 if ON_GPU else 8)
def test_every_call_equals_the_reference(call, dtype):
    check(call, dtype)


@pytest.mark.parametrize("window", [(0, 0), (128, 128), (3, 100)])
@pytest.mark.parametrize("biased", [False, True])
def test_windows_of_several_tiles(window, biased):
    bias = {"bias": randn(8, HEADS, seed=7), "max_distance": 40} if biased else {}
    check(long_call(window=window, **bias), torch.float32)


@pytest.mark.parametrize("biased", [False, True])
def test_global_keys_of_several_tiles(biased):
    masked = torch.arange(161) % 4 == 1
    check(
        long_call(global_keys_values=long_global(biased=biased), masked_keys=masked), torch.float32
    )


@pytest.mark.parametrize("biased", [False, True])
def test_masked_global_keys(biased):
    lengths, global_lengths = (70, 1, 20), (130, 4, 5)
    kv = long_global(lengths, global_lengths, biased=biased)
    masked = torch.arange(139) % 3 == 1
    masked[60:] = True  # a whole tile, and all of the other sequences
    masked_keys = torch.arange(91) >= 71  # so that the last one sees nothing
    kv = kv._replace(masked=masked)
    check(long_call(lengths, global_keys_values=kv, masked_keys=masked_keys), torch.float32)


@pytest.mark.parametrize(("head_dim", "dtype"), [(24, DTYPES[1]), (8, DTYPES[0]), (80, DTYPES[2])])
def test_shapes_of_heads(head_dim, dtype):
    lengths, global_lengths = (70, 20), (5, 3)
    kv = long_global(lengths, global_lengths, head_dim)
    check(long_call(lengths, head_dim, global_keys_values=kv, bias=randn(8, HEADS)), dtype)


def test_every_element_is_written(monkeypatch):
    empty = torch.empty

    def poisoned(*shape, **options):
        x = empty(*shape, **options)
        return x.fill_(torch.nan) if x.is_floating_point() else x.fill_(-7)

    monkeypatch.setattr(torch, "empty", poisoned)
    check(long_call(global_keys_values=long_global(), bias=randn(8, HEADS)), torch.float32)


def test_slices_of_a_fused_projection():
    fused = torch.randn(50, 3, 2, 32, device=DEVICE, requires_grad=True)
    out = window_attention(*fused.unbind(1), (9, 9), backend="triton")
    expected = window_attention(*fused.unbind(1), (9, 9), backend="eager")
    assert relative_error(out, expected) < 1e-5
    (gradient,) = torch.autograd.grad(out.sum(), fused)  # of an expanded tensor, stride 0
    (expected,) = torch.autograd.grad(expected.sum(), fused)
    assert relative_error(gradient, expected) < 1e-5


def test_torch_accepts_the_op():
    from foveate.ops.window_attention.triton import backward_op, forward_op

    call = long_call((20, 9), bias=randn(8, HEADS), global_keys_values=long_global((20, 9), (3, 2)))
    _, leaves = prepared(call, torch.float32, DEVICE)
    names = ("q", "k", "v", "global_k", "global_v", "bias", "global_bias")
    positions = call["global_keys_values"].positions.to(DEVICE)
    key_bias = torch.tensor([0.0, -torch.inf, 0.0, 0.0, 0.0], device=DEVICE)
    options = (positions, key_bias, None, [20, 9], [3, 2], 4, 5, 12, 0.25)
    arguments = (*(leaves[name].detach() for name in names), *options)
    torch.library.opcheck(forward_op, arguments)
    out, lse = forward_op(*arguments)
    torch.library.opcheck(backward_op, (torch.randn_like(out), out, lse, *arguments))


def test_compiles_without_graph_breaks():
    q, k, v = (x.float().to(DEVICE).requires_grad_() for x in randn(3, 30, HEADS, 16))
    weight = torch.randn(30, HEADS, 16, device=DEVICE)

    def layer(q, k, v):
        return window_attention(q * 2, k, v, (5, 5), backend="triton") * 3

    compiled = torch.compile(layer, fullgraph=True, backend="inductor" if ON_GPU else "aot_eager")
    actual = torch.autograd.grad(compiled(q, k, v), (q, k, v), weight)
    expected = torch.autograd.grad(layer(q, k, v), (q, k, v), weight)
    assert relative_error(torch.stack(actual), torch.stack(expected)) < 1e-5


def test_checkpointing_changes_nothing():
    q, k, v = (x.float().to(DEVICE).requires_grad_() for x in randn(3, 30, HEADS, 16))
    weight = torch.randn(30, HEADS, 16, device=DEVICE)

    def attend(q, k, v):
        return window_attention(q, k, v, (5, 5), backend="triton")

    out = torch.utils.checkpoint.checkpoint(attend, q, k, v, use_reentrant=False)
    actual = torch.autograd.grad(out, (q, k, v), weight)
    expected = torch.autograd.grad(attend(q, k, v), (q, k, v), weight)
    assert all(map(torch.equal, actual, expected))


@gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_repeat_bit_for_bit(dtype):
    lengths, global_lengths = (3000, 1, 700), (180, 0, 40)
    kv = long_global(lengths, global_lengths, 64)
    call = long_call(lengths, 64, global_keys_values=kv, bias=randn(32, HEADS), window=(127, 127))
    once = outputs(call, dtype)
    for _ in range(5):
        again = outputs(call, dtype)
        assert all(torch.equal(again[name], once[name]) for name in once)


@gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [(512, 512), (127, 127), (0, 900)])
def test_long_sequences(dtype, window):
    lengths, global_lengths = (2049, 700), (128, 43)
    for extra in ({}, {"bias": randn(32, HEADS)}):
        for biased in (False, True):
            kv = long_global(lengths, global_lengths, 64, biased)
            check(long_call(lengths, 64, global_keys_values=kv, window=window, **extra), dtype)


@gpu
def test_graphs_capture_forward_and_backward():
    q, k, v = (x.bfloat16().cuda().requires_grad_() for x in randn(3, 600, HEADS, 64))
    weight = torch.randn_like(q)
    places = torch.tensor([0, 300], device="cuda")

    def step(q, k, v):
        kv = GlobalKeysValues(k[places], v[places], [2])
        out = window_attention(q, k, v, (64, 64), global_keys_values=kv)
        return out, *torch.autograd.grad(out, (q, k, v), weight)

    def copies():
        return [x.detach().clone().requires_grad_() for x in (q, k, v)]

    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        step(*copies())
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(q, k, v)
    with torch.no_grad():
        q.copy_(torch.randn_like(q))
    graph.replay()
    for a, b in zip(captured, step(*copies()), strict=True):
        assert torch.equal(a, b)


@gpu
def test_memory_is_linear():
    n, heads, head_dim = 65_536, 12, 64
    q, k, v = (
        torch.randn(n, heads, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    output, slack = n * heads * head_dim * 2, 1 << 20
    window_attention(q, k, v, (512, 512))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = window_attention(q, k, v, (512, 512))
    assert torch.cuda.max_memory_allocated() - before <= output + 4 * n * heads + slack
    torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
    assert torch.cuda.max_memory_allocated() - before <= 5 * output + 8 * n * heads + slack


def longformer():
    config = LongformerConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        attention_window=16,
        max_position_embeddings=80,
        pad_token_id=1,
    )
    return LongformerModel(config)


def longt5(kind):
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 1}
    config = LongT5Config(**sizes, num_heads=2, local_radius=7, encoder_attention_type=kind)
    return LongT5EncoderModel(config)


@pytest.mark.parametrize(
    ("name", "trains"),
    [
        ("Longformer", True),
        ("local", False),
        *[("Longformer", False), ("transient-global", True)] * (ON_GPU or NIGHTLY),
    ],
)
def test_one_graph_serves_all_lengths_and_waits_for_nothing(name, trains, monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    monkeypatch.setattr(math, "SMALLEST_BUCKET", 48)
    graphs = (replace_training_graphs if trains else replace_graphs)(monkeypatch)
    torch.manual_seed(0)
    model = longformer() if name == "Longformer" else longt5(name)
    model = speed_up(model).eval().to(DEVICE)
    captured = capture(deepcopy(model))
    for length, padding in ((48, 5), (33, 30), (40, 0)):
        mask = torch.ones(2, length, dtype=torch.long, device=DEVICE)
        mask[1, length - padding :] = 0
        ids = torch.arange(2 * length, device=DEVICE).view(2, length) * (7 + padding) % 48 + 2
        inputs = {"input_ids": ids, "attention_mask": mask}
        if name == "Longformer":
            inputs["global_attention_mask"] = torch.zeros_like(mask)
            inputs["global_attention_mask"][:, padding % 3] = 1
        for one in (model, captured):
            one.zero_grad()
        with torch.set_grad_enabled(trains):
            expected, actual = (
                one(**inputs).last_hidden_state[mask.bool()] for one in (model, captured)
            )
        assert relative_error(actual, expected) < 1e-5
        if trains:
            weight = torch.linspace(-1, 1, actual.numel(), device=DEVICE).view_as(actual)
            (actual * weight).sum().backward()  # the sum of squares would be that of a norm
            (expected * weight).sum().backward()
            for a, b in zip(model.parameters(), captured.parameters(), strict=True):
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    difference = torch.linalg.vector_norm(a.grad - b.grad)
                    assert difference < 1e-4 * (1e-2 + torch.linalg.vector_norm(a.grad))
    assert len(graphs) == 1


@pytest.mark.usefixtures("small_card")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_of_a_smaller_card(dtype):
    check(long_call(global_keys_values=long_global(biased=False)), dtype)
    check(long_call(bias=randn(8, HEADS, seed=3), max_distance=20), dtype)
