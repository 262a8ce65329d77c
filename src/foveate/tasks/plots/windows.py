"""Who attends whom in full, Longformer, BigBird and keyword attention, as pictures."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .picture import INK, PALE, check_format, legend, save, squares

Pattern = NDArray[np.uint8]

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


def plot_patterns(
    path: str | PathLike[str],
    *,
    patterns: Sequence[str] = PATTERNS,
    tokens: int = 48,
    window: int = 8,
    keywords: int = 5,
    seed: int = 0,
) -> None:
    """Draw attention patterns side by side (EGAD, figure 5).

    A row is a query, a column a key; a dot says that the one attends the other.

    Args:
        path: the image; its suffix (.png, .svg, .pdf, ...) says the format.
        patterns: which of `PATTERNS`, in order.
        tokens: length of the sequence.
        window: tokens on both sides together that a token attends; BigBird's blocks have half.
        keywords: tokens of keywords, behind the first token.
        seed: of BigBird's random blocks.

    Raises:
        ImportError: matplotlib, the `plot` extra, is not installed.
        ValueError: no format of images; no patterns, or one there is not; or sizes that make no
            picture.
        OSError: the file cannot be written.

    Example:
        >>> from foveate.tasks.plots.windows import plot_patterns
        >>> plot_patterns(getfixture("tmp_path") / "patterns.png", tokens=24, window=4)
    """
    check_format(path)
    if not patterns or not set(patterns) <= set(PATTERNS):
        raise ValueError(f"name patterns of {', '.join(PATTERNS)}; got {', '.join(patterns)}")
    if not (tokens >= 1 and window >= 2 and 0 <= keywords < tokens):
        raise ValueError(
            "a picture needs a token, a window of 2, and fewer keywords than tokens; got "
            f"{tokens} tokens, a window of {window}, and {keywords} keywords"
        )
    images = {
        "full": np.full((tokens, tokens), NEAR, np.uint8),
        "longformer": longformer(tokens, window),
        "bigbird": bigbird(tokens, window // 2, seed=seed),
        "keywords": longformer(tokens, window, keywords),
    }
    figure, axes = squares(len(patterns), _PANEL, gap=_GAP, head=_HEAD, foot=_FOOT)
    for square, name in zip(axes, patterns, strict=True):
        _draw(square, images[name], _TITLES[name])
    shown = sorted({int(kind) for name in patterns for kind in np.unique(images[name]) if kind})
    legend(figure, _GAP, [_LEGEND[kind] for kind in shown])
    save(figure, path)


def longformer(tokens: int, window: int, keywords: int = 0) -> Pattern:
    """Kinds of the pairs in Longformer, the first token global, and behind it those of keywords.

    Returns:
        `(tokens, tokens)`, query by key; 0 where nothing is attended.
    """
    place = np.arange(tokens)
    near = np.abs(place[:, None] - place[None]) <= window // 2
    image = np.where(near, NEAR, 0).astype(np.uint8)
    image[1 : keywords + 1] = image[:, 1 : keywords + 1] = KEYWORD
    image[0] = image[:, 0] = GLOBAL
    return image


def bigbird(tokens: int, block: int, *, drawn: int = 2, seed: int = 0) -> Pattern:
    """Kinds of the pairs in BigBird, whose blocks attend as a whole.

    The first and the last block are global; every other attends itself, both neighbours, and
    `drawn` more.

    Returns:
        `(tokens, tokens)`, query by key; 0 where nothing is attended.
    """
    generator = np.random.default_rng(seed)
    owner = np.arange(tokens) // block
    blocks = int(owner[-1]) + 1
    near = np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks))) <= 1
    coarse = np.where(near, NEAR, 0).astype(np.uint8)
    for row in range(1, blocks - 1):
        free = np.flatnonzero(coarse[row, 1:-1] == 0) + 1
        coarse[row, generator.permutation(free)[:drawn]] = RANDOM
    for end in (0, -1):
        coarse[end] = coarse[:, end] = GLOBAL
    return coarse[owner[:, None], owner[None]]


def _draw(axes: Any, image: Pattern, title: str) -> None:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(["white", *(colour for _, colour in _LEGEND.values())])
    axes.pcolormesh(image, cmap=colours, vmin=0, vmax=KEYWORD, edgecolors=PALE, linewidth=0.1)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
