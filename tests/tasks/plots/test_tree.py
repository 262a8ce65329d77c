import time

import numpy as np
import pytest
import torch
from hypothesis import given

from foveate.ops.tree_attention.reference import tree_mask
from foveate.tasks.plots.tree import (
    SECTIONS,
    SENTENCES,
    SUBSECTIONS,
    TOKENS,
    family_kinds,
    pattern_image,
    plot_tree,
)
from tests.trees import forests


def test_families_are_known_by_what_they_hold():
    #       doc, section: sentence, subsection: sentence; section: sentence
    parents = torch.tensor([-1, 0, 1, 2, 1, 4, 5, 0, 7, 8])
    kinds = family_kinds(parents).tolist()
    assert kinds == [SECTIONS, SUBSECTIONS, TOKENS, 0, SENTENCES, TOKENS, 0, SENTENCES, TOKENS, 0]


@given(forests(shuffled=False))
def test_what_is_painted_is_what_is_attended(parents):
    parents = torch.tensor(parents)
    n = len(parents)
    mask = tree_mask(parents, {"parent", "siblings", "children"}).numpy()
    image = pattern_image(parents, family_kinds(parents), n, max_cells=n)
    assert np.array_equal(image > 0, mask)


@given(forests(shuffled=False))
def test_a_cell_is_painted_if_any_of_its_pairs_is_attended(parents):
    parents = torch.tensor(parents)
    n, cells = len(parents), max(1, len(parents) // 3)
    mask = tree_mask(parents, {"parent", "siblings", "children"}).numpy()
    cell = np.arange(n) * cells // n
    expected = np.zeros((cells, cells), bool)
    np.logical_or.at(expected, (cell[:, None], cell[None, :]), mask)
    assert np.array_equal(pattern_image(parents, family_kinds(parents), n, cells) > 0, expected)


def test_a_window_shows_the_first_nodes_of_the_whole(sea):
    parents = torch.tensor([-1, 0, 1, 1, 0, 4, 4])
    kinds = family_kinds(parents)
    whole = pattern_image(parents, kinds, 7, max_cells=7)
    assert np.array_equal(pattern_image(parents, kinds, 5, max_cells=7), whole[:5, :5])


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_document_is_drawn(sea, tmp_path, suffix):
    file = tmp_path / f"pattern.{suffix}"
    plot_tree(sea, file, window=50)
    assert file.stat().st_size > 5_000
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_hundred_thousand_nodes_are_painted_in_a_moment():
    sentence = torch.full((25,), -1)
    parents = torch.cat([torch.tensor([-1]), sentence.repeat(4000)])
    parents[1::25] = 0
    for place in range(2, 26):
        parents[place::25] = torch.arange(1, len(parents), 25)
    begun = time.perf_counter()
    pattern_image(parents, family_kinds(parents), len(parents), max_cells=400)
    assert time.perf_counter() - begun < 5  # 0.4 s on an idle core


@pytest.mark.parametrize(
    ("name", "window", "message"),
    [
        ("pattern.docx", 9, "must end in the name of an image format: "),
        ("pattern", 9, "must end in the name of an image format: "),
        ("pattern.png", 0, "window must be at least 1 node, got 0"),
    ],
)
def test_invalid_arguments_are_refused(sea, tmp_path, name, window, message):
    with pytest.raises(ValueError, match=message):
        plot_tree(sea, tmp_path / name, window=window)
    assert not list(tmp_path.iterdir())


def test_a_plot_without_matplotlib_says_what_to_install(sea, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"foveate\[plot\]"):
        plot_tree(sea, tmp_path / "pattern.png")


def test_a_plot_that_cannot_be_written(sea, tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        plot_tree(sea, tmp_path / "nowhere" / "pattern.png")
