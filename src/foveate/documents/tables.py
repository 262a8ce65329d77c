"""Tables as sentences: one for each row, every cell with its column header."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from foveate.documents.blocks import MappedText, Prose, collapse, table_row

_LONGEST_ROW = 600  # characters; the cells of longer rows are paragraphs of their own
_LONGEST_REPEATED = 100  # characters of a header or a cell that further rows repeat
_EXPANSION = 4  # columns that spans may add for each cell: they cannot blow up a small file


@dataclass(slots=True)
class Cell:
    """A cell of a table as it is written.

    Attributes:
        text: What it holds.
        is_head: Whether it is the header of a column or row.
        columns: Number of columns that it spans.
        rows: Number of rows that it spans.
    """

    text: MappedText
    is_head: bool = False
    columns: int = 1
    rows: int = 1


def table_blocks(rows: Sequence[Sequence[Cell]], num_head_rows: int = 0) -> Iterator[Prose]:
    """Write a table as sentences.

    Args:
        rows: The cells of each row, in order, as they are written.
        num_head_rows: Number of rows at the top that hold the column headers. A later row of
            nothing but headers replaces them.

    Yields:
        A block of kind "table" for each row that is not a row of headers. A row that is too long
        for a sentence becomes prose, a block for each of its cells.
    """
    heads: list[str] = []
    was_head = False
    for number, line in enumerate(_grid(rows)):
        own = [cell for cell, is_own in line if is_own and cell.text]
        if not own:
            continue
        if number < num_head_rows or _is_head_row(line):
            heads = _joined(heads if was_head else [], line)
            was_head = True
            continue
        was_head = False
        yield from _row_blocks(heads, line)


Line = list[tuple[Cell, bool]]
"""The cell in each column of a row, and whether it is written in this row."""


def _grid(rows: Sequence[Sequence[Cell]]) -> Iterator[Line]:
    """Yield rows with the cells that span several columns or rows in each of them."""
    room = _EXPANSION * sum(len(row) for row in rows) + 1000
    carried: dict[int, tuple[Cell, int]] = {}  # by column; how many rows are left
    for row in rows:
        line: Line = []
        below: dict[int, tuple[Cell, int]] = {}
        written = iter(row)
        while True:
            column = len(line)
            if column in carried:
                cell, left = carried.pop(column)
                line.append((cell, False))
                if left > 1:
                    below[column] = cell, left - 1
                continue
            following = next(written, None)
            if following is None:
                break
            width = min(max(following.columns, 1), room + 1)
            room -= width - 1
            line += [(following, True)] * width
            if following.rows > 1:
                depth = min(following.rows, 1 + room // width)
                room -= (depth - 1) * width
                for spanned in range(column, column + width):
                    carried.pop(spanned, None)
                    if depth > 1:
                        below[spanned] = following, depth - 1
        for column in sorted(carried):  # cells from above to the right of the last written one
            cell, left = carried[column]
            line += [(Cell(MappedText()), False)] * (column - len(line))
            line.append((cell, False))
            if left > 1:
                below[column] = cell, left - 1
        carried = below
        yield line


def _is_head_row(line: Line) -> bool:
    """Return whether a row holds several headers and nothing else."""
    shown = {id(cell): cell for cell, _ in line if cell.text}
    return len(shown) > 1 and all(cell.is_head for cell in shown.values())


def _joined(heads: list[str], line: Line) -> list[str]:
    """Add a further row of headers to those of the columns."""
    further = [_repeatable(cell.text) for cell, _ in line]
    heads = heads + [""] * (len(further) - len(heads))
    further += [""] * (len(heads) - len(further))
    return [
        f"{head} {more}".strip() if more != head else head
        for head, more in zip(heads, further, strict=True)
    ]


def _repeatable(text: MappedText) -> str:
    """Return a text to be repeated in further rows, or nothing if it is long."""
    shown = collapse(text)
    return shown if len(shown) <= _LONGEST_REPEATED else ""


def _row_blocks(heads: list[str], line: Line) -> Iterator[Prose]:
    """Yield a row as a sentence, or the cells of a long one as paragraphs."""
    labels, cells = _labelled_cells(heads, line)
    if len(cells) > 1 and line[0][0].is_head and not labels[0]:
        labels[:2], cells[:2] = [""], [_with_head(cells[0], labels[1], cells[1])]
    elif len(cells) == 1 and len(line) > 1 and line[0][0] is line[-1][0]:  # a heading of its own
        labels = [""]
    row = table_row(labels, cells)
    if len(str(row)) <= _LONGEST_ROW:
        yield Prose(row, kind="table")
        return
    blocks = [
        Prose(table_row([label], [text])) for label, text in zip(labels, cells, strict=True) if text
    ]
    spans = [block.text.source_span(0, len(str(block.text))) for block in blocks]
    if all(start < end for start, end in spans) and all(
        one[1] <= other[0] for one, other in pairwise(spans)
    ):
        yield from blocks
    else:  # the lines of its cells are side by side
        yield Prose(row)


def _labelled_cells(heads: list[str], line: Line) -> tuple[list[str], list[MappedText]]:
    """Return the cells of a row that hold something, once each, with the headers above them."""
    labels: list[str] = []
    cells: list[MappedText] = []
    at = next(cell.text.source_span(0, 1)[0] for cell, is_own in line if is_own and cell.text)
    previous = None
    for column, (cell, is_own) in enumerate(line):
        if cell is previous or not cell.text:
            continue
        previous = cell
        label = heads[column] if column < len(heads) else ""
        if is_own:
            text = cell.text.stripped()
            at = text.source_span(len(str(text)) - 1, len(str(text)))[1]
        else:  # written in a row above: here it is a word of explanation
            text = MappedText()
            text.add(_repeatable(cell.text), at, at)
        labels.append(label)
        cells.append(text)
    return labels, cells


def _with_head(head: MappedText, label: str, first: MappedText) -> MappedText:
    """Put the header of a row before its first cell."""
    end = head.source_span(len(str(head)) - 1, len(str(head)))[1]
    said = MappedText()
    said.extend(head)
    if not str(head).endswith((":", "?")):
        said.add(":", end, end)
    said.add(" ", end, end)
    said.extend(table_row([label], [first]))
    return said
