import pytest
import torch

from foveate.ops import remembering
from foveate.ops.remembering import remembered


def test_the_latest_answers_are_remembered():
    asked, captured = [], len(remembering._captured)

    @remembered(2)
    def double(x):
        """Twice x."""
        asked.append(x)
        return 2 * x

    assert [double(x) for x in (1, 1, 2, 1, 3, 2)] == [2, 2, 4, 2, 6, 4]
    assert asked == [1, 2, 3, 2]
    assert double.__doc__ == "Twice x."
    assert len(remembering._captured) == captured


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_a_graph_reads_stays():
    @remembered(1)
    def table(value):
        return torch.full((1 << 20,), value, device="cuda")

    graph = torch.cuda.CUDAGraph()
    table(1.0)
    with torch.cuda.graph(graph):
        out = table(1.0) + 1
    for value in range(2, 6):
        table(float(value))
    graph.replay()
    assert torch.equal(out, torch.full_like(out, 2.0))
