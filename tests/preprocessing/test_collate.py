import pickle

import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.preprocessing import pack_trees
from tests.trees import forests


@given(st.lists(forests(max_nodes=12), min_size=1, max_size=3))
def test_packed_trees_keep_their_nodes_and_edges(documents):
    starts = torch.tensor([0, *map(len, documents)]).cumsum(0).tolist()
    features = [
        {"parent_ids": torch.tensor(parents), "input_ids": torch.arange(len(parents)) + start}
        for parents, start in zip(documents, starts, strict=False)
    ]
    batch = pack_trees(features)
    ids, tree = batch["input_ids"][0], batch["tree"]
    assert sorted(ids.tolist()) == list(range(starts[-1]))
    assert tree.order is None
    assert (tree.level.diff() >= 0).all()
    parents = [p if p < 0 else p + s for s, d in zip(starts, documents, strict=False) for p in d]
    for node, parent in zip(ids.tolist(), tree.parent.tolist(), strict=True):
        assert parents[node] == (-1 if parent < 0 else ids[parent])
    sent = pickle.loads(pickle.dumps(tree))  # as a worker does
    assert torch.equal(sent.parent, tree.parent)
    assert sent.level_sizes == tree.level_sizes
