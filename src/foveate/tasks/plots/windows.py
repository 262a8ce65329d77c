"""Plot of full, Longformer, BigBird and keyword attention side by side."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foveate.tasks.plots.figure import INK, PALE, add_legend, check_image_path, save, square_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pattern: TypeAlias = NDArray[np.uint8]

NEAR, RANDOM, GLOBAL, KEYWORD = 1, 2, 3, 4
_LEGEND = {
    NEAR: ("local", "#a9c9e8"),
    RANDOM: ("random", "#7fb685"),
    GLOBAL: ("global", "#1f5fa8"),
    KEYWORD: ("keywords", "#c8283c"),
}
_TITLES = {"full": "Full", "longformer": "Longformer", "bigbird": "BigBird", "keywords": "Keywords"}
_PANEL, _GAP, _HEAD, _FOOT = 2.6, 0.3, 0.45, 0.5  # inches

PATTERNS = tuple(_TITLES)


def plot_windows(
    path: str | PathLike[str],
    *,
    patterns: Sequence[str] = PATTERNS,
    num_tokens: int = 48,
    window: int = 8,
    num_keywords: int = 5,
    seed: int = 0,
) -> None:
    """Plot attention patterns side by side (EGAD, figure 5).

    A row is a query and a column is a key; a coloured square means that the query attends to the
    key.

    Args:
        path: Image file; its suffix (.png, .svg, .pdf, ...) gives the format.
        patterns: Some of `PATTERNS`, in the order of the panels.
        num_tokens: Length of the sequence.
        window: Number of tokens, on both sides together, that a token attends to. BigBird's blocks
            are half as long.
        num_keywords: Number of keyword tokens, which follow the first token.
        seed: Seed of BigBird's random blocks.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: The suffix is not an image format, a pattern is unknown, there are none, or the
            numbers contradict each other.
        OSError: The file cannot be written.

    Example:
        >>> from foveate.tasks.plots import plot_windows
        >>> plot_windows(getfixture("tmp_path") / "windows.png", num_tokens=24, window=4)
    """
    check_image_path(path)
    if not patterns or not set(patterns) <= set(PATTERNS):
        raise ValueError(f"name patterns of {', '.join(PATTERNS)}; got {', '.join(patterns)}")
    if not (num_tokens >= 1 and window >= 2 and 0 <= num_keywords < num_tokens):
        raise ValueError(
            "give at least 1 token, a window of at least 2, and fewer keywords than tokens; got "
            f"{num_tokens} tokens, a window of {window}, and {num_keywords} keywords"
        )
    images = {
        "full": np.full((num_tokens, num_tokens), NEAR, np.uint8),
        "longformer": longformer_pattern(num_tokens, window),
        "bigbird": bigbird_pattern(num_tokens, window // 2, seed=seed),
        "keywords": longformer_pattern(num_tokens, window, num_keywords),
    }
    figure, panels = square_panels(len(patterns), _PANEL, gap=_GAP, head=_HEAD, foot=_FOOT)
    for panel, name in zip(panels, patterns, strict=True):
        _draw(panel, images[name], _TITLES[name])
    kinds = {int(kind) for name in patterns for kind in np.unique(images[name])}
    add_legend(figure, _GAP, [_LEGEND[kind] for kind in sorted(kinds - {0})])
    save(figure, path)


def longformer_pattern(num_tokens: int, window: int, num_keywords: int = 0) -> Pattern:
    """Return the pattern of Longformer: a window, and global tokens at the start.

    The first token is global, and so are the keyword tokens that follow it.

    Returns:
        Kinds of shape `(num_tokens, num_tokens)`, query by key; 0 for pairs without attention.
    """
    position = np.arange(num_tokens)
    near = np.abs(position[:, None] - position[None]) <= window // 2
    image = np.where(near, NEAR, 0).astype(np.uint8)
    image[1 : num_keywords + 1] = image[:, 1 : num_keywords + 1] = KEYWORD
    image[0] = image[:, 0] = GLOBAL
    return image


def bigbird_pattern(
    num_tokens: int, block_size: int, *, num_random: int = 2, seed: int = 0
) -> Pattern:
    """Return the pattern of BigBird, where whole blocks attend to whole blocks.

    The first and the last block are global. Every other block attends to itself, to both its
    neighbours, and to `num_random` other blocks.

    Returns:
        Kinds of shape `(num_tokens, num_tokens)`, query by key; 0 for pairs without attention.
    """
    generator = np.random.default_rng(seed)
    block_of_token = np.arange(num_tokens) // block_size
    blocks = np.arange(block_of_token[-1] + 1)
    near = np.abs(np.subtract.outer(blocks, blocks)) <= 1
    by_block = np.where(near, NEAR, 0).astype(np.uint8)
    for row in range(1, len(blocks) - 1):
        free = np.flatnonzero(by_block[row, 1:-1] == 0) + 1
        by_block[row, generator.permutation(free)[:num_random]] = RANDOM
    for end in (0, -1):
        by_block[end] = by_block[:, end] = GLOBAL
    return by_block[block_of_token[:, None], block_of_token[None]]


def _draw(axes: "Axes", image: Pattern, title: str) -> None:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(["white", *(colour for _, colour in _LEGEND.values())])
    axes.pcolormesh(image, cmap=colours, vmin=0, vmax=KEYWORD, edgecolors=PALE, linewidth=0.1)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
