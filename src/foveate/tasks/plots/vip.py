"""Plot of how closely the layers of a model with VIP compression look at a document."""

from os import PathLike
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveate.documents import Document
from foveate.tasks.plots.figure import INK, add_panel, add_title, check_image_path, new_figure, save
from foveate.tasks.segments import Segments, segments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLOSE, _COARSE = "#c8283c", "#e6eaef"
_MAX_CELLS = 1200
_MAX_TITLES = 24
"""Section titles are left out if there are more: they would not fit."""
_TITLE_SPACING = 0.02
"""Least distance between two section titles, as a share of the width."""
_LEFT, _WIDTH, _LAYER, _HEAD, _FOOT = 1.3, 10.0, 0.33, 1.0, 1.3  # inches


def plot_vip(
    query: str,
    document: Document,
    path: str | PathLike[str],
    *,
    model: str | PathLike[str] | None = None,
    device: str | torch.device | None = None,
) -> None:
    """Plot how closely each compressed layer looks at each part of a document, given a query.

    Args:
        query: The query, whose tokens are the VIP tokens.
        document: Document of any length.
        path: Image file; its suffix (.png, .svg, .pdf, ...) gives the format.
        model: BERT, RoBERTa, T5 or VCC checkpoint, a folder or a name on the hub; by default
            foveate's own model.
        device: Device of the model. The default is CUDA if available, else the CPU.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: The suffix is not an image format, the query is empty, or the model is of
            another kind.
        OSError: The file cannot be written.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.plots import plot_vip
        >>> document = Document.from_text("Cod swim. Eels are long.")
        >>> plot_vip("Who swims?", document, getfixture("tmp_path") / "vip.png")
    """
    check_image_path(path)
    seen = segments(query, document, model=model, device=device)
    num_layers, num_tokens = seen.resolutions.shape
    height = _LAYER * num_layers
    figure = new_figure(_LEFT + _WIDTH + 0.2, _HEAD + height + _FOOT)
    axes = add_panel(figure, _LEFT, _FOOT, _WIDTH, height)
    _draw(axes, seen)
    sections = _section_starts(document, seen.sentence_ids)
    for start, _ in sections:
        axes.axvline(start, color="white", linewidth=0.8)
    titled = [(start, title) for start, title in sections if title]
    labels = _spaced(titled, num_tokens * _TITLE_SPACING)
    if labels and len(sections) <= _MAX_TITLES:
        axes.set_xticks(
            [start for start, _ in labels],
            [shorten(title, 24, placeholder="…") for _, title in labels],
            rotation=40,
            ha="right",
            parse_math=False,
        )
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("token", color=INK)
    coarsest = int(seen.resolutions.max())
    caption = "red: token by token"
    if coarsest > 1:
        caption += f"; grey: averages of up to {coarsest} tokens"
    add_title(figure, _LEFT, query, caption)
    save(figure, path)


def closeness(resolutions: Tensor, max_cells: int) -> NDArray[np.float64]:
    """Return how closely each layer sees each cell of the document: 1 token by token, 0 coarsest.

    Args:
        resolutions: See `Segments`.
        max_cells: Greatest number of cells. Each cell shows the closest of its tokens.

    Returns:
        `(layers, cells)`.
    """
    coarsest = max(2, int(resolutions.max()))
    close = 1 - np.log(resolutions.numpy()) / np.log(coarsest)
    starts = np.unique(np.linspace(0, close.shape[1], max_cells, endpoint=False).astype(int))
    cells: NDArray[np.float64] = np.maximum.reduceat(close, starts, axis=1)
    return cells


def _draw(axes: "Axes", seen: Segments) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    num_layers, num_tokens = seen.resolutions.shape
    first = seen.first_layer
    axes.imshow(
        closeness(seen.resolutions, _MAX_CELLS),
        LinearSegmentedColormap.from_list("closeness", [_COARSE, _CLOSE]),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
        extent=(0, num_tokens, first + num_layers + 0.5, first + 0.5),
    )
    axes.set_yticks(range(first + 1, first + num_layers + 1))
    axes.set_ylabel("layer", color=INK)


def _section_starts(document: Document, sentence_ids: Tensor) -> list[tuple[int, str]]:
    """Return the token where each outermost section's sentences begin, with the section's title."""
    starts = []
    num_sentences = 0
    for path, section in document.walk():
        if len(path) == 1:
            is_later = sentence_ids >= num_sentences
            starts.append((int(is_later.int().argmax()), section.title))
        num_sentences += section.num_own_sentences
    return starts


def _spaced(starts: list[tuple[int, str]], distance: float) -> list[tuple[int, str]]:
    """Return the sections whose titles do not overlap the one before."""
    spaced: list[tuple[int, str]] = []
    for start in starts:
        if not spaced or start[0] - spaced[-1][0] >= distance:
            spaced.append(start)
    return spaced
