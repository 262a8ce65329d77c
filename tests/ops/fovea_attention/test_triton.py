"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.fovea_attention import COVERAGES, fovea_attention, select_nodes
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter, small_card  # noqa: F401
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def inputs(lengths, dtype, heads=2, head_dim=16, buckets=32):
    generator = torch.Generator().manual_seed(sum(lengths))
    x = torch.randn(4, sum(lengths), heads, head_dim, generator=generator, dtype=torch.float64)
    q, k, v, weight = x.to(DEVICE, dtype)
    bias = torch.randn(buckets, heads, generator=generator, dtype=torch.float64).to(DEVICE)
    return [x.requires_grad_() for x in (q, k, v, bias.float())], weight


def check(lengths, dtype, biased=True, max_distance=128, scale=0.3, **options):
    shape = {name: options.pop(name) for name in ("heads", "head_dim") if name in options}
    (q, k, v, bias), weight = inputs(lengths, dtype, **shape)
    wanted = (q, k, v, bias) if biased else (q, k, v)
    bias = bias if biased else None
    options |= {"max_distance": max_distance, "scale": scale}
    out = fovea_attention(q, k, v, bias=bias, lengths=lengths, backend="triton", **options)
    actual = (out, *torch.autograd.grad(out, wanted, weight))

    wanted = [x.detach().double().cpu().requires_grad_() for x in wanted]
    bias = wanted[3] if biased else None
    dense = fovea_attention(*wanted[:3], bias=bias, lengths=lengths, backend="reference", **options)
    expected = (dense, *torch.autograd.grad(dense, wanted, weight.double().cpu()))
    check_close(actual, expected, dtype)


def check_close(actual, expected, dtype):
    # Where a query sees little, the gradients of queries, keys and biases are small differences of
    # numbers as large as the values' gradient, rounded as these; hence the common norm.
    assert relative_error(actual[0].cpu(), expected[0].cpu()) < TOLERANCE[dtype]
    actual, expected = (torch.cat([x.cpu().double().flatten() for x in some[1:]])
                        for some in (actual, expected))  # fmt: skip
    assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(
    st.lists(st.sampled_from([1, 2, 7, 16, 61, 130]), min_size=1, max_size=2),
    st.sampled_from([12, 16, 24, 100]),
    st.integers(1, 2),
    st.sampled_from(COVERAGES),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=30 if ON_GPU else 5)
def test_ragged_batches_equal_the_reference(
    lengths, block_size, k_neighbours, coverage, stop_level, size_bias, biased
):
    sizes = {"block_size": block_size, "k_neighbours": k_neighbours, "coverage": coverage}
    sizes |= {"size_bias": size_bias, "stop_level": stop_level}
    check(lengths, torch.float32, biased, 20, **sizes)


# On a GPU, each pair is compiled to code of its own; for the interpreter, every second is enough.
@pytest.mark.parametrize(
    ("block_size", "dtype"), [*product([8, 72], DTYPES)][:: 1 if ON_GPU else 2]
)
def test_every_dtype(block_size, dtype):
    check([3 * block_size + 3, 20], dtype, block_size=block_size, k_neighbours=1, heads=1)


@pytest.mark.parametrize("size_bias", [False, True])
def test_last_nodes_that_are_short_and_far(size_bias):
    sizes = {"block_size": 128, "k_neighbours": 1, "size_bias": size_bias}
    check([700, 1, 130], torch.float32, heads=1, **sizes)


def test_levels_that_are_cut_into_tiles_more_than_once():
    lengths = [2100, 400] if ON_GPU else [1100, 200]  # 4 cuts, or 2
    check(lengths, torch.float32, block_size=128, k_neighbours=1, heads=1, head_dim=16)


def test_nodes_meet_no_tile_in_part():
    from foveate.ops.fovea_attention.triton.schedule import ScheduleKey, build_schedule
    from foveate.ops.fovea_attention.triton.tile import TileSizes

    key = ScheduleKey((16_384,), 128, 1, "full", None, 128, 0, TileSizes(64, 64))
    schedule = build_schedule(key, torch.device(DEVICE))
    met_from, met_to = schedule.queries_of_keys.entries[:, 4:].T
    assert len(schedule.queries_of_keys.entries) == len(schedule.keys_of_queries.entries)
    assert (met_from == 0).all()
    assert (met_to == schedule.sizes.keys).all()


