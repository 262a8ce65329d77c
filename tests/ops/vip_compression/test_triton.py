"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.models.speed_ups.cuda_graphs import capture
from foveate.models.vcc import VccT5Config, VccT5EncoderModel
from foveate.ops.relative_attention import bias_by_distance, relative_attention
from foveate.ops.vip_compression import (
    CompressionLayout,
    SegmentTree,
    compress,
    update,
    vip_scores,
)
from tests.devices import DEVICE, ON_GPU, gpu_or_interpreter, small_card  # noqa: F401
from tests.numerics import TOLERANCE, relative_error
from tests.synchronization import replace_graphs

pytestmark = gpu_or_interpreter

HEADS, WIDTH = 2, 24
BUDGETS = [[(4, 0)], [(4, 2)], [(3, 100)], [(8, 2), (4, 1)], [(12, 3), (4, 4), (2, 3)]]

sequences = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([0, 1, 8, 30, 150])), min_size=1, max_size=3
)


def batch(sizes, seed, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    marks = [torch.randperm(count + others, generator=g) < count for count, others in sizes]
    lengths = [len(mark) for mark in marks]
    hidden_states = torch.randn(sum(lengths), WIDTH, generator=g)
    return hidden_states.to(DEVICE, dtype), torch.cat(marks).to(DEVICE), lengths


def weights(seed, dtype):
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(3, WIDTH, WIDTH, generator=g) / WIDTH**0.5).to(DEVICE, dtype)
    table = torch.randn(32, HEADS, generator=g).to(DEVICE, dtype)
    return [x.requires_grad_() for x in (q, k, v, table)]


def heads(x):
    return x.unflatten(-1, (HEADS, -1))


def scores(backend, vips, layout, q, k, table, candidates, biased=True):
    bias = bias_by_distance(table, 16, bidirectional=True) if biased else None
    keys = heads(candidates.means.to(vips.dtype) @ k)
    return vip_scores(
        *(heads(vips @ q), keys, layout, candidates), bias=bias, scale=0.7, backend=backend
    )


@given(sequences, st.sampled_from([(4, 2), (2, 3)]), st.booleans(), st.integers(0, 99))
@settings(max_examples=5)
def test_scores_equal_those_of_torch(sizes, pair, biased, seed):
    check_scores(sizes, pair, biased, seed)


@pytest.mark.usefixtures("small_card")
def test_sizes_of_a_smaller_card():
    check_scores([(40, 150)], (4, 2), True, 0)


def check_scores(sizes, pair, biased, seed):
    hidden_states, vip, lengths = batch(sizes, seed)
    layout = CompressionLayout.from_mask(vip, lengths, [pair])
    vips, tokens = layout.separate(hidden_states)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    results = []
    for backend in ("eager", "triton"):
        q, k, _, table = inputs = weights(seed, torch.float32)
        seen = []

        def score(candidates, backend=backend, q=q, k=k, table=table, seen=seen):
            level_scores = scores(backend, vips, layout, q, k, table, candidates, biased)
            seen.append(level_scores)
            return level_scores

        compress(vips, tree, layout, score, backend="eager")
        weight = torch.randn(len(seen[0]), generator=torch.Generator().manual_seed(1)).to(DEVICE)
        wanted = [inputs[i] for i in ((0, 1, 3) if biased else (0, 1))]
        results.append((seen[0], *torch.autograd.grad((seen[0] * weight).sum(), wanted)))
    for expected, actual in zip(*results, strict=True):
        if expected.norm() > 1e-4:  # a lone candidate has the score 1, whatever it is
            assert relative_error(actual, expected) < TOLERANCE[torch.float32]
        else:
            assert actual.norm() < 1e-3


def run(backend, sizes, budgets, seed, dtype):
    """Two layers that see what is chosen at random, their results and all gradients."""
    hidden_states, vip, lengths = batch(sizes, seed, dtype)
    hidden_states.requires_grad_()
    layout = CompressionLayout.from_mask(vip, lengths, budgets)
    vips, tokens = layout.separate(hidden_states)
    tree, seen = SegmentTree.from_tokens(tokens, layout.token_counts, backend=backend), []
    g = torch.Generator().manual_seed(seed)
    q, *_ = weights(seed, dtype)
    given_scores = []
    for _ in range(2):

        def score(candidates):
            random = torch.rand(len(candidates.means), generator=g).to(DEVICE)
            given_scores.append(random.requires_grad_())
            return random + 0 * candidates.means.sum(1)

        here = compress(vips, tree, layout, score, backend=backend)
        seen.append(here)
        vips, tree = update(here, torch.tanh(here.hidden_states @ q))
    out = layout.combine(vips, tree.to_tokens(vips.dtype, backend=backend))
    weight = torch.randn(out.shape, generator=g).to(DEVICE)
    wanted = [hidden_states, q, *given_scores]
    gradients = torch.autograd.grad((out * weight).sum(), wanted, allow_unused=True)
    return out, seen, gradients


