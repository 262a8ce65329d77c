"""What a query makes a model look at closely, as a picture: a line for each layer."""

from os import PathLike
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from foveate.documents import Document
from foveate.tasks.segments import Segments

from .picture import INK, check_format, heading, panel, save, sheet

_CLOSE, _COARSE = "#c8283c", "#e6eaef"
_CELLS = 1200
_TITLES = 24
"""More sections than these have no room for their titles."""
_APART = 0.02
"""Share of the width that a title takes."""
_LEFT, _WIDTH, _LAYER, _HEAD, _FOOT = 1.3, 10.0, 0.33, 1.0, 1.3  # inches


def plot_segments(
    segments: Segments, document: Document, query: str, path: str | PathLike[str]
) -> None:
    """Draw where each compressed layer looked, from the document's first token to its last.

    Args:
        segments: what `foveate.tasks.segments.segments` found.
        document: what was read.
        query: written above.
        path: the image; its suffix (.png, .svg, .pdf, ...) says the format.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: no format of images.
        OSError: the file cannot be written.
    """
    check_format(path)
    layers, tokens = segments.resolutions.shape
    height = _LAYER * layers
    figure = sheet(_LEFT + _WIDTH + 0.2, _HEAD + height + _FOOT)
    axes = panel(figure, _LEFT, _FOOT, _WIDTH, height)
    _draw(axes, segments)
    begins = _sections(document, segments.sentence_ids)
    for at, _ in begins:
        axes.axvline(at, color="white", linewidth=0.8)
    named = _apart([begin for begin in begins if begin[1]], tokens * _APART)
    if named and len(begins) <= _TITLES:
        axes.set_xticks(
            [at for at, _ in named],
            [shorten(title, 24, placeholder="…") for _, title in named],
            rotation=40,
            ha="right",
            parse_math=False,
        )
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("token", color=INK)
    coarsest = int(segments.resolutions.max())
    heading(figure, _LEFT, query, f"red: token by token; grey: averages of up to {coarsest} tokens")
    save(figure, path)


def closeness(resolutions: Tensor, cells: int = _CELLS) -> NDArray[np.float64]:
    """Say how closely each layer saw each cell of the document: 1 token by token, 0 coarsest.

    Args:
        resolutions: `(layers, tokens)`.
        cells: at most so many, each of which shows the closest of its tokens.
    """
    coarsest = max(2, int(resolutions.max()))
    close = 1 - np.log(resolutions.numpy()) / np.log(coarsest)
    starts = np.unique(np.linspace(0, close.shape[1], cells, endpoint=False).astype(int))
    return np.maximum.reduceat(close, starts, axis=1)


def _draw(axes: Any, segments: Segments) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    layers, tokens = segments.resolutions.shape
    first = segments.first_layer
    axes.imshow(
        closeness(segments.resolutions),
        LinearSegmentedColormap.from_list("closeness", [_COARSE, _CLOSE]),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
        extent=(0, tokens, first + layers + 0.5, first + 0.5),
    )
    axes.set_yticks(range(first + 1, first + layers + 1))
    axes.set_ylabel("layer", color=INK)


def _sections(document: Document, sentence_ids: Tensor) -> list[tuple[int, str]]:
    """The token that each outermost section's first sentence begins with, and its title."""
    starts = []
    num_sentences = 0
    for path, section in document.walk():
        if len(path) == 1:
            is_later = sentence_ids >= num_sentences
            starts.append((int(is_later.int().argmax()), section.title))
        num_sentences += sum(len(paragraph.sentences) for paragraph in section.paragraphs)
    return starts


def _apart(begins: list[tuple[int, str]], distance: float) -> list[tuple[int, str]]:
    """Those sections whose titles do not cover the one before."""
    named: list[tuple[int, str]] = []
    for begin in begins:
        if not named or begin[0] - named[-1][0] >= distance:
            named.append(begin)
    return named
