import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.ops._packed import cpu_kernel
from foveate.ops._packed.validation import check_lengths
from foveate.ops.relative_attention import relative_attention
from foveate.ops.window_attention import GlobalKeysValues, eager, global_attention, window_attention
from foveate.ops.window_attention.validation import check_window
from tests.numerics import TOLERANCE, relative_error
from tests.ops.window_attention.calls import HEADS, calls, prepared, randn

TILES = [7, 600, eager.TILE]


def run(call, backend, dtype=torch.float64):
    """Output and gradients."""
    arguments, leaves = prepared(call, dtype)
    out = window_attention(**arguments, backend=backend)
    weight = randn(*out.shape, seed=5, dtype=dtype)
    gradients = torch.autograd.grad((out * weight).sum(), list(leaves.values()))
    return out, torch.cat([gradient.double().flatten() for gradient in gradients])


@given(calls(), st.sampled_from(list(TOLERANCE)), st.sampled_from(TILES))
def test_every_call_equals_the_reference(call, dtype, tile):
    rounded = {name: call[name].to(dtype).double() for name in "qkv"}
    if call["global_keys_values"] is not None:
        k, v = (x.to(dtype).double() for x in call["global_keys_values"][:2])
        rounded["global_keys_values"] = call["global_keys_values"]._replace(k=k, v=v)
    call = call | rounded
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eager, "TILE", tile)
        patch.setattr(eager, "MASK_TILE", tile)
        arguments, _ = prepared(call, dtype)
        out = window_attention(**arguments, backend="eager")
    assert out.dtype == dtype
    expected = window_attention(**call, backend="reference")
    assert relative_error(out, expected) < max(TOLERANCE[dtype], 1e-12)


@given(calls(), st.sampled_from(TILES))
def test_gradients_equal_the_reference(call, tile):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eager, "TILE", tile)
        patch.setattr(eager, "MASK_TILE", tile)
        actual = run(call, "eager")
    for one, other in zip(actual, run(call, "reference"), strict=True):
        assert relative_error(one, other) < 1e-12


@pytest.mark.parametrize("length", [63, 64, 65, 200, 513])
@pytest.mark.parametrize("window", [(128, 128), (0, 255), (300, 20)])
def test_blocks_of_every_length(length, window):
    q, k, v = randn(3, length + 30, HEADS, 4)
    call = {"q": q, "k": k, "v": v, "window": window, "lengths": [30, length]}
    call |= {"bias": randn(8, HEADS, seed=3), "global_keys_values": None, "masked_keys": None}
    for one, other in zip(run(call, "eager"), run(call, "reference"), strict=True):
        assert relative_error(one, other) < 1e-12


def test_channels_may_have_any_stride():
    q, k, v, global_k, global_v = randn(5, 4, HEADS, 60).transpose(1, 3)
    kv = GlobalKeysValues(global_k[:9], global_v[:9], [4, 5])
    call = {"q": q, "k": k, "v": v, "window": (6, 9), "lengths": [20, 40]}
    call |= {"bias": None, "global_keys_values": kv, "masked_keys": None}
    for one, other in zip(run(call, "eager"), run(call, "reference"), strict=True):
        assert relative_error(one, other) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_every_dtype(dtype):
    qkv = randn(5, 60, HEADS, 8, dtype=dtype).double()
    kv = GlobalKeysValues(
        *qkv[3:, :9], [4, 5], randn(6, HEADS, dtype=dtype).double(), torch.arange(60) // 9
    )
    call = dict(
        zip("qkv", qkv, strict=False), window=(6, 9), lengths=[20, 40], global_keys_values=kv
    )
    call |= {
        "bias": randn(8, HEADS, dtype=dtype).double(),
        "masked_keys": torch.arange(60) % 7 == 0,
    }
    out, gradients = run(call, "eager", dtype)
    expected, expected_gradients = run(call, "reference")
    assert out.dtype == dtype
    assert relative_error(out, expected) < TOLERANCE[dtype]
    assert relative_error(gradients, expected_gradients) < TOLERANCE[dtype]


@given(calls(), st.sampled_from([torch.float64, torch.bfloat16]))
def test_devices_without_a_fused_kernel(call, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_kernel, "_kernel", None)
        actual = run(call, "eager", dtype)
    for one, other in zip(actual, run(call, "eager", dtype), strict=True):
        assert relative_error(one, other) < TOLERANCE[dtype]


