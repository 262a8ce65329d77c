"""The attention pattern of a document as a picture."""

from collections.abc import Sequence
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveate.documents import Document
from foveate.ops.tree_attention import Tree
from foveate.tasks.inspect import attended_pairs, inspect

from .picture import check_format, heading, legend, paint, save, squares

# Kinds of families by what the children are, from the leaves up. They are painted in this order:
# the fewer families there are of a kind, the more easily the others would cover them.
TOKENS, SENTENCES, SUBSECTIONS, SECTIONS = 1, 2, 3, 4
_LEGEND = {
    TOKENS: ("tokens of a sentence", "#a9c9e8"),
    SENTENCES: ("sentences of a section", "#1f5fa8"),
    SUBSECTIONS: ("sentences and subsections", "#f2a33a"),
    SECTIONS: ("sections of the document", "#c8283c"),
}
_PANEL, _GAP, _HEAD, _FOOT = 5.0, 0.75, 1.05, 0.8  # inches
_CELLS = 400  # along the side of a whole document: a cell is the smallest dot one sees in a talk


def plot_pattern(
    tree: Document | Tensor | Sequence[int],
    path: str | PathLike[str],
    *,
    window: int = 192,
    title: str | None = None,
) -> None:
    """Draw which nodes attend each other, coloured by level.

    A document longer than the window is drawn twice: whole, in cells of many pairs that have the
    colour of the outermost family among them; and its first nodes, one by one.

    Args:
        tree: a document, read as by `inspect`; or `(nodes,)` parents, -1 at a root.
        path: the image; its suffix (.png, .svg, .pdf, ...) says the format.
        window: number of nodes to draw one by one.
        title: what to write above; by default the document's title.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: no format of images, an empty window, no nodes, or parents of no forest.
        OSError: the file cannot be written.

    Example:
        >>> from foveate.tasks.plots.tree import plot_pattern
        >>> plot_pattern([-1, 0, 1, 2, 2, 1, 5, 5], getfixture("tmp_path") / "pattern.png")
    """
    check_format(path)
    if window < 1:
        raise ValueError(f"window must be at least 1 node, got {window}")
    if isinstance(tree, Document):
        title = tree.title if title is None else title
        tree = inspect(tree).parents
    parents = torch.as_tensor(tree)
    n = len(parents)
    if not n:
        raise ValueError("there are no nodes to draw: give at least one")
    kinds = family_kinds(parents)

    sizes = [n] if n <= window else [n, window]
    figure, axes = squares(len(sizes), _PANEL, gap=_GAP, head=_HEAD, foot=_FOOT)
    colours = [colour for _, colour in _LEGEND.values()]
    for square, size in zip(axes, sizes, strict=True):
        paint(square, pattern(parents, kinds, size, max(window, _CELLS)), colours, size)
    heading(figure, _GAP, title or "", _caption(parents, sizes))
    shown = [_LEGEND[kind] for kind in sorted(set(kinds.tolist())) if kind]
    legend(figure, _GAP, shown, ncols=2 if len(shown) > 2 and len(sizes) == 1 else 4)
    save(figure, path)


def family_kinds(parents: Tensor) -> Tensor:
    """Kind of the family under each node, `(nodes,)`; 0 where there is none.

    A family of which nobody has children is a sentence's; the roots' are the documents' sections;
    in between, sections are those that hold sentences alone, or subsections too.
    """
    tree = Tree.from_parents(parents)
    level, children = tree.from_level_order(tree.level), tree.from_level_order(tree.num_children)
    has_children = children > 0
    has_grandchildren = _any_child(parents, has_children)
    kinds = has_children.long() * TOKENS
    kinds[has_grandchildren] = SENTENCES
    kinds[_any_child(parents, has_grandchildren)] = SUBSECTIONS
    kinds[has_grandchildren & (level == 0)] = SECTIONS
    return kinds


def pattern(parents: Tensor, kinds: Tensor, size: int, cells: int) -> NDArray[np.uint8]:
    """Kind of the pairs among the first `size` nodes, 0 where nothing is attended.

    Nodes that are more than `cells` share cells, which have the highest kind in them. A parent and
    its children all attend each other, so that each family paints a grid of its own.

    Returns:
        `(cells, cells)`, or `(size, size)` if that is less.
    """
    cells = min(size, cells)
    cell = torch.arange(size) * cells // size
    image = np.diag(np.full(cells, TOKENS, np.uint8))
    child = ((parents[:size] >= 0) & (parents[:size] < size)).nonzero()[:, 0]
    child = child[torch.argsort(kinds[parents[child]] * len(parents) + parents[child], stable=True)]
    heads, counts = torch.unique_consecutive(parents[child], return_counts=True)
    for head, family in zip(heads.tolist(), child.split(counts.tolist()), strict=True):
        members = np.unique(np.append(cell[family].numpy(), int(cell[head])))
        image[np.ix_(members, members)] = int(kinds[head])
    return image


def _any_child(parents: Tensor, is_it: Tensor) -> Tensor:
    """Whether any of a node's children is it."""
    found = torch.zeros_like(is_it)
    found[parents[is_it & (parents >= 0)]] = True
    return found


def _caption(parents: Tensor, sizes: list[int]) -> str:
    n, pairs = len(parents), attended_pairs(parents)
    whole = f"{n:,} nodes, each attending {pairs / n:.0f} on average ({100 * pairs / n**2:.2g} %)"
    return whole if len(sizes) == 1 else f"{whole}; on the right the first {sizes[1]:,}"
