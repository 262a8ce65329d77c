"""The kernel: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.tree_attention import Tree
from foveate.ops.tree_positions import reading_order, tree_positions
from tests.devices import DEVICE, ON_GPU, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error
from tests.trees import forests

pytestmark = gpu_or_interpreter
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@given(forests(max_nodes=60), st.sampled_from(DTYPES), st.sampled_from([1, 6, 48]))
@settings(max_examples=60 if ON_GPU else 10)
def test_every_forest_equals_the_reference(parents, dtype, channels):
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order
    table = torch.randn(70, channels, generator=torch.Generator().manual_seed(0))
    table = table.to(DEVICE, dtype)
    for levels, alike in itertools.product((1, 2, 5), (False, True)):
        options = {"levels": levels, "global_leaves": alike}
        actual = tree_positions(tree, table, **options, backend="triton")
        expected = tree_positions(tree, table.double(), **options, backend="reference")
        assert actual.dtype == dtype
        assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(forests(max_nodes=200))
@settings(max_examples=60 if ON_GPU else 10)
def test_reading_order_of_every_forest_equals_the_reference(parents):
    tree = Tree.from_parents(torch.tensor(parents, device=DEVICE)).in_level_order
    actual, expected = (reading_order(tree, backend=name) for name in ("triton", "reference"))
    assert actual.tolist() == expected.tolist()


def test_torch_accepts_the_ops():
    from foveate.ops.tree_positions.triton import reading_order_op, tree_positions_op

    tree = Tree.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2], device=DEVICE))
    table = torch.randn(8, 5, device=DEVICE)
    torch.library.opcheck(tree_positions_op, (tree.parent, tree.level, tree.first_child, table, 2))
    first_counted = tree.first_child + 1
    torch.library.opcheck(
        tree_positions_op, (tree.parent, tree.level, tree.first_child, table, 2, first_counted)
    )
    nodes = tree.parent, tree.level, tree.first_child, tree.num_children
    torch.library.opcheck(reading_order_op, nodes)


def test_no_nodes_have_no_positions():
    tree = Tree.from_parents(torch.empty(0, dtype=torch.long, device=DEVICE))
    table = torch.randn(8, 5, device=DEVICE)
    assert tree_positions(tree, table, levels=2, backend="triton").shape == (0, 5)
    assert reading_order(tree, backend="triton").shape == (0,)
