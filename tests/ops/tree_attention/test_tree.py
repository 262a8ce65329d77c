import pytest
import torch
from hypothesis import given

from foveate.ops.tree_attention import Tree
from tests.trees import forests


def test_level_order_of_a_small_document():
    #          doc sec sent tok tok sent tok sec sent tok
    parents = [-1, 0, 1, 2, 2, 1, 5, 0, 7, 8]
    tree = Tree.from_parents(parents)
    assert tree.order.tolist() == [0, 1, 7, 2, 5, 8, 3, 4, 6, 9]
    assert tree.parent.tolist() == [-1, 0, 0, 1, 1, 2, 3, 3, 4, 5]
    assert tree.level.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert tree.num_children.tolist() == [2, 2, 1, 2, 1, 1, 0, 0, 0, 0]


@given(forests())
def test_children_are_consecutive_and_siblings_keep_their_order(parents):
    tree = Tree.from_parents(parents)
    order = list(range(len(parents))) if tree.order is None else tree.order.tolist()
    assert sorted(order) == list(range(len(parents)))
    for node, index in enumerate(order):
        children = [child for child in range(len(parents)) if parents[child] == index]
        first, count = int(tree.first_child[node]), int(tree.num_children[node])
        assert order[first : first + count] == children
        parent = int(tree.parent[node])
        assert (-1 if parent < 0 else order[parent]) == parents[index]
        assert int(tree.level[node]) == (0 if parent < 0 else int(tree.level[parent]) + 1)
    assert (tree.level.diff() >= 0).all()


@given(forests())
def test_nodes_come_back_from_level_order(parents):
    tree = Tree.from_parents(parents)
    nodes = torch.arange(len(parents))
    assert torch.equal(tree.from_level_order(tree.to_level_order(nodes)), nodes)
    assert tree.in_level_order.to_level_order(nodes) is nodes


def test_a_forest_in_level_order_needs_no_permutation():
    assert Tree.from_parents([-1, -1, 0, 0, 1]).order is None


def test_a_long_chain_is_built_in_logarithmic_passes():
    tree = Tree.from_parents(torch.arange(-1, 50_000))
    assert int(tree.level[-1]) == 50_000


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 2, 1], "node 1 is among its own ancestors"),
        ([0], "node 0 is among its own ancestors"),
        ([-1, 5], "node 1 has parent 5, which is outside"),
        ([-2], "node 0 has parent -2"),
        (torch.zeros(2, 2, dtype=torch.long), "one-dimensional integer"),
        (torch.zeros(2), "one-dimensional integer"),
    ],
)
def test_what_is_not_a_forest_is_rejected(parents, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_parents(parents)
