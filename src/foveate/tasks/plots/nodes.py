"""Which nodes a query sees in fovea attention, as a picture."""

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.ops.fovea_attention import COVERAGES, select_nodes

from .picture import INK, check_format, heading, legend, paint, save, squares

UNSEEN = -1

_CELLS = 400  # queries and blocks at most that are drawn
_LINES = 96  # blocks up to which the nodes are told apart by lines
_NEAREST, _FARTHEST = "#123f6d", "#ffd9a0"
_PANEL, _GAP, _HEAD, _FOOT = 5.0, 0.75, 1.2, 0.95  # inches


def plot_nodes(
    num_blocks: int,
    path: str | PathLike[str],
    *,
    k_neighbours: int = 1,
    title: str | None = None,
) -> None:
    """Draw the nodes that every block of queries sees, by level (Fovea, figures 1 and 2).

    A row is a block of queries, a column a block of the sequence, coloured by the level of the
    node that stands for it and white where none does. Coverage "full" is drawn beside "paper".

    Args:
        num_blocks: N, blocks in the sequence.
        path: the image; its suffix (.png, .svg, .pdf, ...) says the format.
        k_neighbours: k, nodes of each level on each side.
        title: what to write above.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: no format of images, or a number below 1.
        OSError: the file cannot be written.

    Example:
        >>> from foveate.tasks.plots.nodes import plot_nodes
        >>> plot_nodes(16, getfixture("tmp_path") / "nodes.png")
    """
    check_format(path)
    if num_blocks < 1 or k_neighbours < 1:
        raise ValueError(
            f"num_blocks and k_neighbours must be at least 1, got {num_blocks} and {k_neighbours}"
        )
    figure, axes = squares(len(COVERAGES), _PANEL, gap=_GAP, head=_HEAD, foot=_FOOT)
    colours = _colours(
        max(node.level for node in select_nodes(num_blocks, k_neighbours, "full")[0])
    )
    for square, coverage in zip(axes, reversed(COVERAGES), strict=True):
        square.set_title(_caption(num_blocks, k_neighbours, coverage), fontsize=10, color=INK)
        _draw(square, num_blocks, k_neighbours, coverage, colours)
    what = f"{num_blocks:,} blocks, k = {k_neighbours}; a row is a block of queries"
    heading(figure, _GAP, title or "Fovea attention", what)
    names = ["level 0: tokens", *(f"{level}: {1 << level}" for level in range(1, len(colours)))]
    legend(
        figure,
        _GAP,
        zip(names, colours, strict=True),
        title="tokens averaged, by level",
        title_fontsize=9,
        alignment="left",
        fontsize=9,
        columnspacing=1,
    )
    save(figure, path)


def levels(num_blocks: int, k_neighbours: int, coverage: str, cells: int) -> NDArray[np.int8]:
    """Level of the node that stands for each block, by query block; -1 where none does.

    Returns:
        `(cells, cells)`, queries and blocks at even distances, or all `(num_blocks, num_blocks)`.
    """
    cells = min(cells, num_blocks)
    shown = np.arange(cells) * num_blocks // cells
    image = np.full((cells, cells), UNSEEN, np.int8)
    selected = select_nodes(num_blocks, k_neighbours, coverage)
    for row, block in enumerate(shown):
        for node in selected[block]:
            first, end = np.searchsorted(shown, (node.start, node.start + node.num_blocks))
            image[row, first:end] = node.level
    return image


def _caption(num_blocks: int, k_neighbours: int, coverage: str) -> str:
    selected = select_nodes(num_blocks, k_neighbours, coverage)
    nodes = sum(map(len, selected)) / num_blocks
    seen = sum(node.num_blocks for some in selected for node in some) / num_blocks**2
    return f'"{coverage}": {nodes:.1f} nodes see {seen:.0%} of the sequence'


def _colours(highest: int) -> list[Any]:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("", [_NEAREST, "#8fb8de", _FARTHEST])
    return [shades(level / max(1, highest)) for level in range(highest + 1)]


def _draw(axes: Any, num_blocks: int, k_neighbours: int, coverage: str, colours: list[Any]) -> None:
    image = levels(num_blocks, k_neighbours, coverage, _CELLS)
    paint(axes, image - UNSEEN, colours, num_blocks)
    if num_blocks <= _LINES:
        selected = select_nodes(num_blocks, k_neighbours, coverage)
        places = [(node.start, row) for row, some in enumerate(selected) for node in some]
        starts, rows = zip(*places, strict=True)
        axes.vlines(starts, rows, [row + 1 for row in rows], color="white", linewidth=0.7)
        axes.hlines(range(num_blocks), 0, num_blocks, color="white", linewidth=0.7)
    axes.set_xlabel("block of the sequence", fontsize=9, color=INK)
