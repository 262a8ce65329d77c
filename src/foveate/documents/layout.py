"""The positions of the words of a text on the pages of its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.documents.structure import Box, DocumentError


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The pages of a document and the places of its words on them.

    Attributes:
        page_sizes: `(pages, 2)` float32, width and height of each page in points (1/72 inch).
        starts: `(words,)` int64, ascending, the offset in the text of each word.
        lines: `(words,)` int64, the number of each word's line.
        pages: `(words,)` int64, the number of each word's page, from 1.
        boxes: `(words, 4)` float32, the left, top, right and bottom of each word in points from
            the upper left corner of its page.
    """

    page_sizes: NDArray[np.float32]
    starts: NDArray[np.int64]
    lines: NDArray[np.int64]
    pages: NDArray[np.int64]
    boxes: NDArray[np.float32]

    def __eq__(self, other: object) -> bool:
        """Return whether two layouts have the same pages and words."""
        return isinstance(other, Layout) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment] # arrays are mutable

    def locate(self, spans: Sequence[tuple[int, int]]) -> list[tuple[Box, ...]]:
        """Find the boxes of stretches of the text: one for each line that a stretch touches.

        Args:
            spans: Start and end of each stretch.

        Returns:
            For each stretch its boxes, in the order of the text; none if no word is in it.
        """
        if not len(self.starts):
            return [() for _ in spans]
        bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
        firsts = np.searchsorted(self.starts, bounds[:, 0], side="right") - 1
        lasts = np.searchsorted(self.starts, bounds[:, 1], side="left")
        located: list[tuple[Box, ...]] = []
        for first, last in zip(np.maximum(firsts, 0).tolist(), lasts.tolist(), strict=True):
            located.append(self._merge(first, last) if last > first else ())
        return located

    def _merge(self, first: int, last: int) -> tuple[Box, ...]:
        """Unite the boxes of the words from `first` to `last` that are on one line."""
        lines = self.lines[first:last]
        begins = np.flatnonzero(np.diff(lines, prepend=lines[0] - 1))
        words = self.boxes[first:last]
        corners = np.concatenate(
            [
                np.minimum.reduceat(words[:, :2], begins, axis=0),
                np.maximum.reduceat(words[:, 2:], begins, axis=0),
            ],
            axis=1,
        )
        pages = self.pages[first:last][begins].tolist()
        return tuple(
            Box(page, *(round(points, 2) for points in corner))  # finer than any printer
            for page, corner in zip(pages, corners.tolist(), strict=True)
        )


def pack_layout(layout: Layout) -> dict[str, Any]:
    """Return a layout as lists, which JSON can hold."""
    return {name: getattr(layout, name).tolist() for name in Layout.__slots__}


def unpack_layout(data: Any, length: int) -> Layout:
    """Rebuild a layout from the result of `pack_layout`.

    Args:
        data: The lists.
        length: Number of characters of the text.

    Raises:
        DocumentError: The lists are inconsistent with each other or with the text.
    """
    try:
        layout = Layout(
            np.array(data["page_sizes"], dtype=np.float32).reshape(-1, 2),
            np.array(data["starts"], dtype=np.int64),
            np.array(data["lines"], dtype=np.int64),
            np.array(data["pages"], dtype=np.int64),
            np.array(data["boxes"], dtype=np.float32).reshape(-1, 4),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DocumentError(f"has a damaged layout ({error}): read its source again.") from error
    starts, pages = layout.starts, layout.pages
    fits = (
        starts.ndim == 1
        and starts.shape == layout.lines.shape == pages.shape == layout.boxes.shape[:1]
        and bool((np.diff(starts) >= 0).all())
        and bool(((starts >= 0) & (starts < length)).all())
        and bool(((pages >= 1) & (pages <= len(layout.page_sizes))).all())
    )
    if not fits:
        raise DocumentError("has a layout that does not fit its text: read its source again.")
    return layout
