"""Spreadsheets: a section for each sheet, and a sentence for each row with its column headers.

The libraries that read XLSX give the values of cells, not what a sheet shows, and refuse files
that Excel opens. Hidden sheets are left out.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from foveate.documents.blocks import Block, Heading, ParsedText, Prose, collapse, compose_text
from foveate.documents.markup import Element, attribute, integer, local
from foveate.documents.metadata import split_names
from foveate.documents.readers.office.drawings import drawn_blocks, shown_text
from foveate.documents.readers.office.number_formats import BUILT_IN, show
from foveate.documents.readers.office.package import Package, reference
from foveate.documents.readers.office.paragraphs import table_cell
from foveate.documents.tables import Cell, table_blocks

_log = logging.getLogger(__name__)
_DATUM = re.compile(r"(?!(?:19|20)\d\d\Z)[\W\d]+")  # a number, which heads no column; but years do
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")


@dataclass(slots=True)
class Worksheet:
    """What a sheet shows.

    Attributes:
        name: Its name.
        cells: The texts of its cells that are not empty, by row and by column.
        merged: Rows and columns that a cell spans, by its row and column.
    """

    name: str
    cells: defaultdict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    merged: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def blocks(self) -> Iterator[Block]:
        """Yield the name of the sheet and its rows; tables are divided by empty rows."""
        yield Heading(1, self.name)
        heads: list[list[Cell]] = []
        head_columns: list[int] = []
        for rows in self.tables():
            columns = sorted({column for row in rows for column in self.cells[row]})
            begin = next((n for n, row in enumerate(rows) if len(self.cells[row]) > 1), len(rows))
            for row in rows[:begin]:  # titles and remarks
                [text] = self.cells[row].values()
                yield self.placed(Prose(table_cell(text, row).text))
            covered = {
                (below, right)
                for row in rows
                for column in self.cells[row]
                for high, wide in [self.merged.get((row, column), (1, 1))]
                for below in range(row + 1, min(row + high, rows[-1] + 1))
                for right in columns
                if column <= right < column + wide
            }
            cells = [self.written(row, columns, rows[-1], covered) for row in rows[begin:]]
            num_heads = 0
            if len(cells) > 1 and not any(map(_DATUM.fullmatch, self.cells[rows[begin]].values())):
                num_heads = max(cell.rows for cell in cells[0])
                heads, head_columns = cells[:num_heads], columns
            elif cells and columns == head_columns:  # the same table goes on
                cells, num_heads = [*heads, *cells], len(heads)
            for block in table_blocks(cells, num_heads if num_heads < len(cells) else 0):
                yield self.placed(block)

    def tables(self) -> Iterator[list[int]]:
        """Yield the numbers of rows that follow each other."""
        table: list[int] = []
        for row in sorted(row for row, cells in self.cells.items() if cells):
            if table and row > table[-1] + 1:
                yield table
                table = []
            table.append(row)
        if table:
            yield table

    def written(
        self, row: int, columns: Sequence[int], end: int, covered: set[tuple[int, int]]
    ) -> list[Cell]:
        """Return a row of a table that ends in row `end`, without what other cells cover."""
        written: list[Cell] = []
        last = 0
        for column in columns:
            if column <= last or (row, column) in covered:
                continue
            is_shown = column in self.cells[row]
            spanned, wide = self.merged.get((row, column), (1, 1)) if is_shown else (1, 1)
            last = column + wide - 1
            written.append(
                table_cell(
                    self.cells[row].get(column, ""),
                    row,
                    sum(column <= one <= last for one in columns),
                    min(spanned, end - row + 1),
                )
            )
        return written

    def placed(self, block: Prose) -> Prose:
        """Name the place of a block, whose row takes the place of its offset."""
        return replace(block, place=f"sheet {self.name}, row {block.text.source_span(0, 1)[0]}")


def read(data: bytes) -> ParsedText:
    """Read the rows of each sheet that is not hidden, then its text boxes and charts."""
    package = Package(data, "XLSX")
    main = package.relations("").get("officeDocument", ["xl/workbook.xml"])[0]
    workbook = package.require(main)
    relations = package.relations(main)
    reader = _Cells(package, workbook, relations)
    blocks: list[Block] = []
    hidden: list[str] = []
    for element in workbook.iterfind("{*}sheets/{*}sheet"):
        name = collapse(attribute(element, "name"))
        [part] = relations.get(reference(element), [""])[:1]
        root = package.xml(part)
        if attribute(element, "state") in ("hidden", "veryHidden"):
            hidden.append(name)
        elif root is not None:
            blocks += reader.sheet(name, root).blocks()
            for block in _drawn(package, part):
                blocks.append(replace(block, place=f"sheet {name}"))
    report_hidden(hidden)
    title, author = package.properties()
    return replace(compose_text(title or None, blocks), authors=split_names(author))


def report_hidden(names: Sequence[str]) -> None:
    """Say which sheets are left out."""
    if names:
        _log.warning("Hidden sheets are left out: %s.", ", ".join(names))


def _drawn(package: Package, part: str) -> Iterator[Prose]:
    """Yield the text boxes, charts and SmartArt of a sheet."""
    for name in package.relations(part).get("drawing", ()):
        root = package.xml(name)
        for shape in () if root is None else root.iter("{*}txBody"):
            if shown := shown_text(shape):
                yield Prose(table_cell(shown, 0).text)
        relations = package.relations(name)
        for drawing in (*relations.get("chart", ()), *relations.get("diagramData", ())):
            yield from drawn_blocks(package, drawing)


class _Cells:
    """Reads the cells of a workbook."""

    def __init__(
        self, package: Package, workbook: Element, relations: dict[str, list[str]]
    ) -> None:
        strings, styles = (
            package.xml(relations.get(role, [""])[0]) for role in ("sharedStrings", "styles")
        )
        self.strings = [_string(one) for one in (() if strings is None else strings)]
        self.formats: list[str] = []  # by style
        if styles is not None:
            codes = BUILT_IN | {
                integer(attribute(one, "numFmtId"), 0): attribute(one, "formatCode")
                for one in styles.iterfind("{*}numFmts/{*}numFmt")
            }
            for style in styles.iterfind("{*}cellXfs/{*}xf"):
                self.formats.append(codes.get(integer(attribute(style, "numFmtId"), 0), ""))
        properties = workbook.find("{*}workbookPr")
        self.is_1904 = attribute(properties, "date1904") in ("1", "true")

    def sheet(self, name: str, root: Element) -> Worksheet:
        sheet = Worksheet(name)
        number = 0
        for row in root.iterfind("{*}sheetData/{*}row"):
            number = integer(attribute(row, "r"), number + 1)
            column = 0
            for cell in row.iterfind("{*}c"):
                column = _column(attribute(cell, "r")) or column + 1
                if shown := collapse(self.text(cell)):
                    sheet.cells[number][column] = shown
        for merged in root.iterfind("{*}mergeCells/{*}mergeCell"):
            corners = [_REFERENCE.fullmatch(one) for one in attribute(merged, "ref").split(":")]
            if len(corners) == 2 and corners[0] and corners[1]:
                top, bottom = (int(corner[2]) for corner in corners if corner)
                left, right = (_column(corner[0]) for corner in corners if corner)
                sheet.merged[top, left] = bottom - top + 1, right - left + 1
        return sheet

    def text(self, cell: Element) -> str:
        """Return what a cell shows."""
        kind = attribute(cell, "t", "n")
        written = cell.findtext("{*}v") or ""
        if kind == "inlineStr":
            return _string(cell)
        if kind == "s":
            index = integer(written, len(self.strings))
            return self.strings[index] if index < len(self.strings) else ""
        if kind == "b":
            return "TRUE" if written == "1" else "FALSE"
        style = integer(attribute(cell, "s"), 0)
        code = self.formats[style] if style < len(self.formats) else ""
        try:
            number = float(written)
        except ValueError:
            return written
        return show(number, code, is_1904=self.is_1904) if kind == "n" else written


def _string(element: Element) -> str:
    """Return a text without its pronunciation."""
    return "".join(
        one.text or "" for one in element.iter("{*}t") if local(one.getparent()) != "rPh"
    )


def _column(name: str) -> int:
    """Return the number of the column of a cell: 28 of "AB3"; 0 if it has no name."""
    match = _REFERENCE.fullmatch(name)
    number = 0
    for letter in match[1] if match else "":
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
