"""Plot of the tree attention pattern of a document."""

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveate.documents import Document
from foveate.ops.tree_attention import Tree
from foveate.tasks.inspect import attended_pairs, inspect
from foveate.tasks.plots.figure import (
    INK,
    add_panel,
    add_title,
    check_image_path,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from transformers import PreTrainedTokenizerBase

# Kinds of families (a parent with its children), by what the children are. Families are painted in
# this order: there are fewer of each kind than of the one before, which would cover them.
TOKENS, SENTENCES, SUBSECTIONS, SECTIONS = 1, 2, 3, 4
_LEGEND = {
    TOKENS: ("tokens of a sentence", "#a9c9e8"),
    SENTENCES: ("sentences of a section", "#1f5fa8"),
    SUBSECTIONS: ("sentences and subsections", "#f2a33a"),
    SECTIONS: ("sections of the document", "#c8283c"),
}
_PANEL, _GAP, _HEAD, _FOOT, _RIGHT_MARGIN = 5.0, 0.75, 1.05, 0.8, 0.3  # inches
_MAX_CELLS = 400  # along each side of a panel: smaller dots could not be seen on a slide


def plot_tree(
    document: Document,
    path: str | PathLike[str],
    *,
    window: int = 192,
    model: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None,
) -> None:
    """Plot which nodes of a tree attend to each other, coloured by level.

    A tree larger than the window is drawn twice. The left panel shows all of it, in cells that
    each stand for many pairs and have the colour of the outermost family among them. The right
    panel shows the first nodes one by one.

    Args:
        document: A document, whose tree is that of `foveate.inspect`.
        path: Image file; its suffix (.png, .svg, .pdf, ...) gives the format.
        window: Number of nodes to draw one by one.
        model: Tokenizer, or checkpoint with one, as for `foveate.inspect`; by default foveate's own
            model's.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: The suffix is not an image format, or the window is empty.
        OSError: The file cannot be written.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.plots import plot_tree
        >>> sea = Document.from_sections("Sea", [("Fish", "Cod swim. They eat herring.")])
        >>> plot_tree(sea, getfixture("tmp_path") / "tree.png")
    """
    check_image_path(path)
    if window < 1:
        raise ValueError(f"window must be at least 1 node, got {window}")
    parents = inspect(document, model=model).parent_ids
    num_nodes = len(parents)
    kinds = family_kinds(parents)

    sizes = [num_nodes] if num_nodes <= window else [num_nodes, window]
    step = _GAP + _PANEL
    figure = new_figure(len(sizes) * step + _RIGHT_MARGIN, _HEAD + _PANEL + _FOOT)
    for column, size in enumerate(sizes):
        panel = add_panel(figure, _GAP + column * step, _FOOT, _PANEL, _PANEL)
        _paint(panel, pattern_image(parents, kinds, size, max(window, _MAX_CELLS)), size)
    add_title(figure, _GAP, document.title or document.name, _caption(parents, sizes))
    _explain(figure, sorted(set(kinds.tolist()) - {0}), len(sizes))
    save(figure, path)


def family_kinds(parents: Tensor) -> Tensor:
    """Return the kind of the family under each node, `(nodes,)`; 0 for a node without children.

    A family whose children have no children is a sentence. The family of a root is a document's
    sections. In between, a family is a section with sentences alone or with subsections too.
    """
    tree = Tree.from_parents(parents)
    level, children = tree.from_level_order(tree.level), tree.from_level_order(tree.num_children)
    has_children = children > 0
    has_grandchildren = _has_child_in(has_children, parents)
    kinds = has_children.long() * TOKENS
    kinds[has_grandchildren] = SENTENCES
    kinds[_has_child_in(has_grandchildren, parents)] = SUBSECTIONS
    kinds[has_grandchildren & (level == 0)] = SECTIONS
    return kinds


def pattern_image(parents: Tensor, kinds: Tensor, size: int, max_cells: int) -> NDArray[np.uint8]:
    """Return the kind of family through which each pair of the first `size` nodes attends.

    If there are more nodes than cells, a cell stands for several pairs and has the highest kind
    among them. A parent and its children all attend to each other, so that each family paints a
    grid of its own.

    Returns:
        Kinds of shape `(cells, cells)`, 0 for pairs that do not attend to each other, where
        `cells` is the lesser of `size` and `max_cells`.
    """
    cells = min(size, max_cells)
    cell = torch.arange(size) * cells // size
    image = np.diag(np.full(cells, TOKENS, np.uint8))
    child = ((parents[:size] >= 0) & (parents[:size] < size)).nonzero()[:, 0]
    child = child[torch.argsort(kinds[parents[child]] * len(parents) + parents[child], stable=True)]
    heads, counts = torch.unique_consecutive(parents[child], return_counts=True)
    for head, family in zip(heads.tolist(), torch.split(child, counts.tolist()), strict=True):
        members = np.unique(np.append(cell[family].numpy(), int(cell[head])))
        image[np.ix_(members, members)] = int(kinds[head])
    return image


def _has_child_in(mask: Tensor, parents: Tensor) -> Tensor:
    """Return which nodes have a child that is in the mask."""
    has_child = torch.zeros_like(mask)
    has_child[parents[mask & (parents >= 0)]] = True
    return has_child


def _caption(parents: Tensor, sizes: list[int]) -> str:
    n, pairs = len(parents), attended_pairs(parents)
    summary = f"{n:,} nodes, each attending {pairs / n:.0f} on average ({100 * pairs / n**2:.2g} %)"
    return summary if len(sizes) == 1 else f"{summary}; on the right the first {sizes[1]:,}"


def _paint(axes: "Axes", image: NDArray[np.uint8], size: int) -> None:
    """Fill a panel of the first `size` nodes with kinds of families."""
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    axes.imshow(
        image,
        ListedColormap(["white", *(colour for _, colour in _LEGEND.values())]),
        vmin=0,
        vmax=len(_LEGEND),
        interpolation="nearest",
        extent=(0, size, size, 0),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axis.set_major_formatter("{x:,.0f}")


def _explain(figure: "Figure", kinds: list[int], num_panels: int) -> None:
    """Explain the colours of kinds at the foot of a figure."""
    from matplotlib.patches import Patch

    labels = [_LEGEND[kind] for kind in kinds]
    figure.legend(
        handles=[Patch(color=colour, label=label) for label, colour in labels],
        ncols=2 if len(labels) > 2 and num_panels == 1 else 4,
        fontsize=10,
        loc="lower left",
        frameon=False,
        labelcolor=INK,
        handlelength=1,
        handleheight=1,
        bbox_to_anchor=((_GAP - 0.1) / figure.get_figwidth(), 0),
    )
