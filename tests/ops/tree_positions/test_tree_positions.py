import itertools

import pytest
import torch
from hypothesis import given

from foveate.ops.tree_attention import Tree
from foveate.ops.tree_positions import reading_order, tree_positions
from tests.numerics import relative_error
from tests.trees import documents, forests


def table_of(size, dtype=torch.float64):
    return torch.randn(size, 6, generator=torch.Generator().manual_seed(0)).to(dtype)


@given(forests())
def test_torch_is_the_reference(parents):
    tree = Tree.from_parents(parents).in_level_order
    for levels, alike in itertools.product((1, 3), (False, True)):
        eager, reference = (
            tree_positions(tree, table_of(50), levels=levels, global_leaves=alike, backend=backend)
            for backend in ("eager", "reference")
        )
        assert eager.shape == (len(parents), 6)
        assert relative_error(eager, reference) < 1e-12


def test_a_path_decides():
    tree = Tree.from_parents([-1, 0, 0, 2, 2, -1])
    table = table_of(4)
    code = tree.from_level_order(tree_positions(tree.in_level_order, table, levels=2))
    paths = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (0, 0)]
    expected = torch.stack([table[a] + table[b] for a, b in paths])
    assert relative_error(code, expected) < 1e-12


def test_leaves_before_the_sections_take_no_place():
    tree = Tree.from_parents([-1, 0, 0, 0, 0, 3])
    table = table_of(4)
    code = tree_positions(tree.in_level_order, table, levels=2, global_leaves=True)
    code = tree.from_level_order(code)
    paths = [(0, 0), (0, 0), (1, 1), (1, 0), (2, 0), (1, 1)]
    expected = torch.stack([table[a] + table[b] for a, b in paths])
    assert relative_error(code, expected) < 1e-12


def test_wrong_tables_are_rejected():
    tree = Tree.from_parents([-1, 0])
    with pytest.raises(ValueError, match="the table must be"):
        tree_positions(tree, torch.zeros(3), levels=2)
    with pytest.raises(ValueError, match="unknown backend"):
        tree_positions(tree, torch.zeros(3, 2), levels=2, backend="cuda")


@given(documents())
def test_reading_order_counts_what_comes_before_in_a_document(parents):
    tree = Tree.from_parents(parents)
    order = tree.from_level_order(reading_order(tree.in_level_order))
    root = 0
    for node, parent in enumerate(parents):
        root = node if parent < 0 else root
        assert order[node] == node - root


@given(forests())
def test_reading_order_level_by_level_is_the_reference(parents):
    tree = Tree.from_parents(parents).in_level_order
    eager, reference = (reading_order(tree, backend=name) for name in ("eager", "reference"))
    assert eager.tolist() == reference.tolist()


def test_no_nodes_have_no_order():
    tree = Tree.from_parents([])
    assert all(reading_order(tree, backend=b).tolist() == [] for b in ("eager", "reference"))
