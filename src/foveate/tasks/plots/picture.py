"""What all pictures share: the sheet and its panels, the words around them, and the file.

Lengths are in inches.
"""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import Any

from numpy.typing import NDArray

from foveate.files import written_whole

INK, PALE = "#30343b", "#b9bec6"

_FORMATS = ("png", "svg", "pdf", "jpg", "webp")
_RIGHT = 0.3
_LETTERS = 8  # of a title, to the inch


def check_format(path: str | PathLike[str]) -> None:
    """Find out whether a file has the suffix of an image.

    Raises:
        ValueError: it has not.
    """
    if Path(path).suffix.lower().removeprefix(".") not in _FORMATS:
        raise ValueError(f"{path} must end in the name of an image format: {', '.join(_FORMATS)}")


def save(figure: Any, path: str | PathLike[str]) -> None:
    """Write a figure in the format that the path's suffix says, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with written_whole(path) as temporary:
        figure.savefig(temporary)


def sheet(width: float, height: float) -> Any:
    """An empty figure.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: run `pip install 'foveate[plot]'`") from error
    return Figure(figsize=(width, height), dpi=160, facecolor="white")


def panel(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place of a figure."""
    whole, high = figure.get_size_inches()
    axes = figure.add_axes((left / whole, bottom / high, width / whole, height / high))
    axes.tick_params(colors=INK, labelsize=8, color=PALE)
    axes.spines[:].set_color(PALE)
    return axes


def squares(
    count: int, side: float, *, gap: float, head: float, foot: float
) -> tuple[Any, list[Any]]:
    """A figure with squares side by side, a gap before each."""
    figure = sheet(count * (gap + side) + _RIGHT, head + side + foot)
    lefts = [gap + column * (gap + side) for column in range(count)]
    return figure, [panel(figure, left, foot, side, side) for left in lefts]


def paint(axes: Any, kinds: NDArray[Any], colours: Sequence[Any], size: int) -> None:
    """Fill a square of `size` by `size`, counted from its upper left.

    Args:
        axes: the square.
        kinds: `(cells, cells)`, 0 where it stays white, else 1 + the place of the colour.
        colours: as matplotlib takes them.
        size: what an edge counts.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    axes.imshow(
        kinds,
        ListedColormap(["white", *colours]),
        vmin=0,
        vmax=len(colours),
        interpolation="nearest",
        extent=(0, size, size, 0),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axis.set_major_formatter("{x:,.0f}")


def heading(figure: Any, left: float, title: str, caption: str) -> None:
    """Write a title, as much as has room, and a line below it."""
    width, height = figure.get_size_inches()
    style = {"x": left / width, "color": INK, "parse_math": False}
    figure.text(y=1 - 0.42 / height, s=shorten(title, int(_LETTERS * width)), fontsize=15, **style)
    figure.text(y=1 - 0.7 / height, s=caption, fontsize=10, **style)


def legend(figure: Any, left: float, entries: Iterable[tuple[str, Any]], **options: Any) -> None:
    """Say at the foot what colours mean.

    Args:
        figure: the figure.
        left: where it begins.
        entries: words and the colour of each.
        options: further ones, of matplotlib's legend.
    """
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=words) for words, colour in entries]
    style = {"ncols": len(handles), "fontsize": 10} | options
    made = figure.legend(
        handles=handles,
        loc="lower left",
        frameon=False,
        labelcolor=INK,
        handlelength=1,
        handleheight=1,
        bbox_to_anchor=((left - 0.1) / figure.get_figwidth(), 0),
        **style,
    )
    made.get_title().set_color(INK)