@given(sequences, st.sampled_from(BUDGETS), st.integers(0, 99))
@settings(max_examples=8 if ON_GPU else 4)
def test_layers_equal_those_of_torch(sizes, budgets, seed):
    out, seen, gradients = run("triton", sizes, budgets, seed, torch.float32)
    expected, wanted, of_torch = run("eager", sizes, budgets, seed, torch.float32)
    assert relative_error(out, expected) < TOLERANCE[torch.float32]
    for ours, theirs in zip(seen, wanted, strict=True):
        assert relative_error(ours.hidden_states, theirs.hidden_states) < TOLERANCE[torch.float32]
        assert torch.equal(ours.positions, theirs.positions)
        assert torch.equal(ours.multiplicity, theirs.multiplicity)
        for a, b in zip(ours.splits, theirs.splits, strict=True):
            assert torch.equal(a.chosen, b.chosen)
            assert torch.equal(a.segments, b.segments)
    for ours, theirs in zip(gradients, of_torch, strict=True):
        if theirs is None or not theirs.norm():
            assert ours is None or not ours.norm()
        else:  # a score's own gradient is what is left of terms that nearly cancel
            assert (ours - theirs).norm() < 1e-4 * max(theirs.norm(), 0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_in_half_precision(dtype):
    sizes = [(3, 70), (1, 20)]
    out, _, gradients = run("triton", sizes, [(8, 2), (4, 1)], 0, dtype)
    expected, _, of_torch = run("eager", sizes, [(8, 2), (4, 1)], 0, dtype)
    for ours, theirs in zip((out, *gradients), (expected, *of_torch), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs.norm():
            assert relative_error(ours, theirs) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_in_half_precision(dtype):
    hidden_states, vip, lengths = batch([(5, 300), (70, 20)], 0, dtype)
    layout = CompressionLayout.from_mask(vip, lengths, [(2, 3)])
    vips, tokens = layout.separate(hidden_states)
    tree, backend_scores = SegmentTree.from_tokens(tokens, layout.token_counts), []
    for backend in ("eager", "triton"):
        inputs = weights(0, dtype)

        def score(candidates, backend=backend, inputs=inputs):
            q, k, _, table = inputs
            backend_scores.append(scores(backend, vips, layout, q, k, table, candidates))
            return backend_scores[-1]

        compress(vips, tree, layout, score, backend="eager")
    assert relative_error(backend_scores[1], backend_scores[0]) < TOLERANCE[torch.float32]


def scored_layer(backend, hidden_states, layout, real=slice(None)):
    """All steps together, as models take them: the outputs of real tokens, and all gradients."""
    x = hidden_states.clone().requires_grad_()
    q, k, v, table = inputs = weights(0, torch.float32)
    vips, tokens = layout.separate(x)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts, backend=backend)
    score = partial(scores, backend, vips, layout, q, k, table)
    seen = compress(vips, tree, layout, score, backend=backend)
    attended = relative_attention(
        *(heads(seen.hidden_states @ weight) for weight in (q, k, v)),
        q_lengths=seen.lengths,
        key_bias=seen.key_bias,
        backend=backend,
    )
    vips, tree = update(seen, torch.tanh(seen.hidden_states + attended.flatten(1)))
    out = layout.combine(vips, tree.to_tokens(backend=backend))[real]
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    d_x, *others = torch.autograd.grad((out * weight).sum(), (x, *inputs))
    return out, d_x[real], *others


@pytest.mark.parametrize("slots", [None, 12])
def test_a_layer_that_scores_what_it_sees(slots):
    hidden_states, vip, lengths = batch([(3, 90)], 0)
    layout = CompressionLayout.from_mask(vip, lengths, [(8, 3)], slots)
    results = [scored_layer(backend, hidden_states, layout) for backend in ("eager", "triton")]
    for expected, actual in zip(*results, strict=True):
        assert relative_error(actual, expected) < 1e-4


def test_segments_without_tokens_change_nothing():
    """Among so many candidates that a program sees none that is real."""
    hidden_states, vip, lengths = batch([(3, 40)], 0)
    size, budgets = 264, [(2, 3)]
    rows = torch.full((size, WIDTH), torch.nan, device=DEVICE)
    rows[: lengths[0]] = hidden_states
    is_real = torch.arange(size, device=DEVICE) < lengths[0]
    marks = torch.zeros_like(is_real)
    marks[: lengths[0]] = vip
    padded = CompressionLayout.from_mask(marks, [size], budgets, vip_counts=(3,), is_real=is_real)
    alone = CompressionLayout.from_mask(vip, lengths, budgets)
    wanted = scored_layer("eager", hidden_states, alone)
    for expected, actual in zip(wanted, scored_layer("triton", rows, padded, is_real), strict=True):
        assert (actual - expected).norm() < 1e-4 * expected.norm().clamp(min=0.1)


def test_a_captured_encoder_waits_for_nothing(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    monkeypatch.setattr("foveate.ops._triton.math.SMALLEST_BUCKET", 32)  # for the interpreter
    graphs = replace_graphs(monkeypatch)
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 16, "d_ff": 24, "num_heads": 2}
    config = VccT5Config(
        **sizes,
        num_layers=2,
        segment_size=16,
        num_segment_layers=1,
        budgets=[[8, 2], [4, 2]],
    )
    model = VccT5EncoderModel(config).eval().to(DEVICE)
    captured = capture(deepcopy(model))
    with torch.no_grad():
        for seed in range(3):  # other tokens are the VIP tokens, and other segments are split
            mask = torch.ones(2, 37, dtype=torch.long, device=DEVICE)
            mask[1, 29:] = 0
            vip_mask = torch.zeros_like(mask)
            vip_mask[0, 7 * seed + 2 : 7 * seed + 5] = vip_mask[1, seed] = 1
            ids = torch.arange(74, device=DEVICE).view(2, 37) * (7 + seed) % 50
            inputs = {"input_ids": ids, "attention_mask": mask, "vip_mask": vip_mask}
            expected, actual = (one(**inputs).last_hidden_state for one in (model, captured))
            assert relative_error(actual, expected) < TOLERANCE[torch.float32]
    assert len(graphs) == 1
