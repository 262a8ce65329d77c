"""Tables: lines whose cells are aligned in columns."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from foveate.documents.readers.pdf.lines import Line

_MARKER = re.compile(r"^([•‣▪■●○◦–—\-*∗·►✓]|\(?[0-9A-Za-z]{1,3}[.)]|\[\d+\]|(\d+\.)*\d+\.?)$")
_NUMERIC = re.compile(r"^\W*\d")
_NEAR = 3.0  # points by which a cell may miss the edge of its column
_CLOSE = 1.4  # sizes between the baselines of two lines of a cell, the most
_WIDEST_GAP = 3.0  # sizes between the baselines of two rows of a table

CellBounds = tuple[int, int]
"""First word of a cell in its line, and the word after its last."""


def cells_of(line: Line) -> list[CellBounds]:
    """Return the cells of a line."""
    bounds = [0, *line.cells, len(line.words)]
    return list(pairwise(bounds))


def is_row(line: Line) -> bool:
    """Return whether a line has several cells, more than a marker and the text of an item."""
    if not line.cells:
        return False
    first = " ".join(line.words[: line.cells[0]])
    return len(line.cells) > 1 or not _MARKER.match(first)


def find_tables(lines: Sequence[Line], above: Sequence[Line] = ()) -> list[tuple[int, int]]:
    """Find tables among the lines of a frame.

    Args:
        lines: The lines.
        above: Those of the table that the page or column before ends with, if it does.

    Returns:
        Index of the first line of each table, and of the line after its last.
    """
    found: list[tuple[int, int]] = []
    number = 0
    while number < len(lines):
        if not is_row(lines[number]):
            number += 1
            continue
        end = _table_end(lines, number)
        rows = [line for line in lines[number:end] if is_row(line)]
        if (
            (not number and continues(above, lines[0]))
            or len(rows) >= 3
            or (len(rows) == 2 and all(len(line.cells) > 1 for line in rows))
        ):
            found.append((number, end))
            number = end
        else:
            number += 1
    return found


def _table_end(lines: Sequence[Line], start: int) -> int:
    end = last_row = start
    for end in range(start + 1, len(lines)):
        line, previous = lines[end], lines[end - 1]
        if line.baseline - previous.baseline > _WIDEST_GAP * max(line.size, previous.size):
            break
        if is_row(line):
            last_row = end
        elif end - last_row > 3 or line.right - line.left > 0.6 * (
            line.frame.right - line.frame.left
        ):
            break
    row = lines[last_row]
    lefts = row.boxes[list(row.cells), 0] if is_row(row) else np.zeros(0)
    for line, above in zip(lines[last_row + 1 :], lines[last_row:], strict=False):
        is_close = 0 < line.baseline - above.baseline < _CLOSE * line.size
        if not (is_close and len(lefts) and np.abs(lefts - line.left).min() < _NEAR):
            break
        last_row += 1  # more of its last cells
    return last_row + 1


def continues(above: Sequence[Line], line: Line) -> bool:
    """Return whether a line at the top of a page or column is a row of the table above."""
    if not (above and is_row(line)) or line.page - above[-1].page > 1:
        return False
    if line.bold > 0.8 and line.text != above[0].text:  # the head of another
        return False
    columns = np.array(_find_columns(above))
    shift = line.left - min(row.left for row in above)
    starts = [0, *line.cells]
    edges = np.stack([line.boxes[starts, 0], np.maximum.reduceat(line.boxes[:, 2], starts)], axis=1)
    far = np.abs(edges[:, None] - shift - columns).min(axis=2).min(axis=1)
    return bool((far < _NEAR).all())


def arrange(lines: Sequence[Line]) -> list[list[list[tuple[Line, CellBounds]]]]:
    """Arrange the lines of a table, which may go on over pages, into rows and columns.

    A line without a first cell continues the row above it.

    Returns:
        For each row, for each column, the parts of lines in it.
    """
    shifts = _shifts(lines)
    columns = _find_columns(lines)
    rows: list[list[list[tuple[Line, CellBounds]]]] = []
    previous: Line | None = None
    pitch = _pitch(lines)
    for line in lines:
        placed: list[list[tuple[Line, CellBounds]]] = [[] for _ in columns]
        for first, last in cells_of(line):
            left = float(line.boxes[first, 0]) - shifts[id(line.frame)]
            right = float(line.boxes[first:last, 2].max()) - shifts[id(line.frame)]
            column = max(
                range(len(columns)),
                key=lambda i: min(right, columns[i][1]) - max(left, columns[i][0]),
            )
            placed[column].append((line, (first, last)))
        continues = (
            rows
            and previous is not None
            and not placed[0]
            and line.baseline - previous.baseline < 1.2 * pitch
            and sum(map(bool, placed)) < max(2, sum(map(bool, rows[-1])))
        )
        if continues:
            for cell, more in zip(rows[-1], placed, strict=True):
                cell.extend(more)
        else:
            rows.append(placed)
        previous = line
    return rows


def _pitch(lines: Sequence[Line]) -> float:
    steps = [b.baseline - a.baseline for a, b in pairwise(lines)]
    return min((step for step in steps if step > 2), default=12.0)


def _shifts(lines: Sequence[Line]) -> dict[int, float]:
    """Return by how much each frame is further right than the first."""
    lefts: dict[int, float] = {}
    for line in lines:
        lefts[id(line.frame)] = min(lefts.get(id(line.frame), line.left), line.left)
    return {frame: left - lefts[id(lines[0].frame)] for frame, left in lefts.items()}


def _find_columns(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Return the left and right edges of the columns, by the rows with most cells."""
    most = Counter(len(line.cells) for line in lines if line.cells)
    usual = max(most, key=lambda cells: (most[cells] >= 2, cells))
    shifts = _shifts(lines)
    intervals = sorted(
        (
            float(line.boxes[first, 0]) - shifts[id(line.frame)],
            float(line.boxes[first:last, 2].max()) - shifts[id(line.frame)],
        )
        for line in lines
        if len(line.cells) == usual
        for first, last in cells_of(line)
    )
    columns: list[tuple[float, float]] = []
    for left, right in intervals:
        if columns and left < columns[-1][1] - 1:
            columns[-1] = columns[-1][0], max(columns[-1][1], right)
        else:
            columns.append((left, right))
    return columns


def has_heads(rows: Sequence[Sequence[Sequence[tuple[Line, CellBounds]]]]) -> bool:
    """Return whether the first row names the columns: in bold type, or words above numbers."""
    if len(rows) < 2 or not all(rows[0][1:]):
        return False
    first = [part for cell in rows[0] for part in cell]
    others = [part for row in rows[1:] for cell in row for part in cell]
    if all(line.bold > 0.8 for line, _ in first) and not all(line.bold > 0.8 for line, _ in others):
        return True
    below = [" ".join(line.words[a:b]) for line, (a, b) in others]
    above = [" ".join(line.words[a:b]) for line, (a, b) in first]
    numeric = sum(bool(_NUMERIC.match(text)) for text in below)
    return not any(_NUMERIC.match(text) for text in above) and numeric > 0.25 * len(below)
