import numpy as np
import pytest

from foveate.ops.fovea_attention import select_nodes
from foveate.tasks.plots.nodes import UNSEEN, levels, plot_nodes


@pytest.mark.parametrize("coverage", ["paper", "full"])
@pytest.mark.parametrize("num_blocks", [1, 2, 13])
def test_a_block_has_the_level_of_the_node_that_stands_for_it(num_blocks, coverage):
    image = levels(num_blocks, 1, coverage, cells=20)
    expected = np.full((num_blocks, num_blocks), UNSEEN)
    for row, nodes in enumerate(select_nodes(num_blocks, 1, coverage)):
        for node in nodes:
            expected[row, node.start : node.start + node.num_blocks] = node.level
    assert np.array_equal(image, expected)
    assert (image == UNSEEN).any() == (coverage == "paper" and num_blocks == 13)


def test_a_large_picture_shows_some_of_the_blocks():
    whole, some = (levels(60, 2, "paper", cells) for cells in (60, 20))
    assert np.array_equal(some, whole[::3, ::3])


@pytest.mark.parametrize(("name", "num_blocks"), [("nodes.png", 1), ("nodes.svg", 500)])
def test_it_is_drawn(tmp_path, name, num_blocks):
    plot_nodes(num_blocks, tmp_path / name, k_neighbours=2, title="Costs $5 or $6")
    assert (tmp_path / name).stat().st_size > 5_000
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "num_blocks", "k_neighbours", "message"),
    [
        ("nodes.docx", 9, 1, "must end in the name of an image format"),
        ("nodes.png", 0, 1, "must be at least 1, got 0 and 1"),
        ("nodes.png", 9, 0, "must be at least 1, got 9 and 0"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, name, num_blocks, k_neighbours, message):
    with pytest.raises(ValueError, match=message):
        plot_nodes(num_blocks, tmp_path / name, k_neighbours=k_neighbours)
    assert not list(tmp_path.iterdir())