def test_a_cpu_runs_as_many_operations_for_any_length():
    """Threads wait for each other after every operation, which takes longer than the operation."""

    def operations(n):
        q, k, v = randn(3, n, HEADS, 8, dtype=torch.float32)
        table = randn(32, HEADS, dtype=torch.float32)
        with torch.profiler.profile() as profile:
            window_attention(q, k, v, (127, 127), bias=table, backend="eager")
        return len(profile.events())

    operations(64)
    assert operations(4096) == operations(1024)


def test_a_window_over_all_tokens_is_relative_attention():
    q, k, v = randn(3, 50, HEADS, 4)
    call = {"bias": randn(32, HEADS), "scale": 1.0}
    out = window_attention(q, k, v, (30, 30), lengths=[30, 20], **call)
    expected = relative_attention(q, k, v, q_lengths=[30, 20], **call)
    assert relative_error(out, expected) < 1e-12


def test_global_keys_alone_are_relative_attention():
    q, k, v = randn(3, 30, HEADS, 4)
    positions = torch.arange(30) // 4
    call = {"bias": randn(8, HEADS), "max_distance": 20}
    kv = GlobalKeysValues(k[:9], v[:9], [6, 3], call["bias"], positions)
    everything = torch.ones(30, dtype=torch.bool)
    out = window_attention(
        *(q, k, v, (2, 2)),
        global_keys_values=kv,
        masked_keys=everything,
        lengths=[20, 10],
        max_distance=20,
    )
    lengths = {"q_lengths": [20, 10], "k_lengths": [6, 3]}
    expected = relative_attention(
        q, k[:9], v[:9], q_positions=positions, scale=0.5, **lengths, **call
    )
    assert relative_error(out, expected) < 1e-12


@given(st.lists(st.integers(1, 20), min_size=2, max_size=4))
def test_a_sequence_does_not_depend_on_its_batch_mates(lengths):
    q, k, v = randn(3, sum(lengths), HEADS, 4)
    together = window_attention(q, k, v, (4, 2), lengths=lengths).split(lengths)
    for sequence, *alone in zip(together, *(x.split(lengths) for x in (q, k, v)), strict=True):
        assert relative_error(sequence, window_attention(*alone, (4, 2))) < 1e-14


