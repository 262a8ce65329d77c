"""Against the matrices S and S⁺ of the paper, and what they promise."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from foveate.ops.relative_attention import bias_by_distance, buckets, relative_attention
from foveate.ops.vip_compression import (
    CompressionLayout,
    SegmentTree,
    compress,
    count_vips,
    update,
    vip_scores,
)
from foveate.ops.vip_compression.reference import (
    Component,
    compressed_layer,
    compression_matrix,
    select,
    token_scores,
)
from tests.numerics import TOLERANCE, relative_error

WIDTH, HEADS = 6, 2
BUDGETS = [[(4, 0)], [(4, 2)], [(3, 100)], [(8, 2), (4, 1)], [(12, 3), (4, 4), (2, 3)]]

sequences = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([0, 1, 3, 8, 17, 30])), min_size=1, max_size=3
)
budgets = st.sampled_from(BUDGETS)
seeds = st.integers(0, 1000)


class Toy:
    """A layer: attention with T5's biases, then a function of each token."""

    def __init__(self, seed=0, dtype=torch.float64):
        g = torch.Generator().manual_seed(seed)
        self.q, self.k, self.v = torch.randn(3, WIDTH, WIDTH, generator=g, dtype=torch.float64)
        self.table = torch.randn(32, HEADS, generator=g, dtype=torch.float64)
        for name in ("q", "k", "v", "table"):
            setattr(self, name, getattr(self, name).to(dtype).requires_grad_())

    @property
    def weights(self):
        return self.q, self.k, self.v, self.table

    def heads(self, hidden_states, weight):
        return (hidden_states @ weight).unflatten(-1, (HEADS, -1))

    def __call__(self, hidden_states, lengths, positions, key_bias):
        q, k, v = (self.heads(hidden_states, weight) for weight in (self.q, self.k, self.v))
        out = relative_attention(
            *(q, k, v),
            bias=self.table,
            q_positions=positions,
            k_positions=positions,
            q_lengths=lengths,
            key_bias=key_bias,
        )
        return torch.tanh(hidden_states + out.flatten(1))

    def scores(self, vips, layout, candidates):
        by_distance = bias_by_distance(self.table, 128, bidirectional=True)
        q = self.heads(vips, self.q)
        k = self.heads(candidates.means.to(vips.dtype), self.k)
        return vip_scores(q, k, layout, candidates, bias=by_distance)


def batch(sizes, seed):
    """Packed hidden states, random VIP tokens, and the lengths."""
    g = torch.Generator().manual_seed(seed)
    marks = [torch.randperm(count + others, generator=g) < count for count, others in sizes]
    lengths = [len(mark) for mark in marks]
    hidden_states = torch.randn(sum(lengths), WIDTH, generator=g, dtype=torch.float64)
    return hidden_states, torch.cat(marks), lengths


def run(layers, hidden_states, layout):
    """All layers, compressed; and what each compressed to."""
    vips, tokens = layout.separate(hidden_states)
    tree, seen = SegmentTree.from_tokens(tokens, layout.token_counts), []
    for layer in layers:
        here = compress(vips, tree, layout, partial(layer.scores, vips, layout))
        seen.append(here)
        vips, tree = update(
            here, layer(here.hidden_states, here.lengths, here.positions, here.key_bias)
        )
    return layout.combine(vips, tree.to_tokens()), seen


