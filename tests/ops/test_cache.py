from contextlib import nullcontext

import pytest
import torch

from foveate.ops._triton import cache
from foveate.ops._triton.cache import cached_for_graphs, retain_graph_tensors


def test_the_latest_results_are_cached():
    calls, num_retained = [], len(cache._retained)

    @cached_for_graphs(2)
    def double(x):
        """Twice x."""
        calls.append(x)
        return 2 * x

    assert [double(x) for x in (1, 1, 2, 1, 3, 2)] == [2, 2, 4, 2, 6, 4]
    assert calls == [1, 2, 3, 2]
    assert double.__doc__ == "Twice x."
    assert len(cache._retained) == num_retained


def test_captured_results_are_retained_once(monkeypatch):
    @cached_for_graphs(1)
    def table(x):
        return [x]

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with retain_graph_tensors() as retained:
        table(1), table(1), table(2)
    assert list(retained.values()) == [[1], [2]]
    table(3)
    assert list(retained.values()) == [[1], [2]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("context", [retain_graph_tensors, nullcontext])
def test_tables_of_a_graph_are_retained(context):
    @cached_for_graphs(1)
    def table(value):
        return torch.full((1 << 20,), value, device="cuda")

    graph = torch.cuda.CUDAGraph()
    table(1.0)
    with context() as retained, torch.cuda.graph(graph):
        out = table(1.0) + 1
    for value in range(2, 6):
        table(float(value))
    graph.replay()
    assert torch.equal(out, torch.full_like(out, 2.0))
    del retained
