"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import random
from copy import deepcopy
from itertools import accumulate, chain, combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.packing import PackedForest
from foveate.models.speed_ups import cuda_graphs
from foveate.models.speed_ups.cuda_graphs import capture, release
from foveate.ops._triton import math
from foveate.ops.tree_attention import EDGES, Tree, tree_attention, tree_attention_qkv
from foveate.ops.tree_attention.reference import tree_attention as reference
from foveate.preprocessing.collate import pad_features
from foveate.preprocessing.tree import passage_columns
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error
from tests.profiles import NIGHTLY
from tests.synchronization import replace_graphs, replace_training_graphs
from tests.tree_bert import tree_bert
from tests.trees import batches, forests

pytestmark = gpu_or_interpreter

EDGE_SETS = list(chain.from_iterable(combinations(EDGES, r) for r in range(4)))
DTYPES = [torch.float32, torch.bfloat16, torch.float16]

# Two large families, one among the other's children; a chain; more lone roots than a tile holds.
STAR = [-1] + [0] * 150 + [3] * 70 + [150] * 5
CHAIN = list(range(-1, 140))
ROOTS = [-1] * 130
FAMILIES = [-1, 0, 0, 1, 1, 2]
DOCUMENT = [-1] + [0] * 3 + [1] * 4 + [2] * 2 + [3] + [4] * 30 + [5] * 20 + [7] * 33 + [10] * 9


def inputs(n, dtype, heads=2, head_dim=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, n, heads, head_dim, generator=generator, dtype=torch.float64)
    q, k, v, weight = x.to(DEVICE, dtype)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), weight


def outputs(parents, q, k, v, weight, edges=EDGES, scale=None):
    """Output and gradients of the kernels."""
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE))
    out = tree_attention(q, k, v, tree, edges=edges, scale=scale, backend="triton")
    return out, *torch.autograd.grad(out, (q, k, v), weight)