def expected(layers, hidden_states, vip, lengths, budgets, chosen=None):
    """The same for each sequence alone, by matrices.

    In an empty list `chosen`, it leaves what each layer chooses and the shares of segments; from
    then on, these are constants.
    """
    results, chosen = [], [] if chosen is None else chosen
    recorded = iter([*chosen])
    for x, mark in zip(hidden_states.split(lengths), vip.split(lengths), strict=True):
        positions = torch.arange(len(x))
        p, c = x[mark], x[~mark]
        vip_positions, c_positions = positions[mark], positions[~mark]
        for layer in layers:
            choice = select_components(layer, p, c, vip_positions, c_positions, budgets)
            components, shares = choice
            components, stopped = next(recorded, choice)
            stopped = {size: some.detach() for size, some in stopped.items()}
            chosen.append((components, stopped))
            scores = token_scores(components, shares, stopped, budgets)

            def attend(hidden_states, positions, multiplicity, layer=layer):
                return layer(
                    hidden_states, (len(hidden_states),), positions, multiplicity.double().log()
                )

            p, c = compressed_layer(attend, p, c, vip_positions, c_positions, components, scores)
        result = torch.empty_like(x)
        result[mark], result[~mark] = p, c
        results.append(result)
    return torch.cat(results)


def select_components(layer, p, c, vip_positions, c_positions, budgets):
    """Select by attention over all segments that are candidates at a level.

    Returns:
        The components, and for each resolution the attention to all segments.
    """
    if not len(c):
        return [], {}
    scores, current = {}, list(range(-(-len(c) // budgets[0][0])))
    for level, (resolution, _) in enumerate(budgets):
        everything = [Component(resolution, i) for i in range(-(-len(c) // resolution))]
        s, inverse = compression_matrix(everything, len(c))
        scores[resolution] = torch.full((len(everything),), -torch.inf, dtype=torch.float64)
        if not current:
            continue
        means = (inverse.T @ c_positions.double() / inverse.sum(0)).round().long()
        q, k = layer.heads(p, layer.q), layer.heads(s @ c, layer.k)
        logits = torch.einsum("phd,chd->hpc", q, k)[..., current]
        distance = means[current][None] - vip_positions[:, None]
        bucket = buckets(distance, 32, 128, bidirectional=True)
        logits = logits + layer.table[bucket].movedim(-1, 0) + inverse.sum(0)[current].log()
        attended = logits.softmax(-1).mean((0, 1))
        scores[resolution] = scores[resolution].index_copy(0, torch.tensor(current), attended)
        finer = budgets[level + 1][0] if level + 1 < len(budgets) else 1
        best = [current[i] for i in attended.topk(min(budgets[level][1], len(current))).indices]
        ratio = resolution // finer
        current = [
            x * ratio + i
            for x in sorted(map(int, best))
            for i in range(ratio)
            if (x * ratio + i) * finer < len(c)
        ]
    return select(scores, len(c), budgets), scores


@given(sequences, budgets, seeds)
def test_layers_equal_the_reference(sizes, budgets, seed):
    hidden_states, vip, lengths = batch(sizes, seed)
    layers = [Toy(0), Toy(1)]
    with torch.no_grad():
        out, _ = run(layers, hidden_states, CompressionLayout.from_mask(vip, lengths, budgets))
        wanted = expected(layers, hidden_states, vip, lengths, budgets)
    assert relative_error(out, wanted) < TOLERANCE[torch.float64]


@given(sequences, budgets, st.sampled_from([None, 1, 4]), st.integers(0, 30), seeds)
def test_padding_at_the_end_of_sequences_changes_nothing(sizes, budgets, slots, extra, seed):
    hidden_states, vip, lengths = batch(sizes, seed)
    counts = count_vips(vip, lengths, slots)
    # A number of slots leaves some free only in sequences that have no other tokens.
    vip_slots = max(counts) + (extra % 3 if slots is None else 0)
    size = max(n + vip_slots - count for n, count in zip(lengths, counts, strict=True)) + extra
    place = torch.arange(size)
    is_real = (place < torch.tensor(lengths)[:, None]).flatten()
    ends = torch.tensor(lengths) + vip_slots - torch.tensor(counts)
    marks = (place < ends[:, None]).flatten() & ~is_real
    rows = torch.full((len(is_real), WIDTH), torch.nan, dtype=torch.float64)
    rows[is_real], rows[marks] = hidden_states, 0
    marks[is_real] = vip
    row_lengths, row_counts = ([n] * len(lengths) for n in (size, vip_slots))
    layouts = (
        CompressionLayout.from_mask(vip, lengths, budgets, slots, vip_counts=counts),
        CompressionLayout.from_mask(
            marks, row_lengths, budgets, slots, vip_counts=row_counts, is_real=is_real
        ),
    )
    layers, found = [Toy(0), Toy(1)], []
    weights = [x for toy in layers for x in toy.weights]
    for x, layout, real in zip((hidden_states, rows), layouts, (slice(None), is_real), strict=True):
        x = x.clone().requires_grad_()
        out = run(layers, x, layout)[0]
        assert out.isfinite().all()
        gradients = torch.autograd.grad(out[real].sin().sum(), [x, *weights])
        found.append([out[real], gradients[0][real], *gradients[1:]])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


@given(sequences, budgets, seeds)
def test_gradients_equal_the_reference(sizes, budgets, seed):
    hidden_states, vip, lengths = batch(sizes, seed)
    layers = [Toy(0), Toy(1)]
    inputs = [hidden_states.requires_grad_(), *(x for toy in layers for x in toy.weights)]
    weight = torch.randn_like(hidden_states)
    layout = CompressionLayout.from_mask(vip, lengths, budgets)
    out, _ = run(layers, hidden_states, layout)
    actual = torch.autograd.grad((out * weight).sum(), inputs)
    wanted = expected(layers, hidden_states, vip, lengths, budgets)
    for a, b in zip(actual, torch.autograd.grad((wanted * weight).sum(), inputs), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("budgets", [[(4, 2)], [(8, 2), (4, 1)]])
def test_gradients_of_the_reference_are_those_of_its_scores(budgets):
    """By finite differences, where what is chosen and what is stopped are constants."""
    hidden_states, vip, lengths = batch([(2, 21)], 0)
    layer, chosen = Toy(0), []
    inputs = [hidden_states.requires_grad_(), *layer.weights]

    def last_layer(x, *weights):
        layer.q, layer.k, layer.v, layer.table = weights
        return expected([layer], x, vip, lengths, budgets, chosen=chosen)

    last_layer(*inputs)
    chosen_once = [*chosen]

    def function(*inputs):
        chosen[:] = chosen_once
        return last_layer(*inputs)

    assert torch.autograd.gradcheck(function, inputs)


def test_what_is_asked_learns_from_what_it_chose_and_did_not_choose():
    """A loss on the VIP tokens of the last layer reaches the scores through attention alone."""
    hidden_states, vip, lengths = batch([(2, 24)], 0)
    layout, toy = CompressionLayout.from_mask(vip, lengths, [(4, 2)]), Toy()
    vips, tokens = layout.separate(hidden_states)
    given_scores = torch.rand(6, dtype=torch.float64).softmax(0).requires_grad_()
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    seen = compress(vips, tree, layout, lambda c: given_scores)
    new_vips, _ = update(seen, toy(seen.hidden_states, seen.lengths, seen.positions, seen.key_bias))
    (grad,) = torch.autograd.grad(new_vips.square().sum(), given_scores)
    assert (grad != 0).all()


@given(st.integers(1, 40), st.integers(0, 6), seeds)
def test_the_matrix_averages_and_its_pseudo_inverse_repeats(length, count, seed):
    """Claim 6.3: Moore-Penrose, one token one component, S⁺ a rescaled transpose."""
    g = torch.Generator().manual_seed(seed)
    scores = {8: torch.rand(5, generator=g), 4: torch.rand(10, generator=g)}
    components = select(scores, length, [(8, count), (4, count // 2)])
    s, inverse = compression_matrix(components, length)
    assert relative_error(inverse, torch.linalg.pinv(s)) < 1e-12
    assert torch.equal((inverse != 0).sum(1), torch.ones(length, dtype=torch.long))
    assert torch.equal(inverse.unique(), torch.tensor([0.0, 1.0] if len(s) > 1 else [1.0]).double())
    assert torch.allclose(inverse, s.T @ torch.diag(1 / s.square().sum(1)))


def test_the_multiplicity_bias_attends_to_repeated_tokens():
    """Claim 6.2 and eq. 50: exp(P(SC)ᵀ) spread by (S⁺)ᵀ, so softmax over S⁺SC."""
    hidden_states, vip, lengths = batch([(3, 21)], 0)
    layout = CompressionLayout.from_mask(vip, lengths, [(4, 2)])
    _, (seen,) = run([Toy()], hidden_states, layout)
    q, k, v = torch.randn(3, len(seen.hidden_states), HEADS, 5, dtype=torch.float64)
    repeated = torch.arange(len(seen.hidden_states)).repeat_interleave(seen.multiplicity)
    assert len(repeated) == 24
    biased = relative_attention(q, k, v, key_bias=seen.key_bias)
    plain = relative_attention(q, k[repeated], v[repeated])
    assert relative_error(biased, plain) < 1e-12


@given(sequences, budgets, seeds)
def test_tokens_are_those_of_the_matrix_before_and_after(sizes, budgets, seed):
    """Claim 6.5: what is read is S·C, and what is written S·C_new."""
    hidden_states, vip, lengths = batch(sizes, seed)
    layout, toy = CompressionLayout.from_mask(vip, lengths, budgets), Toy()
    with torch.no_grad():
        vips, tokens = layout.separate(hidden_states)
        tree = SegmentTree.from_tokens(tokens, layout.token_counts)
        seen = compress(vips, tree, layout, partial(toy.scores, vips, layout))
        assert seen.lengths == layout.lengths
        assert len(seen.hidden_states) == sum(seen.lengths)
        new = torch.randn_like(seen.hidden_states)
        new_vips, tree = update(seen, new)
        out = layout.combine(new_vips, tree.to_tokens())
    at = 0
    split = [some.split(lengths) for some in (hidden_states, out, vip, seen.resolution)]
    for x, y, mark, sizes_seen, length in zip(*split, seen.lengths, strict=True):
        mine = slice(at, at + length)
        at += length
        kept = seen.multiplicity[mine] > 0
        before, after = seen.hidden_states[mine][kept], new[mine][kept]
        sizes_seen = sizes_seen[~mark].tolist()
        index = sorted({(size, place // size) for place, size in enumerate(sizes_seen)})
        components = [Component(*some) for some in sorted(index, key=lambda c: (-c[0], c[1]))]
        s, _ = compression_matrix(components, len(sizes_seen))
        count = int(mark.sum())
        assert relative_error(before, torch.cat([x[mark], s @ x[~mark]])) < 1e-12
        assert relative_error(after, torch.cat([y[mark], s @ y[~mark]])) < 1e-12
        assert seen.multiplicity[mine][kept][count:].tolist() == (s > 0).sum(1).tolist()


def test_tokens_that_are_not_looked_at_move_by_what_their_segment_moves():
    """Claim 6.4: their Δs stay, bit for bit."""
    hidden_states, vip, lengths = batch([(2, 24)], 0)
    layout, toy = CompressionLayout.from_mask(vip, lengths, [(8, 2), (4, 1)]), Toy()
    with torch.no_grad():
        vips, tokens = layout.separate(hidden_states)
        tree = SegmentTree.from_tokens(tokens, layout.token_counts)
        before = [delta.clone() for delta in tree.deltas]
        seen = compress(vips, tree, layout, partial(toy.scores, vips, layout))
        vips, tree = update(seen, torch.randn_like(seen.hidden_states))
    for level, split in enumerate(seen.splits):
        same = (tree.deltas[level] == before[level]).all(2).all(1)
        assert same.nonzero()[:, 0].tolist() == sorted(
            set(range(len(same))) - set(split.segments.tolist())
        )
    moved = layout.combine(vips, tree.to_tokens()) - hidden_states
    for size, index in {(s, i // s) for i, s in enumerate(seen.resolution[~vip].tolist())}:
        segment = moved[~vip][index * size : (index + 1) * size]
        assert torch.allclose(segment, segment[:1].expand_as(segment), atol=1e-14)


def read(tree, level, segments):
    """Rebuild segments of a level from the top (VCC, eq. 16)."""
    path = [segments]
    for delta in reversed(tree.deltas[:level]):
        path.insert(0, path[0] // delta.shape[1])
    values = tree.means[path[0]]
    for delta, parent, segment in zip(tree.deltas, path, path[1:], strict=False):
        values = values - delta[parent, segment % delta.shape[1]]
    return values


@given(sequences, budgets, seeds)
def test_every_segment_can_be_read_from_the_top(sizes, budgets, seed):
    hidden_states, vip, lengths = batch(sizes, seed)
    layout = CompressionLayout.from_mask(vip, lengths, budgets)
    vips, tokens = layout.separate(hidden_states)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    assert relative_error(layout.combine(vips, tree.to_tokens()), hidden_states) < 1e-15
    for level, count in enumerate(layout.token_counts):
        segments = torch.randperm(len(count))
        size = len(tokens) // max(1, len(count))
        means = tokens.view(len(count), size, WIDTH).sum(1) / count.clamp(min=1)[:, None]
        there = count[segments] > 0
        assert relative_error(read(tree, level, segments)[there], means[segments][there]) < 1e-12


def test_bfloat16_tokens_come_back_as_they_were():
    g = torch.Generator().manual_seed(0)
    hidden_states = torch.randn(40, WIDTH, generator=g).bfloat16()
    hidden_states[7] *= 1000  # an outlier in a segment of small tokens
    layout = CompressionLayout.from_mask(None, [40], [(16, 1)])
    vips, tokens = layout.separate(hidden_states)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    back = layout.combine(vips, tree.to_tokens().bfloat16())
    assert relative_error(back[8:], hidden_states[8:]) < 1e-3


def test_scores_get_their_gradient_from_what_moves():
    hidden_states, vip, lengths = batch([(2, 16)], 0)
    layout = CompressionLayout.from_mask(vip, lengths, [(4, 2)])
    vips, tokens = layout.separate(hidden_states)
    scores = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64, requires_grad=True)
    seen = compress(
        vips, SegmentTree.from_tokens(tokens, layout.token_counts), layout, lambda c: scores
    )
    new = torch.randn_like(seen.hidden_states)
    vips, tree = update(seen, new)
    out = layout.combine(vips, tree.to_tokens())[~vip].view(4, 4, WIDTH)
    moved = out.detach() - hidden_states[~vip].view(4, 4, WIDTH)
    weight = torch.randn_like(out)
    (grad,) = torch.autograd.grad((out * weight).sum(), scores)
    wanted = (moved * weight).sum((1, 2)) * torch.tensor([-1, 1, -1, 1])
    assert torch.allclose(grad, wanted)


def test_some_sequences_are_explored():
    hidden_states, vip, lengths = batch([(1, 40)] * 200, 0)
    layout = CompressionLayout.from_mask(vip, lengths, [(4, 1)])
    vips, tokens = layout.separate(hidden_states)
    first = torch.arange(10.0).neg().repeat(200)
    torch.manual_seed(0)
    seen = compress(
        vips,
        SegmentTree.from_tokens(tokens, layout.token_counts),
        layout,
        lambda c: first,
        explore=0.1,
    )
    share = (seen.splits[0].chosen % 10 != 0).double().mean()
    assert 0.04 < share < 0.16


def test_segments_without_tokens_are_not_explored():
    is_real = torch.arange(400) < 41
    layout = CompressionLayout.from_mask(None, [400], [(4, 10)], is_real=is_real)
    vips, tokens = layout.separate(torch.randn(400, WIDTH))
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    seen = compress(vips, tree, layout, lambda c: torch.zeros(100), explore=1.0)
    assert seen.splits[0].chosen.tolist() == list(range(10))


def test_slots_are_filled_as_published():
    vip = torch.tensor([0, 0, 1, 0, 1, 0, 0, 0, 0, 0], dtype=torch.bool)
    layout = CompressionLayout.from_mask(vip, [10], [(4, 1)], num_vip_slots=4)
    assert layout.vip_index.tolist() == [2, 4, 0, 1]
    assert layout.token_index[:6].tolist() == [3, 5, 6, 7, 8, 9]
    assert layout.vip_weights.tolist() == [0.5, 0.5, 0, 0]
    assert layout.segment_biases[0].exp().tolist() == pytest.approx([4, 4])  # as if none lacked
    assert layout.token_counts[0].tolist() == [4, 2]
    assert layout.segment_positions[0].tolist() == [5, 10]


def test_positions_are_rounded_means():
    vip = torch.tensor([1, 0, 0, 1, 0, 0, 0], dtype=torch.bool)
    layout = CompressionLayout.from_mask(vip, [7], [(2, 1)])
    assert layout.vip_positions.tolist() == [0, 3]
    assert layout.segment_positions[0].tolist() == [2, 4, 6]  # 1.5 and 4.5, rounded to even, and 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": []}, "at least one pair"),
        ({"budgets": [(6, 1), (4, 1)]}, "multiple of the next"),
        ({"budgets": [(1, 1)]}, "multiple of the next"),
        ({"budgets": [(4, -1)]}, "must not be negative"),
        ({"lengths": [3, 0]}, "lengths must be at least 1"),
        ({"vip_mask": torch.zeros(3)}, r"vip_mask must be \(3,\) bool"),
        ({"vip_mask": torch.ones(4, dtype=torch.bool)}, r"vip_mask must be \(3,\) bool"),
        (
            {"vip_mask": torch.tensor([True, False, False]), "lengths": [2, 1]},
            "sequence 1 has no VIP",
        ),
        ({"num_vip_slots": 0}, "num_vip_slots must be at least 1"),
    ],
)
def test_errors_say_what_is_wrong(arguments, message):
    given = {"vip_mask": torch.ones(3, dtype=torch.bool), "lengths": [3], "budgets": [(4, 1)]}
    with pytest.raises(ValueError, match=message):
        CompressionLayout.from_mask(**(given | arguments))


class Largest(TorchDispatchMode):
    """The most elements that any tensor has that is computed, in-place operations left out."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not (func._schema.is_mutable or func.is_view):
            outs = out if isinstance(out, (tuple, list)) else [out]
            sizes = [x.numel() for x in outs if isinstance(x, torch.Tensor)]
            self.elements = max([self.elements, *sizes])
        return out


def test_no_layer_passes_over_all_tokens_forward_or_backward():
    """Each costs as much as the tokens it changes."""
    n, num_compressed = 4000, 4000 // 50 + 2 * 50 + 1
    layout, layers = CompressionLayout.from_mask(None, [n], [(50, 2)]), [Toy(0), Toy(1)]
    vips, tokens = layout.separate(torch.randn(n, WIDTH, dtype=torch.float64))
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    with Largest() as forward:
        for layer in layers:
            seen = compress(vips, tree, layout, partial(layer.scores, vips, layout))
            vips, tree = update(seen, torch.tanh(seen.hidden_states @ layer.q))
    last = [vips, tree.means, *tree.deltas]
    grads = [torch.randn_like(x) for x in last]
    with Largest() as backward:
        torch.autograd.grad(last, [layer.q for layer in layers], grads)
    assert max(forward.elements, backward.elements) <= num_compressed * WIDTH
