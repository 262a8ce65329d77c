"""The best cut through a tree, against all cuts of small trees."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.tasks import cut
from foveate.tasks.cut import best_cut


@st.composite
def trees(draw):
    """Parents, gains and costs of up to nine nodes in preorder; -1 is the parent of a root."""
    path = []
    parents = []
    for node in range(draw(st.integers(1, 9))):
        del path[draw(st.integers(0, len(path))) :]
        parents.append(path[-1] if path else -1)
        path.append(node)
    size = len(parents)
    gains = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size))
    costs = draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))
    return parents, np.array(gains, float), np.array(costs)


def ends_of(parents):
    ends = list(range(1, len(parents) + 1))
    for node in reversed(range(len(parents))):
        if parents[node] >= 0:
            ends[parents[node]] = max(ends[parents[node]], ends[node])
    return np.array(ends)


def is_cut(is_open, parents):
    return all(
        parent < 0 or is_open[parent] for node, parent in zip(is_open, parents, strict=True) if node
    )


def optimum(parents, gains, costs, budget):
    """The best gain of all cuts that fit."""
    return max(
        gains @ np.array(nodes)
        for nodes in product((0, 1), repeat=len(parents))
        if costs @ np.array(nodes) <= budget and is_cut(nodes, parents)
    )


@example(([-1, -1, 1], np.array([3.0, 0.0, 2.0]), np.array([2, 1, 0])), 2)
@given(trees(), st.integers(0, 50))
def test_no_cut_that_fits_is_better(tree, budget):
    parents, gains, costs = tree
    is_open = best_cut(gains, costs, ends_of(parents), budget)
    assert is_cut(is_open, parents)
    assert costs @ is_open <= budget
    assert gains @ is_open == optimum(parents, gains, costs, budget)


@given(trees(), st.integers(0, 50), st.integers(1, 60))
def test_where_costs_are_rounded_the_cut_fits(tree, budget, max_cells):
    parents, gains, costs = tree
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "MAX_CELLS", max_cells)
        is_open = best_cut(gains, costs, ends_of(parents), budget)
    assert is_cut(is_open, parents)
    assert costs @ is_open <= budget
    unit = max(1, -(-len(costs) * budget // max_cells))
    for nodes in map(np.array, product((0, 1), repeat=len(parents))):
        if is_cut(nodes, parents) and costs @ nodes <= budget - (nodes.sum() + 1) * (unit - 1):
            assert gains @ is_open >= gains @ nodes