@pytest.mark.parametrize("head_dim", [16, 40, 128])
def test_heads_of_any_width(head_dim):
    check([50], torch.float32, block_size=16, k_neighbours=1, heads=1, head_dim=head_dim)


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("k_neighbours", [1, 2, 3])
@pytest.mark.parametrize("stop_level", [None, 1, 3])
def test_all_blocks_nodes_are_selected_at_once(coverage, k_neighbours, stop_level):
    from foveate.ops.fovea_attention.triton.schedule import nodes_by_room, select_all_nodes

    for num_blocks in (1, 2, 3, 6, 17, 40):
        nodes_by_block = [[] for _ in range(num_blocks)]
        nodes = nodes_by_room(num_blocks, k_neighbours, coverage, stop_level)
        blocks = torch.arange(num_blocks)
        nodes = zip(*select_all_nodes(nodes, blocks, num_blocks - 1 - blocks), strict=True)
        for block, level, start, number in nodes:
            nodes_by_block[block].append((int(number), int(level), int(start)))
        selected = select_nodes(num_blocks, k_neighbours, coverage, stop_level)
        for block, nodes in enumerate(selected):
            numbers, *columns = zip(*sorted(nodes_by_block[block]), strict=True)
            assert list(zip(*columns, strict=True)) == [tuple(node) for node in nodes]
            assert -numbers[0] == nodes.index((0, block))


@given(
    st.lists(st.integers(1, 700), min_size=1, max_size=3),
    st.sampled_from([1, 6, 16, 100]),
    st.integers(1, 3),
    st.sampled_from(COVERAGES),
    st.sampled_from([None, 1, 3]),
)
@settings(max_examples=20 if ON_GPU else 8)
def test_the_number_of_windows_is_known_beforehand(
    lengths, block_size, k_neighbours, coverage, stop_level
):
    from foveate.ops.fovea_attention.triton.schedule import (
        ScheduleKey,
        build_schedule,
        num_windows,
    )
    from foveate.ops.fovea_attention.triton.tile import TileSizes

    sizes = TileSizes(64, 64).within(block_size)
    key = ScheduleKey(tuple(lengths), block_size, k_neighbours, coverage, stop_level, 128, 0, sizes)
    expected = num_windows(*key[:3], stop_level)
    assert build_schedule(key, torch.device(DEVICE)).level_ends[-1] == expected


def test_slices_of_one_projection_are_read_in_place():
    x = torch.randn(70, 3, 2, 16, device=DEVICE)
    sizes = {"block_size": 16, "k_neighbours": 1, "backend": "triton"}
    sliced = fovea_attention(*x.unbind(1), **sizes)
    copied = fovea_attention(*(part.contiguous() for part in x.unbind(1)), **sizes)
    assert torch.equal(sliced, copied)


def test_documents_do_not_depend_on_their_batch_mates():
    lengths, sizes = [70, 33], {"block_size": 16, "k_neighbours": 1, "backend": "triton"}
    (q, k, v, bias), _ = inputs(lengths, torch.float32)
    together = fovea_attention(q, k, v, bias=bias, lengths=lengths, **sizes)
    alone = fovea_attention(q[70:], k[70:], v[70:], bias=bias, **sizes)
    assert torch.equal(together[70:], alone)


@gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_batches_equal_the_eager_backend(dtype):
    lengths = [3000, 1, 777]
    (q, k, v, bias), weight = inputs(lengths, dtype, heads=3, head_dim=64)
    sizes = {"block_size": 128, "k_neighbours": 1, "scale": 0.125, "lengths": lengths}
    out = fovea_attention(q, k, v, bias=bias, **sizes)
    actual = (out, *torch.autograd.grad(out, (q, k, v, bias), weight))
    wanted = [x.detach().double().requires_grad_() for x in (q, k, v, bias)]
    truth = fovea_attention(*wanted[:3], bias=wanted[3], backend="eager", **sizes)
    expected = (truth, *torch.autograd.grad(truth, wanted, weight.double()))
    check_close(actual, expected, dtype)


@gpu
def test_results_repeat_bit_for_bit_and_compile():
    (q, k, v, bias), weight = inputs([500], torch.bfloat16, heads=12, head_dim=64)

    def step(q, k, v, bias):
        out = fovea_attention(q, k, v, bias=bias, block_size=32, k_neighbours=1)
        return out, *torch.autograd.grad(out, (q, k, v, bias), weight)

    once = step(q, k, v, bias)
    for a, b in zip(step(q, k, v, bias), once, strict=True):
        assert torch.equal(a, b)
    compiled = torch.compile(
        lambda *x: fovea_attention(*x[:3], bias=x[3], block_size=32, k_neighbours=1),
        fullgraph=True,
    )
    assert torch.equal(compiled(q, k, v, bias), once[0])


@pytest.mark.usefixtures("small_card")
def test_sizes_of_a_smaller_card():
    check([220, 20], torch.float32, block_size=72, k_neighbours=1, heads=1)
