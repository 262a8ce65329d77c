"""Attention within families in inference equals the dense definition, on either of its paths."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.ops._packed import cpu_kernel
from foveate.ops.tree_attention import EDGES, Tree
from foveate.ops.tree_attention.eager import update_by_family
from foveate.ops.tree_attention.reference import tree_attention as reference
from tests.numerics import TOLERANCE, relative_error
from tests.trees import forests

HEADS, HEAD_DIM = 2, 8
SIZE = HEADS * HEAD_DIM


@pytest.fixture(params=["flash", "separate"], autouse=True, scope="module")
def path(request):
    """Run every test with torch's private operator and as if torch lacked it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "separate":
            patch.setattr(cpu_kernel, "_kernel", None)
        elif not cpu_kernel.has_cpu_kernel(torch.empty(0)):
            pytest.skip("this torch has no operator that returns log-sum-exps")
        yield


def star(children):
    """A root, its only child and that one's children, so that one family is large and no root's."""
    return [-1, 0] + [1] * children


def attend_in_place(parents, states, weights):
    """Replace the states of a forest by their tree attention: `(nodes, heads * head_dim)`."""
    tree = Tree.from_parents(parents)
    hidden_states = tree.to_level_order(states)

    def project(x):
        return (x @ weights).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(-3)

    with torch.inference_mode():
        update_by_family(hidden_states, tree, [(project, lambda out, _: out.flatten(1))])
    return tree.from_level_order(hidden_states)


def states_of(nodes, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(nodes, SIZE, generator=generator, dtype=torch.float64)
    weights = torch.randn(SIZE, 3 * SIZE, generator=generator, dtype=torch.float64)
    return states.to(dtype), (weights / SIZE**0.5).to(dtype)


@given(
    st.one_of(forests(), st.integers(1, 100).map(star)),
    st.sampled_from(list(TOLERANCE)),
)
@example([-1], torch.float32)
@example([-1] * 40, torch.float32)
@example(star(1030), torch.float32)  # too large a family for more keys than it has
def test_every_forest_equals_the_reference(parents, dtype):
    states, weights = states_of(len(parents), dtype)
    q, k, v = (states @ weights).double().unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(-3)
    expected = reference(q, k, v, torch.tensor(parents), EDGES, HEAD_DIM**-0.5).flatten(1)
    actual = attend_in_place(parents, states, weights)
    assert actual.dtype == dtype
    assert relative_error(actual, expected) < TOLERANCE[dtype]


@given(forests(max_nodes=30), forests(max_nodes=30))
def test_a_document_does_not_depend_on_its_batch_mates(one, other):
    states, weights = states_of(len(one) + len(other), torch.float32)
    states[len(one) :] *= 1e3  # scores that would win wherever they took part
    both = one + [p if p < 0 else p + len(one) for p in other]
    together = attend_in_place(both, states, weights)[: len(one)]
    alone = attend_in_place(one, states[: len(one)], weights)
    assert relative_error(together, alone) < 1e-6
