"""Layouts of few words."""

from typing import NamedTuple

import numpy as np

from foveate.documents.layout import Layout


class PlacedWord(NamedTuple):
    """The offset of a word in the text, the numbers of its line and page, and its box."""

    start: int
    line: int
    page: int
    left: float
    top: float
    right: float
    bottom: float


def layout_of(page_sizes, words):
    """Return the layout of words on pages of these widths and heights."""
    table = np.array(words, np.float64).reshape(-1, len(PlacedWord._fields))
    sizes = np.array(page_sizes, np.float32).reshape(-1, 2)
    return Layout(sizes, *table[:, :3].astype(np.int64).T, table[:, 3:].astype(np.float32))
