from itertools import chain, combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.ops.tree_attention import EDGES, Tree, dense, tree_attention, tree_attention_qkv
from foveate.ops.tree_attention.reference import tree_attention as reference
from foveate.ops.tree_attention.reference import tree_mask
from tests.numerics import TOLERANCE, relative_error
from tests.trees import forests

EDGE_SETS = list(chain.from_iterable(combinations(EDGES, r) for r in range(4)))


def inputs(n, heads=2, head_dim=4, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, n, heads, head_dim, generator=generator, dtype=torch.float64).to(dtype)


def test_the_mask_of_a_small_document():
    parents = torch.tensor([-1, 0, 0, 1, 1, 2])
    mask = tree_mask(parents, EDGES)
    assert mask.int().tolist() == [
        [1, 1, 1, 0, 0, 0],  # the root sees its children
        [1, 1, 1, 1, 1, 0],  # an inner node its parent, sibling, children
        [1, 1, 1, 0, 0, 1],
        [0, 1, 0, 1, 1, 0],  # a leaf its parent and sibling
        [0, 1, 0, 1, 1, 0],
        [0, 0, 1, 0, 0, 1],
    ]
    assert torch.equal(mask, mask.T)


@given(forests(), st.sampled_from(EDGE_SETS))
def test_the_groups_have_every_node_as_a_query_once_and_every_edge_once(parents, edges):
    tree = Tree.from_parents(parents)
    groups, query_index, child_groups, inner_nodes = tree.group_families(edges)
    queries = torch.cat([group.queries.flatten() for group in groups])
    assert queries[query_index].tolist() == list(range(len(parents)))
    pairs = torch.zeros(len(parents), len(parents), dtype=torch.long)
    for group in [*groups, *child_groups]:
        pairs[group.queries[:, :, None], group.keys[:, None, :]] += 1
    assert torch.equal(pairs, tree_mask(tree.parent, edges).long())
    assert inner_nodes.tolist() == [
        int(node) for group in child_groups for node in group.queries.flatten()
    ]


@given(forests(), st.sampled_from(EDGE_SETS), st.sampled_from(list(TOLERANCE)))
def test_every_forest_equals_the_reference(parents, edges, dtype):
    q, k, v = inputs(len(parents), dtype=dtype)
    out = tree_attention(q, k, v, Tree.from_parents(parents), edges=edges)
    expected = reference(q.double(), k.double(), v.double(), torch.tensor(parents), edges, 0.5)
    assert out.dtype == dtype
    assert relative_error(out, expected) < TOLERANCE[dtype]


@given(forests(), st.sampled_from(EDGE_SETS))
def test_gradients_equal_the_reference(parents, edges):
    q, k, v = (x.requires_grad_() for x in inputs(len(parents)))
    weight = inputs(len(parents), seed=1)[0]
    actual = torch.autograd.grad(
        (tree_attention(q, k, v, Tree.from_parents(parents), edges=edges) * weight).sum(), (q, k, v)
    )
    expected = torch.autograd.grad(
        (reference(q, k, v, torch.tensor(parents), edges, 0.5) * weight).sum(), (q, k, v)
    )
    assert relative_error(torch.stack(actual), torch.stack(expected)) < 1e-12


def test_gradcheck():
    tree = Tree.from_parents([-1, 0, 1, 1, 0, 4, -1, 6])
    q, k, v = (x.requires_grad_() for x in inputs(8, heads=1, head_dim=2))
    assert torch.autograd.gradcheck(lambda *x: tree_attention(*x, tree), (q, k, v))


def test_tiled_log_sum_exps_change_nothing(monkeypatch):
    parents = [-1] + [0] * 7 + [1, 1, 2, 3, 3, 3, 4]
    q, k, v = (x.requires_grad_() for x in inputs(len(parents)))
    untiled = tree_attention(q, k, v, Tree.from_parents(parents))
    monkeypatch.setattr(dense, "MAX_SCORES", 5)
    tiled = tree_attention(q, k, v, Tree.from_parents(parents))
    assert relative_error(tiled, untiled) < 1e-14
    gradients = [torch.autograd.grad(x.square().sum(), q)[0] for x in (tiled, untiled)]
    assert relative_error(*gradients) < 1e-14


