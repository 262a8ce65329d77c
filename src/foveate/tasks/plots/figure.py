"""Shared by all plots: a figure with panels, its title and legend, and the image file.

All lengths are in inches.
"""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from foveate.files import atomic_write, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour: TypeAlias = str | tuple[float, float, float, float]

INK, PALE = "#30343b", "#b9bec6"

_FORMATS = ("png", "svg", "pdf", "jpg", "jpeg", "webp")
_RIGHT_MARGIN = 0.3
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


def square_panels(
    num_panels: int, side: float, *, gap: float, head: float, foot: float
) -> tuple["Figure", list["Axes"]]:
    """Make a figure with square panels side by side.

    Args:
        num_panels: Number of panels.
        side: Side of each panel.
        gap: Space to the left of each panel.
        head: Space above the panels.
        foot: Space below the panels.
    """
    figure = new_figure(num_panels * (gap + side) + _RIGHT_MARGIN, head + side + foot)
    lefts = [gap + column * (gap + side) for column in range(num_panels)]
    return figure, [add_panel(figure, left, foot, side, side) for left in lefts]


def paint(axes: "Axes", image: NDArray[Any], colours: Sequence[Colour], size: int) -> None:
    """Fill a square panel with an image.

    Args:
        axes: The panel.
        image: Kinds of the cells, of shape `(cells, cells)`: 0 for white, or 1 + an index into
            `colours`.
        colours: Colours of the kinds.
        size: Number of positions along each side, which the ticks count from the upper left.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    axes.imshow(
        image,
        ListedColormap(["white", *colours]),
        vmin=0,
        vmax=len(colours),
        interpolation="nearest",
        extent=(0, size, size, 0),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axis.set_major_formatter("{x:,.0f}")


def add_title(figure: "Figure", left: float, title: str, caption: str) -> None:
    """Write a title, shortened to the figure's width, and a caption below it."""
    width, height = figure.get_size_inches()
    title = shorten(title, int(_CHARACTERS_PER_INCH * width))
    x = left / width
    figure.text(x, 1 - 0.42 / height, title, fontsize=15, color=INK, parse_math=False)
    figure.text(x, 1 - 0.7 / height, caption, fontsize=10, color=INK, parse_math=False)


def add_legend(
    figure: "Figure", left: float, entries: Iterable[tuple[str, Colour]], **options: Any
) -> None:
    """Explain the colours at the foot of a figure.

    Args:
        figure: The figure.
        left: Left edge of the legend.
        entries: Label and colour of each entry.
        options: Further options of matplotlib's legend.
    """
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=label) for label, colour in entries]
    style = {"ncols": len(handles), "fontsize": 10} | options
    legend = figure.legend(
        handles=handles,
        loc="lower left",
        frameon=False,
        labelcolor=INK,
        handlelength=1,
        handleheight=1,
        bbox_to_anchor=((left - 0.1) / figure.get_figwidth(), 0),
        **style,
    )
    legend.get_title().set_color(INK)
