"""Shared by all plots: a figure with panels, its title, and the image file.

All lengths are in inches.
"""

from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from foveate.files import atomic_write, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#30343b", "#b9bec6"

_FORMATS = ("png", "svg", "pdf", "jpg", "jpeg", "webp")
_CHARACTERS_PER_INCH = 8  # of a title


def check_image_path(path: str | PathLike[str]) -> None:
    """Check, before any work is done, that an image can be written to a path.

    Raises:
        ValueError: The path does not end in the suffix of an image format.
        OSError: The file cannot be written.
    """
    if Path(path).suffix.lower().removeprefix(".") not in _FORMATS:
        raise ValueError(f"{path} must end in the name of an image format: {', '.join(_FORMATS)}")
    check_writable(path)


def save(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure in the format given by the path's suffix, completely or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    with atomic_write(path) as temporary:
        figure.savefig(temporary)


def new_figure(width: float, height: float) -> "Figure":
    """Make an empty figure.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: run `pip install 'foveate[plot]'`") from error
    return Figure(figsize=(width, height), dpi=160, facecolor="white")


def add_panel(figure: "Figure", left: float, bottom: float, width: float, height: float) -> "Axes":
    """Add axes to a figure."""
    figure_width, figure_height = figure.get_size_inches()
    axes = figure.add_axes(
        (left / figure_width, bottom / figure_height, width / figure_width, height / figure_height)
    )
    axes.tick_params(colors=INK, labelsize=8, color=PALE)
    axes.spines[:].set_color(PALE)
    return axes


def add_title(figure: "Figure", left: float, title: str, caption: str) -> None:
    """Write a title, shortened to the figure's width, and a caption below it."""
    width, height = figure.get_size_inches()
    title = shorten(title, int(_CHARACTERS_PER_INCH * width))
    x = left / width
    figure.text(x, 1 - 0.42 / height, title, fontsize=15, color=INK, parse_math=False)
    figure.text(x, 1 - 0.7 / height, caption, fontsize=10, color=INK, parse_math=False)
