"""Attention within the families of a forest of two levels equals the dense definition."""

import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.ops.tree_attention import EDGES, Tree
from foveate.ops.tree_attention.dense import attend_families
from foveate.ops.tree_attention.families import batch_families
from foveate.ops.tree_attention.reference import tree_attention as reference
from tests.numerics import TOLERANCE, relative_error

HEADS, HEAD_DIM = 2, 8


def forest(sizes):
    """The parents of as many roots as there are sizes, each with so many children."""
    children = [root for root, size in enumerate(sizes) for _ in range(size)]
    return [-1] * len(sizes) + children


def attend(sizes, qkv, max_nodes=64, extra=0):
    tree = Tree.from_parents(forest(sizes))
    out = torch.full_like(qkv[0], torch.nan)
    for batch in batch_families(tree.parent, tree.first_child, tree.num_children, max_nodes):
        number = len(batch.nodes)
        assert number <= max(max_nodes, 1 + max(sizes))
        filled = (F.pad(x[batch.nodes], (0, 0, 0, 0, 0, extra)) for x in qkv)
        attended = attend_families(*filled, batch)
        assert (attended[number:] == 0).all()
        out[batch.nodes] = attended[:number]
    return out


def qkv_of(nodes, dtype):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, nodes, HEADS, HEAD_DIM, generator=generator, dtype=torch.float64).to(
        dtype
    )


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8),
    st.sampled_from(list(TOLERANCE)),
    st.integers(0, 20),
)
@example([0], torch.float32, 0)
@example([0] * 40, torch.float32, 1)
@example([1030, 3], torch.float32, 0)  # too large a family for more keys than it has
def test_every_forest_equals_the_reference(sizes, dtype, extra):
    qkv = qkv_of(len(forest(sizes)), dtype)
    expected = reference(*qkv.double(), torch.tensor(forest(sizes)), EDGES, HEAD_DIM**-0.5)
    actual = attend(sizes, qkv, extra=extra)
    assert actual.dtype == dtype
    assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(st.lists(st.integers(0, 20), min_size=2, max_size=8))
def test_a_family_does_not_depend_on_its_batch_mates(sizes):
    qkv = qkv_of(len(forest(sizes)), torch.float32)
    is_first = torch.tensor([parent == 0 for parent in forest(sizes)])
    is_first[0] = True
    qkv[:, ~is_first] *= 1e3  # scores that would win wherever they took part
    alone = attend(sizes[:1], qkv[:, is_first])
    assert relative_error(attend(sizes, qkv)[is_first], alone) < 1e-6