@given(forests(max_nodes=12), forests(max_nodes=12))
def test_a_document_does_not_depend_on_its_batch_mates(one, other):
    q, k, v = inputs(len(one) + len(other), dtype=torch.float32)
    both = Tree.from_parents(one + [p if p < 0 else p + len(one) for p in other])
    together = tree_attention(q, k, v, both)[: len(one)]
    q, k, v = (x[: len(one)] for x in (q, k, v))
    assert relative_error(together, tree_attention(q, k, v, Tree.from_parents(one))) < 1e-6


def test_memory_grows_linearly_with_the_document():
    def largest_allocation(sections):
        parents = [-1]
        for _ in range(sections):
            section = len(parents)
            parents.append(0)
            for _ in range(8):
                sentence = len(parents)
                parents += [section] + [sentence] * 20
        q, k, v = (x.requires_grad_() for x in inputs(len(parents), dtype=torch.float32))
        tree = Tree.from_parents(parents)
        with torch.profiler.profile(profile_memory=True) as profile:
            tree_attention(q, k, v, tree, backend="eager").sum().backward()
        return max(event.cpu_memory_usage for event in profile.events())

    largest_allocation(2)
    assert largest_allocation(64) <= 5 * largest_allocation(16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": ("cousins",)}, r"unknown edges \['cousins'\]"),
        ({"edges": "parent"}, "edges must be a list of names, got the string 'parent'"),
        ({"k": torch.zeros(3, 2, 5)}, "must share one shape"),
        ({"v": torch.zeros(3, 2, 4, dtype=torch.float64)}, "must share one floating dtype"),
        (dict.fromkeys("qkv", torch.zeros(3, 2, 4, dtype=torch.int64)), "one floating dtype"),
        (
            {"tree": [-1, 0, 0]},
            "tree must be a Tree, got list: build it once with Tree.from_parents",
        ),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got a tensor: multiply q by it"),
        ({"tree": Tree.from_parents([-1, 0])}, "q has 3 tokens but the tree has 2 nodes"),
    ],
)
def test_inputs_that_do_not_match_are_rejected(arguments, message):
    q = torch.zeros(3, 2, 4)
    fitting = {"q": q, "k": q, "v": q, "tree": Tree.from_parents([-1, 0, 0])}
    with pytest.raises(ValueError, match=message):
        tree_attention(**{**fitting, **arguments})


@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_queries_keys_and_values_in_one_tensor(backend):
    parents = [-1, 0, 1, 1, 0, 4, 4, 4, 0, 8]
    tree = Tree.from_parents(parents)
    qkv = inputs(len(parents)).transpose(0, 1).requires_grad_()
    weight = torch.randn(len(parents), 2, 4, dtype=torch.float64)
    options = {"edges": ("parent", "siblings"), "scale": 0.3, "backend": backend}
    outputs = (
        tree_attention_qkv(qkv, tree, **options),
        tree_attention(*qkv.unbind(1), tree, **options),
    )
    results = [(out, *torch.autograd.grad(out, qkv, weight)) for out in outputs]
    assert all(relative_error(*pair) < 1e-12 for pair in zip(*results, strict=True))
    with pytest.raises(ValueError, match=r"qkv must be \(tokens, 3, heads, head_dim\), got"):
        tree_attention_qkv(qkv[:, :2], tree)


def test_no_tokens_give_no_tokens():
    q = torch.zeros(0, 2, 4)
    assert tree_attention(q, q, q, Tree.from_parents([])).shape == (0, 2, 4)


@pytest.mark.parametrize("shape", [(3, 0, 4), (3, 2, 0)])
@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_no_heads_or_channels_give_none(shape, backend):
    q, tree = torch.zeros(shape), Tree.from_parents([-1, 0, 0])
    assert tree_attention(q, q, q, tree, backend=backend).shape == shape