def test_masked_keys_are_as_good_as_absent_even_if_enormous():
    q, k, v = randn(3, 20, HEADS, 4)
    masked = torch.arange(20) % 3 == 1
    out = window_attention(q, k, v, (3, 3), masked_keys=masked)
    k, v = k.clone(), v.clone()
    k[masked], v[masked] = 1e30, 1e30
    assert relative_error(window_attention(q, k, v, (3, 3), masked_keys=masked), out) == 0


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = (x.requires_grad_() for x in randn(3, 9, HEADS, 4))
    out = window_attention(q, k, v, (1, 1), masked_keys=torch.ones(9, dtype=torch.bool))
    assert not out.any()
    assert not any(x.any() for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_a_call_repeats_its_bits():
    call = {"q": randn(300, 2, 8), "k": randn(300, 2, 8, seed=1), "v": randn(300, 2, 8, seed=2)}
    call |= {
        "window": (40, 40),
        "global_keys_values": None,
        "masked_keys": None,
        "bias": randn(32, 2),
    }
    assert all(map(torch.equal, run(call, "eager"), run(call, "eager")))


def test_memory_is_linear():
    """The largest allocation of a training step."""

    def largest(n):
        q, k, v = (x.requires_grad_() for x in randn(3, n, HEADS, 4, dtype=torch.float32))
        with torch.profiler.profile(profile_memory=True) as profile:
            window_attention(q, k, v, (64, 64), backend="eager").sum().backward()
        return max(event.cpu_memory_usage for event in profile.events())

    largest(64)
    assert largest(1024) <= 2.5 * largest(512)


def test_no_tokens_give_no_tokens():
    q = torch.zeros(0, 2, 4)
    assert window_attention(q, q, q, (1, 1)).shape == (0, 2, 4)


@pytest.mark.parametrize("gaps", [False, True])
def test_global_tokens_see_everything(gaps):
    q, k, v = randn(3, 12, HEADS, 4)
    masked = torch.arange(12) % 5 == 2 if gaps else None
    places = torch.tensor([0, 3, 9])
    lengths = {"q_lengths": [2, 0, 1], "k_lengths": [6, 2, 4]}
    out = global_attention(q[places], k, v, masked_keys=masked, **lengths)
    expected = window_attention(q, k, v, (12, 12), masked_keys=masked, lengths=lengths["k_lengths"])
    assert relative_error(out, expected[places]) < 1e-12


def test_checks_of_dynamic_sizes_do_not_break_graphs():
    def check(x, size):
        check_window((size, 2))
        return x * size + len(check_lengths("lengths", None, x))

    compiled = torch.compile(check, backend="eager", dynamic=True, fullgraph=True)
    for size in (3, 4):
        x = torch.ones(2 * size, 2, 4)
        assert torch.equal(compiled(x, size), check(x, size))


ROWS = torch.zeros(3, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": torch.zeros(4, 2, 4)}, "must share one shape"),
        ({"v": ROWS.double()}, "must share one floating dtype"),
        ({"window": (-1, 2)}, r"window must be \(left, right\), two integers of which neither"),
        ({"window": 2}, r"window must be \(left, right\), two integers .* got 2"),
        ({"window": (1.5, 1.5)}, r"two integers .* got \(1.5, 1.5\)"),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got a tensor: multiply q by it"),
        ({"bias": torch.zeros(32, 3)}, r"bias must be \(num_buckets, heads\) with 2 heads"),
        ({"lengths": 3}, "lengths must be a sequence of integers, got 3"),
        ({"lengths": [3.0]}, r"lengths must be a sequence of integers, got \(3.0,\)"),
        ({"masked_keys": torch.zeros(3)}, r"masked_keys must be \(3,\) bool"),
        ({"lengths": [2, 2]}, "lengths must be positive and add up to 3 tokens"),
        (
            {"global_keys_values": GlobalKeysValues(ROWS, ROWS[:2], [3])},
            "global_keys_values.k and .v must share one shape",
        ),
        (
            {"global_keys_values": GlobalKeysValues(ROWS.double(), ROWS.double(), [3])},
            "must have the dtype of q",
        ),
        (
            {"global_keys_values": GlobalKeysValues(ROWS, ROWS, [1, 2])},
            "global_keys_values.lengths must be one for each of 1 sequences",
        ),
        ({"global_keys_values": GlobalKeysValues(ROWS, ROWS, [2])}, "add up to 3 tokens"),
        (
            {"global_keys_values": GlobalKeysValues(ROWS, ROWS, [3], torch.zeros(32, 2))},
            "need each other",
        ),
        (
            {"global_keys_values": GlobalKeysValues(ROWS, ROWS, [3], masked=torch.zeros(3))},
            r"global_keys_values.masked must be \(3,\) bool",
        ),
        ({"bias": torch.zeros(3, 2)}, "3 buckets are too few"),
        ({"backend": "cuda"}, "unknown backend"),
    ],
)
def test_inputs_that_do_not_match_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        window_attention(**{"q": ROWS, "k": ROWS, "v": ROWS, "window": (1, 1)} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q_lengths": [2]}, "q_lengths must not be below 0 and add up to 3 tokens"),
        ({"k_lengths": [1, 2]}, "q_lengths has 1 sequences but k_lengths has 2"),
        ({"masked_keys": torch.zeros(3)}, r"masked_keys must be \(3,\) bool"),
        ({"q_lengths": 3}, "q_lengths must be a sequence of integers, got 3"),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got a tensor: multiply q by it"),
        ({"backend": "cuda"}, "unknown backend"),
    ],
)
def test_global_attention_rejects_inputs_that_do_not_match(arguments, message):
    lengths = {"q_lengths": [3], "k_lengths": [3]}
    with pytest.raises(ValueError, match=message):
        global_attention(ROWS, ROWS, ROWS, **lengths | arguments)


@pytest.mark.parametrize(
    ("dtype", "bias_dtype"), [(torch.float64, torch.float32), (torch.float32, torch.float64)]
)
def test_biases_of_another_dtype_get_gradients(dtype, bias_dtype):
    q, k, v = torch.randn(3, 12, 2, 4, dtype=dtype)
    bias = torch.randn(8, 2, dtype=bias_dtype, requires_grad=True)
    kv = GlobalKeysValues(k[:2], v[:2], [2], bias, torch.arange(12) // 6)
    out = window_attention(q, k, v, (2, 2), global_keys_values=kv, max_distance=20)
    (gradient,) = torch.autograd.grad(out.sum() + (out * q).sum(), bias)
    assert gradient.dtype == bias_dtype
    assert torch.isfinite(gradient).all()


def test_a_batch_without_global_tokens_has_nothing_to_attend():
    q, k = torch.randn(0, 2, 4), torch.randn(7, 2, 4)
    assert global_attention(q, k, k, q_lengths=[0, 0], k_lengths=[3, 4]).shape == (0, 2, 4)
