"""Plot of the nodes that each block of queries attends to in Fovea attention."""

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foveate.documents import Document
from foveate.models.fovea import FoveaConfig
from foveate.ops.fovea_attention import COVERAGES, select_nodes
from foveate.tasks.inspect import inspect
from foveate.tasks.plots.figure import (
    INK,
    Colour,
    add_legend,
    add_title,
    check_image_path,
    paint,
    save,
    square_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from transformers import PreTrainedTokenizerBase

UNSEEN = -1

_MAX_CELLS = 400  # along each side of a panel
_MAX_BLOCKS_WITH_LINES = 96  # lines between the nodes of more blocks would cover them
_NEAREST, _MIDDLE, _FARTHEST = "#123f6d", "#8fb8de", "#ffd9a0"
_PANEL, _GAP, _HEAD, _FOOT = 5.0, 0.75, 1.2, 0.95  # inches


def plot_fovea(
    document: Document | int,
    path: str | PathLike[str],
    *,
    k_neighbours: int = 1,
    model: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None,
    title: str | None = None,
) -> None:
    """Plot the nodes that each block of queries attends to, by level (Fovea, figures 1 and 2).

    A row is a block of queries and a column is a block of the sequence, in the colour of the level
    of the node that averages it, or white if the queries do not see it. Coverage "full" is drawn
    next to coverage "paper".

    Args:
        document: A document, which is cut into blocks of 128 tokens, or a number of blocks N.
        path: Image file; its suffix (.png, .svg, .pdf, ...) gives the format.
        k_neighbours: Number of nodes k of each level on each side.
        model: Tokenizer, or checkpoint with one, as for `foveate.inspect`; by default foveate's own
            model's.
        title: Title of the plot. The default is the document's title, or its source.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: The suffix is not an image format, or a number is below 1.
        OSError: The file cannot be written.

    Example:
        >>> from foveate.tasks.plots import plot_fovea
        >>> plot_fovea(16, getfixture("tmp_path") / "fovea.png")
    """
    check_image_path(path)
    if isinstance(document, Document):
        title = title or document.title or document.name
        num_blocks = -(-inspect(document, model=model).num_tokens // FoveaConfig.block_size)
    else:
        num_blocks = document
    if num_blocks < 1 or k_neighbours < 1:
        raise ValueError(
            "the number of blocks and k_neighbours must be at least 1, "
            f"got {num_blocks} and {k_neighbours}"
        )
    figure, panels = square_panels(len(COVERAGES), _PANEL, gap=_GAP, head=_HEAD, foot=_FOOT)
    colours = _colours(
        max(node.level for node in select_nodes(num_blocks, k_neighbours, "full")[0])
    )
    for panel, coverage in zip(panels, reversed(COVERAGES), strict=True):
        panel.set_title(_caption(num_blocks, k_neighbours, coverage), fontsize=10, color=INK)
        _draw(panel, num_blocks, k_neighbours, coverage, colours)
    caption = f"{num_blocks:,} blocks, k = {k_neighbours}; a row is a block of queries"
    add_title(figure, _GAP, title or "Fovea attention", caption)
    labels = ["level 0: tokens", *(f"{level}: {1 << level}" for level in range(1, len(colours)))]
    add_legend(
        figure,
        _GAP,
        zip(labels, colours, strict=True),
        title="tokens averaged, by level",
        title_fontsize=9,
        alignment="left",
        fontsize=9,
        columnspacing=1,
    )
    save(figure, path)


def level_image(
    num_blocks: int, k_neighbours: int, coverage: str, max_cells: int
) -> NDArray[np.int8]:
    """Return the level of the node that averages each block, for each block of queries.

    Returns:
        Levels of shape `(cells, cells)`, -1 for unseen blocks, where `cells` is the lesser of
        `num_blocks` and `max_cells`. If there are more blocks than cells, evenly spaced ones are
        taken.
    """
    cells = min(max_cells, num_blocks)
    blocks = np.arange(cells) * num_blocks // cells
    image = np.full((cells, cells), UNSEEN, np.int8)
    selected = select_nodes(num_blocks, k_neighbours, coverage)
    for row, block in enumerate(blocks):
        for node in selected[block]:
            first, end = np.searchsorted(blocks, (node.start, node.start + node.num_blocks))
            image[row, first:end] = node.level
    return image


def _caption(num_blocks: int, k_neighbours: int, coverage: str) -> str:
    selected = select_nodes(num_blocks, k_neighbours, coverage)
    num_nodes = sum(map(len, selected)) / num_blocks
    seen = sum(node.num_blocks for nodes in selected for node in nodes) / num_blocks**2
    return f'"{coverage}": {num_nodes:.1f} nodes see {seen:.0%} of the sequence'


def _colours(max_level: int) -> list[Colour]:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("", [_NEAREST, _MIDDLE, _FARTHEST])
    return [shades(level / max(1, max_level)) for level in range(max_level + 1)]


def _draw(
    axes: "Axes", num_blocks: int, k_neighbours: int, coverage: str, colours: list[Colour]
) -> None:
    image = level_image(num_blocks, k_neighbours, coverage, _MAX_CELLS)
    paint(axes, image - UNSEEN, colours, num_blocks)
    if num_blocks <= _MAX_BLOCKS_WITH_LINES:
        selected = select_nodes(num_blocks, k_neighbours, coverage)
        corners = [(node.start, row) for row, nodes in enumerate(selected) for node in nodes]
        starts, rows = zip(*corners, strict=True)
        axes.vlines(starts, rows, [row + 1 for row in rows], color="white", linewidth=0.7)
        axes.hlines(range(num_blocks), 0, num_blocks, color="white", linewidth=0.7)
    axes.set_xlabel("block of the sequence", fontsize=9, color=INK)