def expected_outputs(parents, q, k, v, weight, edges=EDGES, scale=None):
    """The same from the definition in float64."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = reference(q, k, v, torch.tensor(parents, device=DEVICE), edges, scale)
    return out, *torch.autograd.grad(out, (q, k, v), weight.double())


def check(parents, dtype, edges=EDGES, scale=None, **shape):
    arguments = (parents, *inputs(len(parents), dtype, **shape), edges, scale)
    actual, expected = outputs(*arguments), expected_outputs(*arguments)
    # Where little but itself is in sight, the gradients of queries and keys are small differences
    # of numbers as large as the values' gradient, rounded as these; hence the common norm.
    size = torch.stack(expected[1:]).norm()
    assert actual[0].dtype == dtype
    assert relative_error(actual[0], expected[0]) < TOLERANCE[dtype]
    for gradient, truth in zip(actual[1:], expected[1:], strict=True):
        assert torch.isfinite(gradient).all()
        assert (gradient - truth).norm() < TOLERANCE[dtype] * max(truth.norm(), 0.3 * size)


@given(forests(), st.sampled_from(EDGE_SETS), st.sampled_from(DTYPES))
@settings(max_examples=60 if ON_GPU else 20)
def test_every_forest_equals_the_reference(parents, edges, dtype):
    check(parents, dtype, edges)


@pytest.mark.parametrize("edges", EDGE_SETS)
def test_families_larger_than_a_tile(edges):
    check(STAR, torch.float32, edges, heads=2 if ON_GPU else 1)


@pytest.mark.parametrize("parents", [STAR, CHAIN, ROOTS, DOCUMENT])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_shapes_of_forests(parents, dtype):
    check(parents, dtype, heads=2 if ON_GPU else 1)


HEADS = [(1, 64), (3, 24), (2, 80), (1, 128), (1, 8)]


# On a GPU, each pair is compiled to code of its own; for the interpreter, every second is enough.
@pytest.mark.parametrize(("shape", "dtype"), [*product(HEADS, DTYPES)][:: 1 if ON_GPU else 2])
def test_shapes_of_heads(shape, dtype):
    heads, head_dim = shape
    check(DOCUMENT, dtype, heads=heads, head_dim=head_dim)
    if ON_GPU:
        check(STAR, dtype, heads=heads, head_dim=head_dim)


def tree_of_many_chunks(seed, reach=60):
    """A deep tree, the families of which begin and end anywhere in the chunks of nodes."""
    rng = random.Random(seed)
    return [-1] + [rng.randrange(max(0, i - reach), i) for i in range(1, 900)]


@pytest.mark.parametrize("reach", [1, 3, 60, 900])
def test_every_node_is_a_child_in_one_tile(reach):
    tree = Tree.from_parents(torch.tensor(tree_of_many_chunks(0, reach), device=DEVICE))
    tiles = tree.in_level_order.tiles
    closed, large, inner, _ = tiles.counts
    used = torch.cat([tiles.members[:closed], tiles.members[tiles.capacity - large :]])
    members, roles = used.unbind(1)
    real = members >= 0
    children = members[real & (roles % 2 == 0)]
    assert children.sort().values.tolist() == list(range(900))
    parents = members[real & (roles % 2 == 1)]
    has_children = tree.num_children.nonzero()[:, 0]
    assert parents.unique().tolist() == has_children.tolist()
    assert large or len(parents) == len(has_children)
    assert tiles.lists[0, :inner].unique().numel() == inner


@pytest.mark.parametrize("dtype", DTYPES[: 2 if ON_GPU else 1])
def test_forests_of_many_chunks(dtype):
    check(tree_of_many_chunks(1), dtype, heads=1)


@pytest.mark.parametrize("scale", [0.0, -0.5, 3.0])
def test_any_scale(scale):
    check(DOCUMENT, torch.float32, scale=scale)


@pytest.mark.parametrize("parents", [STAR, DOCUMENT])
def test_every_element_is_written(monkeypatch, parents):
    empty = torch.empty

    def poisoned(*shape, **options):
        x = empty(*shape, **options)
        return x.fill_(torch.nan) if x.is_floating_point() else x.fill_(-7)

    monkeypatch.setattr(torch, "empty", poisoned)
    check(parents, torch.float32)


def test_slices_of_a_fused_projection_and_nodes_in_any_order():
    parents = [-1, 0, 1, 1, 0, 4, 4, 4, 0, 8]
    fused = torch.randn(10, 3, 2, 32, device=DEVICE, requires_grad=True)
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE))
    assert tree.order is not None
    expected = tree_attention(*fused.unbind(1), tree, backend="eager")
    (expected_gradient,) = torch.autograd.grad(expected.sum(), fused)
    for out in (
        tree_attention(*fused.unbind(1), tree, backend="triton"),
        tree_attention_qkv(fused, tree, backend="triton"),
    ):
        assert relative_error(out, expected) < 1e-5
        (gradient,) = torch.autograd.grad(out.sum(), fused)  # of an expanded tensor, stride 0
        assert relative_error(gradient, expected_gradient) < 1e-5
    with torch.no_grad():
        assert torch.equal(tree_attention_qkv(fused, tree, backend="triton"), out)


@given(forests(max_nodes=150))
@settings(max_examples=20 if ON_GPU else 8)
def test_tiles_hold_whole_families_and_every_node_once_as_a_child(parents):
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order
    tiles = tree.tiles
    closed, large, *_ = tiles.counts
    assert large == 0 or tree.largest_family >= 64
    assert closed + large <= tiles.capacity
    used = [*range(closed), *range(tiles.capacity - large, tiles.capacity)]
    members, role = tiles.members[used].long().unbind(1)
    family, parent, real = role >> 2, (role & 1) == 1, members >= 0
    children = members[real & ~parent]
    assert children.sort().values.tolist() == list(range(len(parents)))
    for tile in range(closed):
        for f in family[tile, real[tile]].unique():
            mine = (family[tile] == f) & real[tile]
            above = members[tile, mine & parent[tile]].tolist()
            below = members[tile, mine & ~parent[tile]]
            assert tree.parent[below].unique().tolist() == (above or [-1])
            assert len(below) == (int(tree.num_children[above[0]]) if above else 1)


@pytest.mark.parametrize("size", [1, 31, 33, 63, 64])
def test_there_is_room_for_tiles_half_full(size):
    parents = [-1] * 60 + [i // size for i in range(60 * size)]
    tiles = Tree.from_parents(torch.tensor(parents, device=DEVICE)).tiles
    assert sum(tiles.counts[:2]) <= tiles.capacity


def test_a_document_does_not_depend_on_its_batch_mates():
    both = DOCUMENT + [p if p < 0 else p + len(DOCUMENT) for p in STAR]
    q, k, v, weight = inputs(len(both), torch.float32, heads=1)
    together = outputs(both, q, k, v, weight)
    alone = outputs(DOCUMENT, *(x[: len(DOCUMENT)] for x in (q, k, v, weight)))
    for a, b in zip(together, alone, strict=True):
        assert relative_error(a[: len(DOCUMENT)], b) < 1e-6


def test_torch_accepts_the_op():
    from foveate.ops.tree_attention.triton import backward_op, forward_op

    tree = Tree.from_parents(torch.tensor(FAMILIES, device=DEVICE))
    q, k, v, weight = (x.detach() for x in inputs(len(FAMILIES), torch.float32, heads=1))
    options = (*tree.tiles, True, True, True, 0.25)
    torch.library.opcheck(forward_op, (q, k, v, *options))
    out, lse = forward_op(q, k, v, *options)
    torch.library.opcheck(backward_op, (weight, q, k, v, out, lse, *options))


def test_compiles_without_graph_breaks():
    tree = Tree.from_parents(torch.tensor(DOCUMENT, device=DEVICE))
    _ = tree.tiles
    q, k, v, weight = inputs(len(DOCUMENT), torch.float32)

    def layer(q, k, v, tree):
        return tree_attention(q * 2, k, v, tree, backend="triton") * 3

    compiled = torch.compile(layer, fullgraph=True, backend="inductor" if ON_GPU else "aot_eager")
    actual = torch.autograd.grad(compiled(q, k, v, tree), (q, k, v), weight)
    expected = torch.autograd.grad(layer(q, k, v, tree), (q, k, v), weight)
    assert relative_error(torch.stack(actual), torch.stack(expected)) < 1e-5


def test_checkpointing_changes_nothing():
    tree = Tree.from_parents(torch.tensor(DOCUMENT, device=DEVICE))
    q, k, v, weight = inputs(len(DOCUMENT), torch.float32)
    out = torch.utils.checkpoint.checkpoint(
        tree_attention, q, k, v, tree, backend="triton", use_reentrant=False
    )
    actual = torch.autograd.grad(out, (q, k, v), weight)
    for a, b in zip(actual, outputs(DOCUMENT, q, k, v, weight)[1:], strict=True):
        assert torch.equal(a, b)


def check_same_tree(actual, expected):
    for name in ("parent", "level", "num_children"):
        assert torch.equal(getattr(actual, name).cpu(), getattr(expected, name))
    inner = expected.num_children > 0
    assert torch.equal(actual.first_child.cpu()[inner], expected.first_child[inner])


@given(batches())
@settings(max_examples=30 if ON_GPU else 10)
def test_a_padded_batch_is_built(batch):
    from foveate.ops.tree_attention.triton.forest import build_forest

    parents, mask = map(torch.tensor, batch)
    tree, positions, first = Tree.from_padded(parents, mask)
    forest = build_forest(parents.to(DEVICE), mask.to(DEVICE))
    assert forest is not None
    check_same_tree(forest, tree)
    assert forest.positions.tolist() == positions.tolist()
    assert forest.first_nodes.tolist() == first.tolist()
    assert forest.reordered == (positions.tolist() != list(range(len(positions))))
    assert forest.level_sizes == tree.level_sizes
    assert forest.largest_family == tree.largest_family


@pytest.mark.parametrize("parents", [[-2], [-1, 5], [0], [-1, 2, 1], list(range(-1, 100))])
def test_what_cannot_be_built_is_rejected(parents):
    from foveate.ops.tree_attention.triton.forest import build_forest

    assert build_forest(torch.tensor([parents], device=DEVICE), None) is None


def test_a_batch_of_many_chunks_is_built():
    from foveate.ops.tree_attention.triton.forest import build_forest

    size = len(DOCUMENT)
    start = torch.arange(0, 12 * size, size).repeat_interleave(size)
    parents = torch.tensor([DOCUMENT * 12] * 2)
    parents = torch.where(parents < 0, -1, parents + start)
    mask = torch.ones_like(parents)
    mask[0, -size:] = mask[1, :size] = 0
    tree, positions, first = Tree.from_padded(parents, mask)
    forest = build_forest(parents.to(DEVICE), mask.to(DEVICE))
    assert forest is not None
    check_same_tree(forest, tree)
    assert forest.positions.tolist() == positions.tolist()
    assert forest.first_nodes.tolist() == first.tolist()


@pytest.mark.parametrize("depth", [6, 7, 30, 63])
def test_deep_trees_are_built(depth):
    from foveate.ops.tree_attention.triton.forest import build_forest

    chain = list(range(-1, depth - 1))
    parents = torch.tensor([chain + [depth - 1] * 300 + [depth - 2] * 2])
    forest = build_forest(parents.to(DEVICE), None)
    assert forest is not None
    check_same_tree(forest, Tree.from_padded(parents)[0])


def test_nodes_that_sorting_by_level_does_not_sort_are_rejected():
    from foveate.ops.tree_attention.triton.forest import build_forest

    families = [i % 2 for i in range(1200)]  # taking turns: neither stands together
    parents = torch.tensor([[-1, -1, *families]], device=DEVICE)
    assert build_forest(parents, None) is None


def test_parents_that_are_padding_and_empty_sequences_are_rejected():
    from foveate.ops.tree_attention.triton.forest import build_forest

    parents = torch.tensor([[-1, 0, 1], [-1, 0, 0]], device=DEVICE)
    for mask in ([[1, 1, 1], [0, 1, 1]], [[1, 1, 1], [0, 0, 0]]):
        assert build_forest(parents, torch.tensor(mask, device=DEVICE)) is None
    assert build_forest(parents, torch.tensor([[1, 1, 1], [1, 1, 0]], device=DEVICE)) is not None


def test_models_use_them_whatever_the_hidden_size(monkeypatch):
    model = tree_bert(hidden_size=144, num_attention_heads=9).to(DEVICE)
    inputs = {
        "input_ids": [5, 6, 7, 5, 8, 5, 9],
        "position_ids": [0, 1, 2, 0, 1, 0, 1],
        "anchor_ids": [-1, 1, 1, -1, 2, -1, 3],
        "anchor_parents": [-1, 0, 0, -1],
        "anchor_kinds": [3, 1, 1, 1],
    }
    inputs = {name: torch.tensor([column], device=DEVICE) for name, column in inputs.items()}
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    expected = model(**inputs).embeddings
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    assert relative_error(model(**inputs).embeddings, expected) < 1e-4


@gpu
@pytest.mark.parametrize(
    ("parents", "message"),
    [([-1, 2, 1], "node 1 is among its own ancestors"), ([-1, 5], "node 1 has parent 5")],
)
def test_what_is_not_a_forest_is_rejected_on_the_gpu(parents, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_parents(torch.tensor(parents, device="cuda"))


@gpu
@given(forests(max_nodes=300))
def test_the_gpu_builds_the_same_tree(parents):
    tree, on_gpu = Tree.from_parents(parents), Tree.from_parents(torch.tensor(parents).cuda())
    check_same_tree(on_gpu, tree)
    assert (tree.order is None) == (on_gpu.order is None)
    assert tree.order is None or torch.equal(tree.order, on_gpu.order.cpu())


@gpu
@pytest.mark.parametrize("parents", [[-1, 0, 1, 1, 0, 4, 4], [-1, 0, 0, 1, 1, 2, 2]])
def test_a_tree_is_copied_to_the_gpu(parents):
    tree = Tree.from_parents(parents)
    assert (tree.order is None) == (parents == sorted(parents))
    copied = tree.pin_memory().to("cuda", non_blocking=True)
    check_same_tree(copied, tree)
    assert copied.level_sizes == tree.level_sizes
    q, k, v = (x.detach() for x in inputs(len(tree), torch.float32)[:3])
    expected = tree_attention(q.cpu(), k.cpu(), v.cpu(), tree)
    assert relative_error(tree_attention(q, k, v, copied).cpu(), expected) < 1e-5


@gpu
def test_a_parent_of_100_000_children():
    parents = [-1, -1] + [0] * 100_000 + [5] * 40
    q, k, v, weight = inputs(len(parents), torch.float32, heads=1)
    tree = Tree.from_parents(torch.tensor(parents, device="cuda"))
    some = torch.arange(7, 100_002, 997, device="cuda")  # leaves, which see the whole family
    weight = weight[some]
    out = tree_attention(q, k, v, tree, backend="triton")[some]
    actual = torch.autograd.grad(out, (q, k, v), weight)

    family = torch.tensor([0, *range(2, 100_002)], device="cuda")
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    scores = torch.einsum("ihd,jhd->hij", q[some], k[family]) / 4
    dense = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v[family])
    assert relative_error(out, dense) < 1e-5
    expected = torch.autograd.grad(dense, (q, k, v), weight.double())
    for gradient, truth in zip(actual, expected, strict=True):
        assert relative_error(gradient, truth) < 1e-5


@gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_repeat_bit_for_bit(dtype):
    parents = STAR + [p if p < 0 else p + len(STAR) for p in DOCUMENT] * 1
    arguments = (parents, *inputs(len(parents), dtype, heads=12, head_dim=64))
    once = outputs(*arguments)
    for _ in range(5):
        for a, b in zip(outputs(*arguments), once, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("parents", [DOCUMENT, ROOTS, [-1], DOCUMENT + [0] * 70])
def test_a_padded_forest_gives_the_same(parents):
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order
    padded = tree.padded
    assert len(padded) >= len(tree)
    assert padded.largest_family >= tree.largest_family
    for bound, count in zip(padded.tiles.counts, tree.tiles.counts, strict=True):
        assert bound >= count
        assert bound > 0 or count == 0
    n = len(tree)
    for name in ("parent", "level", "first_child", "num_children"):
        assert torch.equal(getattr(padded, name)[:n], getattr(tree, name))
    assert (padded.parent[n:] == -1).all()
    assert (padded.num_children[n:] == 0).all()
    x = inputs(len(padded), torch.float32, heads=1)
    results = []
    for one in (tree, padded):
        *qkv, weight = (each[: len(one)].detach().requires_grad_() for each in x)
        out = tree_attention(*qkv, one, backend="triton")
        gradients = torch.autograd.grad(out, qkv, weight)
        results.append([each[:n] for each in (out, *gradients)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    # What pads the forest sees nothing but itself.
    of_q, of_k, of_v = (gradient[n:] for gradient in gradients)
    assert relative_error(out[n:], qkv[2][n:]) < 1e-3
    assert relative_error(of_v, weight[n:]) < 1e-3
    assert max(of_q.abs().max(), of_k.abs().max()) < 1e-3


@pytest.mark.parametrize("sizes", [[20] * 60, [3] * 10 + [100, 400, 70] + [30] * 20])
def test_a_padded_forest_has_the_same_tiles_and_further_ones(sizes):
    ends = list(accumulate(sizes, initial=1 + len(sizes)))
    parents = [-1] + [0] * len(sizes)
    parents += [1 + i for i, size in enumerate(sizes) for _ in range(size)]
    parents += [ends[0]] * 200 + [ends[-1]] * 5  # below a token, and below one of these
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order
    tiles, padded = tree.tiles, tree.padded.tiles
    closed, large, inner, large_inner = tiles.counts
    moved = padded.capacity - tiles.capacity
    old_tiles = [*range(closed), *range(tiles.capacity - large, tiles.capacity)]
    new_tiles = [tile if tile < closed else tile + moved for tile in old_tiles]
    assert torch.equal(padded.members[new_tiles], tiles.members[old_tiles])
    n, size = len(tree), len(tree.padded)
    padding = range(closed, closed - (n - size) // 64)
    roots = padded.members[list(padding), 0].flatten()
    assert roots[roots >= 0].tolist() == list(range(n, size))
    roles = padded.members[list(padding), 1].flatten()[: size - n]
    assert roles.tolist() == [4 * (i % 64) for i in range(size - n)]
    empty = sorted({*range(padded.capacity)} - {*new_tiles} - {*padding})
    assert empty
    assert (padded.members[empty, 0] == -1).all()
    assert padded.counts[0] < padded.capacity - padded.counts[1]
    old, new = tiles.lists.tolist(), padded.lists.tolist()
    bounds = padded.counts[2:]
    assert new[0][:inner] == old[0][:inner]
    assert {*new[0][inner : bounds[0]]} <= {*empty}
    assert new[1][:large_inner] == [tile + moved for tile in old[1][:large_inner]]
    assert {*new[1][large_inner : bounds[1]]} <= {*empty}
    for row in (2, 3):  # where the tiles of a large family begin and end
        assert new[row][padded.capacity - large :] == [
            tile + moved for tile in old[row][tiles.capacity - large : tiles.capacity]
        ]
    for tile in range(padded.capacity - padded.counts[1], padded.capacity - large):
        assert new[2][tile] == new[3][tile]


def test_forests_of_similar_size_have_tables_of_one_size():
    def sections(*sizes):
        parents = [-1]
        for size in sizes:
            section = len(parents)
            parents += [0] + [section] * size
        return Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order.padded

    one, other = sections(*[30] * 20), sections(*range(10, 43, 2), 100, 30)
    assert len(one) == len(other)
    small, smaller = sections(20, 30, 5), sections(9, 8, 7, 6)
    for a, b in zip(small.tiles[:2], smaller.tiles[:2], strict=True):
        assert a.shape == b.shape
    assert small.tiles.counts == smaller.tiles.counts


TREE_ENCODERS = ["hdt", "rotary_hdt", "tree_bert"]


def tree_encoder(kind):
    torch.manual_seed(0)
    if kind == "tree_bert":
        model = tree_bert()
    else:
        positions = "rotary" if kind == "rotary_hdt" else "hierarchical"
        sizes = {"vocab_size": 60, "d_model": 32, "d_kv": 16, "d_ff": 24, "num_layers": 2}
        config = HDTConfig(**sizes, num_heads=2, position_embedding_type=positions)
        model = HDTModel(config).eval()
    return model.to(DEVICE)


def passages_of(parents):
    """Columns of TreeBert: the leaves below each node are a sentence, and a passage by itself."""
    parents_of_leaves = [p for i, p in enumerate(parents) if i not in parents and p >= 0]
    sentences = sorted(set(parents_of_leaves))
    return passage_columns(
        ["document", *["sentence"] * len(sentences)],
        [-1, *[0] * len(sentences)],
        [[], *([5 + i % 20] * parents_of_leaves.count(i) for i in sentences)],
        range(len(sentences) + 1),
        1,
    )


def padded_batch(kind, *documents):
    """The columns of documents, padded on the right."""
    if kind == "tree_bert":
        batch = pad_features([passages_of(document) for document in documents], 0)
        return {name: x.to(DEVICE) for name, x in batch.items()}
    length = max(map(len, documents))
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(5, 30, (len(documents), length), generator=generator)
    parents, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, document in enumerate(documents):
        parents[row, : len(document)] = torch.tensor(document)
        mask[row, : len(document)] = 1
    batch = {"input_ids": ids, "attention_mask": mask, "parent_ids": parents}
    return {name: x.to(DEVICE) for name, x in batch.items()}


def some_document(sentences, seed):
    """Parents, depth first: a document, two sections, sentences of up to ten tokens."""
    draw = random.Random(seed)
    parents = [-1]
    for _ in range(2):
        section = len(parents)
        parents.append(0)
        for _ in range(sentences):
            sentence = len(parents)
            parents += [section] + [sentence] * draw.randint(1, 10)
    return parents


@pytest.mark.parametrize("kind", TREE_ENCODERS if ON_GPU or NIGHTLY else ["hdt"])
def test_one_graph_serves_trees_of_similar_size_and_waits_for_nothing(kind, monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    graphs = replace_graphs(monkeypatch)
    model = tree_encoder(kind)
    captured = capture(deepcopy(model))
    with torch.no_grad():
        for seed in range(3):
            batch = padded_batch(kind, *(some_document(n, 10 * seed + n) for n in (2, 1)))
            expected, actual = model(**batch), captured(**batch)
            for name in ("last_hidden_state", "embeddings", "pooler_output"):
                if getattr(expected, name, None) is not None:
                    assert relative_error(actual[name], expected[name]) < 1e-5
    assert len(graphs) == 1


def tree_outputs_agree(expected, actual):
    """Whether two outputs have equal states, but for rounding."""
    names = ("last_hidden_state", "embeddings", "salience", "pooler_output")
    found = [name for name in names if getattr(expected, name, None) is not None]
    for name in found:
        assert relative_error(actual[name], expected[name]) < 1e-4
    return bool(found)


def tree_steps_agree(model, captured, batch, tolerance):
    """Whether a model and its captured copy get the same gradients, which are added up twice."""
    for each in (model, captured):
        each.zero_grad()
        for _ in range(2):
            output = each(**batch)
            if "embeddings" in output:
                (output.embeddings[:, ::2].square().mean() + output.salience.sum()).backward()
            else:
                real = batch["attention_mask"].bool()
                output.last_hidden_state[real].square().mean().backward()
    for a, b in zip(model.parameters(), captured.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            difference = torch.linalg.vector_norm(b.grad - a.grad)
            # Gradients of the biases of keys are 0 but for rounding.
            assert difference <= tolerance * (torch.linalg.vector_norm(a.grad) + 1e-3)
    return True


@pytest.mark.parametrize("kind", TREE_ENCODERS if ON_GPU or NIGHTLY else ["tree_bert"])
def test_one_training_graph_serves_trees_of_similar_size(kind, monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    monkeypatch.setattr(math, "SMALLEST_BUCKET", 64)
    graphs = replace_training_graphs(monkeypatch)
    model = tree_encoder(kind)
    captured = capture(deepcopy(model))
    for seed in range(2):
        batch = padded_batch(kind, some_document(1, seed), some_document(1, seed))
        assert tree_steps_agree(model, captured, batch, 1e-4)
    assert len(graphs) == 1


def test_large_trees_are_not_captured(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "triton")
    monkeypatch.setattr(math, "SMALLEST_BUCKET", 64)
    graphs, training_graphs = replace_graphs(monkeypatch), replace_training_graphs(monkeypatch)
    model = capture(tree_encoder("hdt"))
    batch = padded_batch("hdt", some_document(1, 0))
    number = int(batch["attention_mask"].sum())
    for most, num_graphs in ((32 * number - 1, 0), (32 * number, 1)):
        monkeypatch.setattr(cuda_graphs, "MAX_PADDED_ELEMENTS", most)
        for _ in range(2):
            with torch.no_grad():
                model(**batch)
            model(**batch).last_hidden_state.sum().backward()
        assert len(graphs) == len(training_graphs) == num_graphs


@pytest.mark.parametrize("kind", TREE_ENCODERS)
@gpu
def test_training_graphs_of_tree_encoders(kind):
    model = tree_encoder(kind)
    captured = capture(deepcopy(model))
    for seed in range(6):
        batch = padded_batch(kind, *(some_document(n, 10 * seed + n) for n in (60, 20, 45)))
        assert tree_steps_agree(model, captured, batch, 1e-3)
        torch.full((1 << 26,), torch.nan, device="cuda")  # where something was freed
    large = padded_batch(kind, [-1] + [0] * 200 + [3] * 100)
    for _ in range(3):
        assert tree_steps_agree(model, captured, large, 1e-3)
    assert len(cuda_graphs._training_graphs_by_module[captured.encoder].graphs) >= 2


@pytest.mark.parametrize("kind", TREE_ENCODERS)
@gpu
def test_graphs_of_tree_encoders(kind):
    model = tree_encoder(kind)
    captured = capture(deepcopy(model))
    encoder = captured.encoder
    with torch.no_grad():
        for seed in range(6):
            documents = [some_document(n, 10 * seed + n) for n in (60, 20, 45)]
            batch = padded_batch(kind, *documents)
            for _ in range(2):
                assert tree_outputs_agree(model(**batch), captured(**batch))
        graphs = cuda_graphs._graphs_by_module[encoder].graphs
        assert 1 <= len(graphs) < 6  # fewer than there were batches
        large = padded_batch(kind, [-1] + [0] * 200 + [3] * 100)  # families larger than a tile
        for _ in range(3):
            assert tree_outputs_agree(model(**large), captured(**large))
        if kind != "tree_bert":
            states = captured(**large, output_hidden_states=True).hidden_states
            assert len(states) == 3
    release(captured)
    assert encoder not in cuda_graphs._graphs_by_module


@gpu
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_replays_do_not_wait_for_the_gpu(context):
    model = capture(tree_encoder("hdt"))
    batch = padded_batch("hdt", some_document(40, 0), some_document(40, 1))
    packed = PackedForest.from_parent_ids(batch["parent_ids"], batch["attention_mask"])
    embeddings = torch.randn(len(packed.tree), 32, device=DEVICE)
    with context():
        for _ in range(3):
            expected = model.encoder(embeddings, packed.tree)
        torch.cuda.set_sync_debug_mode("error")
        try:
            actual = model.encoder(embeddings, packed.tree)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(actual, expected)


@gpu
def test_graphs_capture_forward_and_backward():
    tree = Tree.from_parents(torch.tensor(DOCUMENT, device="cuda"))
    q, k, v, weight = inputs(len(DOCUMENT), torch.bfloat16)

    def step(q, k, v):
        out = tree_attention(q, k, v, tree)
        return out, *torch.autograd.grad(out, (q, k, v), weight)

    def copies():
        return [x.detach().clone().requires_grad_() for x in (q, k, v)]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(*copies())
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(q, k, v)
    with torch.no_grad():
        q.copy_(torch.randn_like(q))
    graph.replay()
    for a, b in zip(captured, step(*copies()), strict=True):
        assert torch.equal(a, b)


@gpu
def test_memory_is_the_outputs_and_one_float_per_node_and_head():
    parents = STAR * 1
    for _ in range(5):
        parents = parents + [p if p < 0 else p + len(parents) for p in parents]
    n, heads, head_dim = len(parents), 12, 64
    q, k, v, weight = inputs(n, torch.bfloat16, heads, head_dim)
    tree = Tree.from_parents(torch.tensor(parents, device="cuda"))
    tree_attention(q, k, v, tree)
    size, slack = n * heads * head_dim * 2, 1 << 16
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = tree_attention(q, k, v, tree)
    assert torch.cuda.max_memory_allocated() - before <= size + 4 * n * heads + slack
    torch.autograd.grad(out, (q, k, v), weight)
    gradients = -(-3 * size >> 21) << 21  # large blocks are of multiples of 2 MiB
    assert torch.cuda.max_memory_allocated() - before <= size + gradients + 4 * n * heads + slack


@gpu
def test_autocast_on_the_gpu():
    tree = Tree.from_parents(torch.tensor(DOCUMENT, device="cuda"))
    q, k, v, weight = inputs(len(DOCUMENT), torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        out = tree_attention(q, k, v, tree)
    assert out.dtype == torch.bfloat16
    assert torch.autograd.grad(out, q, weight.bfloat16())[0].dtype == torch.float32


@gpu
def test_distributed_wrappers_train():
    from torch.distributed.fsdp import fully_shard

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(32, 96)

        def forward(self, x, tree):
            return tree_attention(*self.qkv(x).view(-1, 3, 2, 16).unbind(1), tree)

    torch.distributed.init_process_group(
        "nccl", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        torch.manual_seed(0)
        layer = Layer().cuda()
        x = torch.randn(len(DOCUMENT), 32, device="cuda")
        tree = Tree.from_parents(torch.tensor(DOCUMENT, device="cuda"))
        layer(x, tree).square().sum().backward()
        expected = layer.qkv.weight.grad.clone()
        layer.zero_grad()
        data_parallel = torch.nn.parallel.DistributedDataParallel(layer)
        data_parallel(x, tree).square().sum().backward()
        assert relative_error(layer.qkv.weight.grad, expected) < 1e-5
        layer.zero_grad()
        sharded = fully_shard(layer)
        sharded(x, tree).square().sum().backward()
        assert relative_error(sharded.qkv.weight.grad.full_tensor(), expected) < 1e-5
    finally:
        torch.distributed.destroy_process_group()
