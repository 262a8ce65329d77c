"""OpenDocument texts, presentations and spreadsheets, as LibreOffice writes them.

Headings, lists, tables and notes are distinct elements. Styles say which paragraphs are the title,
a caption or code, and how lists and headings are numbered.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from foveate.documents import formulas
from foveate.documents.blocks import ParsedText, Prose, collapse
from foveate.documents.markup import Element, attribute, integer, local, parse_xml
from foveate.documents.numerals import ListLevel, next_marker
from foveate.documents.readers.looks import Look
from foveate.documents.readers.office.package import Package, resolve
from foveate.documents.readers.office.paragraphs import (
    BlockCollector,
    ShownText,
    is_contents_style,
    style_kind,
    table_cell,
)
from foveate.documents.readers.office.sheets import Worksheet, report_hidden
from foveate.documents.structure import DocumentError, Kind
from foveate.documents.words import load_words, name_set

_HIDDEN, _INDEXES = (
    name_set(load_words("office")["open_document"][kind]) for kind in ("hidden", "indexes")
)
_SPACE = re.compile(r"\s+")
_SIZE = re.compile(r"(\d{1,3}(?:\.\d+)?)pt")
_MAX_NUMBER = 64  # of spaces, columns, rows and characters that one attribute stands for
_MAX_FORMULA = 500  # characters
_MAX_DEPTH = 9  # of lists


def read(data: bytes) -> ParsedText:
    """Read headings, paragraphs, lists, tables and notes, those of speakers included."""
    if data.startswith(b"PK"):
        package = Package(data, "ODT")
        manifest = package.xml("META-INF/manifest.xml")
        if manifest is not None and manifest.find(".//{*}encryption-data") is not None:
            raise DocumentError("has a password: open it and save it without one.")
        others = [package.xml(name) for name in ("styles.xml", "meta.xml")]
        parts = [package.require("content.xml"), *(part for part in others if part is not None)]
    else:  # all parts in one file, unzipped
        package, parts = None, [parse_xml(data, "ODT")]
    reader = _OdtBlocks(package, parts)
    for body in parts[0].iterfind("{*}body/{*}text"):
        reader.read_blocks(body)
    hidden = [
        attribute(sheet, "name")
        for sheet in parts[0].iterfind("{*}body/{*}spreadsheet/{*}table")
        if not reader.read_sheet(sheet)
    ]
    report_hidden(hidden)
    for number, slide in enumerate(parts[0].iterfind("{*}body/{*}presentation/{*}page"), 1):
        reader.read_slide(slide, number)
    title, author = (
        next(filter(None, (part.findtext(f"{{*}}meta/{{*}}{name}") for part in parts)), "")
        for name in ("title", "initial-creator")
    )
    return reader.collector.parsed(title, author)


def _levels(style: Element) -> dict[int, ListLevel]:
    """Return how a list or the headings are numbered, by depth."""
    levels: dict[int, ListLevel] = {}
    for element in style:
        depth = min(integer(attribute(element, "level"), 1), _MAX_DEPTH)
        has_number = local(element).endswith("number") or local(element) == "outline-level-style"
        num_shown = integer(attribute(element, "display-levels"), 1)
        above = range(max(depth - num_shown, 0) + 1, depth)
        numbers = [f"%{outer}" for outer in above if outer in levels and levels[outer].style]
        prefix, suffix = (
            attribute(element, f"num-{name}")[:_MAX_NUMBER] for name in ("prefix", "suffix")
        )
        levels[depth] = ListLevel(
            style=attribute(element, "num-format") if has_number else "",
            template=f"{prefix}{'.'.join([*numbers, f'%{depth}'])}{suffix}",
            start=integer(attribute(element, "start-value"), 1),
        )
    return levels


class _OdtBlocks:
    """Reads the blocks of a text."""

    def __init__(self, package: Package | None, parts: Sequence[Element]) -> None:
        self.package = package
        self.styles: dict[str, Element] = {}  # of paragraphs
        self.text_styles: dict[str, Element] = {}  # of parts of paragraphs
        self.table_styles: dict[str, Element] = {}
        self.lists: dict[str, dict[int, ListLevel]] = {}
        self.outline: dict[int, ListLevel] = {}
        for element in (element for part in parts for element in part.iter("{*}style")):
            if attribute(element, "family") == "paragraph":
                self.styles[attribute(element, "name")] = element
            elif attribute(element, "family") == "text":
                self.text_styles[attribute(element, "name")] = element
            elif attribute(element, "family") == "table":
                self.table_styles[attribute(element, "name")] = element
        for element in (element for part in parts for element in part.iter("{*}list-style")):
            self.lists[attribute(element, "name")] = _levels(element)
        for element in (element for part in parts for element in part.iter("{*}outline-style")):
            self.outline = _levels(element)
        self.list_counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.outline_counts: Counter[int] = Counter()
        self.collector = BlockCollector()

    def read_blocks(self, parent: Iterable[Element]) -> None:
        """Read the headings, paragraphs, lists and tables in an element."""
        for element in parent:
            name = local(element)
            if name in ("h", "p"):
                self.read_paragraph(element, None)
            elif name == "list":
                self.read_list(element, "", 1)
            elif name == "table":
                self.read_table(element)
            elif name in _INDEXES:
                for paragraph in element.iter("{*}p"):
                    self.collector.skip_paragraph(self.text(paragraph).text)
            elif name not in _HIDDEN:
                self.read_blocks(element)

    def read_slide(self, slide: Element, number: int) -> None:
        """Read the title and the other frames of a slide, then the notes of its speaker."""
        num_blocks = len(self.collector.blocks)
        for frame in slide:
            if attribute(frame, "class") == "title":
                shown = " ".join(self.text(one).text for one in frame.iter("{*}p"))
                self.collector.add_heading(1, shown)
            else:
                self.read_blocks([frame])
        num_shown = len(self.collector.blocks)
        for notes in slide.iterchildren("{*}notes"):
            self.read_blocks(notes)
        for index, block in enumerate(self.collector.blocks[num_blocks:], num_blocks):
            if isinstance(block, Prose):
                place = f"slide {number}"
                block.place = place if index < num_shown else f"notes of {place}"

    def read_sheet(self, table: Element) -> bool:
        """Read the rows of a sheet; return whether it is shown."""
        style = self.table_styles.get(attribute(table, "style-name"))
        if _property([style], "display") == "false":
            return False
        sheet = Worksheet(collapse(attribute(table, "name")))
        number = 1
        for row in table.iter("{*}table-row"):
            column = 1
            for cell in row.iterchildren("{*}table-cell", "{*}covered-table-cell"):
                repeated = integer(attribute(cell, "number-columns-repeated"), 1)
                text = collapse(self.text(cell).text)
                for place in range(column, column + min(repeated, _MAX_NUMBER) if text else 0):
                    sheet.cells[number][place] = text
                spans = [_number(cell, f"number-{name}-spanned") for name in ("rows", "columns")]
                if spans != [1, 1]:
                    sheet.merged[number, column] = spans[0], spans[1]
                column += repeated
            again = integer(attribute(row, "number-rows-repeated"), 1)
            for place in range(number + 1, number + min(again, _MAX_NUMBER)):
                if number in sheet.cells:
                    sheet.cells[place] = sheet.cells[number]
            number += again
        self.collector.blocks += sheet.blocks()
        return True

    def read_list(self, element: Element, style: str, depth: int) -> None:
        style = attribute(element, "style-name") or style
        continues = attribute(element, "continue-numbering") == "true"
        if depth == 1 and not continues and not attribute(element, "continue-list"):
            self.list_counts[style].clear()
        for item in element:
            is_item = local(item) == "list-item"
            if start := attribute(item, "start-value"):
                self.list_counts[style][depth] = integer(start, 1) - 1
            for child in item:
                name = local(child)
                if name == "list":
                    self.read_list(child, style, min(depth + 1, _MAX_DEPTH))
                elif name in ("h", "p"):
                    marker = None
                    if is_item:
                        counts = self.list_counts[style]
                        marker = next_marker(self.lists.get(style, {}), counts, depth)
                    self.read_paragraph(child, marker)
                    is_item = False
                else:
                    self.read_blocks([child])

    def read_paragraph(self, element: Element, marker: str | None) -> None:
        """Read a heading or paragraph; an item has a marker, which is empty for a bullet."""
        styles = self.styles_of(element)
        names = _names(styles, attribute(element, "style-name"))
        shown = self.text(element)
        text = shown.text
        if local(element) == "h":
            level = integer(attribute(element, "outline-level"), 1)
            if text.strip() and marker is None:
                marker = next_marker(self.outline, self.outline_counts, min(level, _MAX_DEPTH))
            self.collector.add_heading(level, f"{marker} {text}" if marker else text)
        elif is_contents_style(names):
            self.collector.skip_paragraph(text)
        elif "title" in names:
            self.collector.add_title(text)
        else:
            kind: Kind = "prose" if marker is None else "item"
            text = f"{marker} {text}" if marker and text.strip() else text
            look = self.look(element, styles, text)
            self.collector.add_paragraph(text, style_kind(names) or kind, look)
        self.read_appended(shown)

    def read_appended(self, shown: "_OdtText") -> None:
        """Read the notes and text boxes in a paragraph or table."""
        for note in shown.notes:
            kind = attribute(note, "note-class", "footnote")
            self.collector.add_note(self.text(note).text, kind)
        for box in shown.boxes:
            self.read_blocks(box)

    def styles_of(self, element: Element) -> list[Element]:
        """Return a paragraph's style and its ancestors."""
        chain: list[Element] = []
        name = attribute(element, "style-name")
        while name in self.styles and len(chain) < _MAX_NUMBER:
            chain.append(self.styles[name])
            name = attribute(chain[-1], "parent-style-name")
        return chain

    def look(self, element: Element, styles: Sequence[Element], text: str) -> Look:
        """Return how a paragraph looks, by its style, its ancestors and those of its parts."""
        spans = list(element.iterchildren("{*}span"))
        inside = sum(len("".join(span.itertext()).strip()) for span in spans)
        own = [self.text_styles.get(attribute(span, "style-name")) for span in spans]
        fonts: list[list[Element | None]] = [[style, *styles] for style in own]
        if inside < len(text.strip()) or not fonts:  # some of it is in no span
            fonts.insert(0, list(styles))
        size = _SIZE.fullmatch(_property(fonts[0], "font-size"))
        return Look(
            is_bold=all(_property(font, "font-weight") == "bold" for font in fonts),
            is_centred=_property(styles, "text-align") == "center",
            is_upper=text.isupper(),
            size=float(size[1]) if size else None,
        )

    def text(self, element: Element) -> "_OdtText":
        """Return the visible text of a paragraph, cell or note."""
        shown = _OdtText(self)
        shown.collect(element)
        return shown

    def level(self, span: Element) -> int:
        """Return 1 for a superscript, -1 for a subscript, else 0."""
        style = self.text_styles.get(attribute(span, "style-name"))
        position = _property([style], "text-position")
        if position.startswith(("sub", "-")):
            return -1
        return int(not position.startswith("0") and bool(position))

    def formula(self, element: Element) -> str:
        """Return the symbols of a formula, which may be a document of its own."""
        name, root = attribute(element, "href"), element
        if name and self.package:
            root = self.package.xml(resolve("", f"{name}/content.xml"))
        return "" if root is None else formulas.from_mathml(root)[:_MAX_FORMULA]

    def read_table(self, table: Element) -> None:
        rows = [
            row
            for row in table.iter("{*}table-row")
            if next(row.iterancestors("{*}table")) is table
        ]
        shown = [
            [(cell, self.text(cell)) for cell in row.iterchildren("{*}table-cell")] for row in rows
        ]
        if max(map(len, shown), default=0) < 2 or table.find(".//{*}table") is not None:
            for row in rows:  # it only lays out the page
                for cell in row:
                    self.read_blocks(cell)
            return
        cells = [
            [
                table_cell(
                    text.text,
                    number,
                    columns=_number(cell, "number-columns-spanned")
                    * _number(cell, "number-columns-repeated"),
                    rows=_number(cell, "number-rows-spanned"),
                )
                for cell, text in row
            ]
            for number, row in enumerate(shown, 1)
        ]
        heads = [row for row in rows if local(row.getparent()) == "table-header-rows"]
        self.collector.add_table(cells, len(heads) or None)
        for row in shown:
            for _, text in row:
                self.read_appended(text)


class _OdtText(ShownText):
    """What an element shows."""

    def __init__(self, reader: _OdtBlocks) -> None:
        super().__init__()
        self.reader = reader

    def collect(self, parent: Element) -> None:
        self.add(_SPACE.sub(" ", parent.text or ""))
        for element in parent:
            name = local(element)
            if name == "note":
                self.notes.append(element)
            elif name == "text-box":
                self.boxes.append(element)
            elif name == "s":
                self.add(" " * _number(element, "c"))
            elif name in ("tab", "line-break"):
                self.add("\t" if name == "tab" else "\n")
            elif name == "object":
                self.add(self.reader.formula(element))
            elif name not in _HIDDEN:
                around = self.level
                if name == "span":
                    self.level = self.reader.level(element) or around
                self.collect(element)
                self.level = around
                if name in ("p", "h"):
                    self.add("\n")
            self.add(_SPACE.sub(" ", element.tail or ""))


def _names(styles: Sequence[Element], name: str) -> list[str]:
    """Return the names of a paragraph's styles in lower case, up to one that is not defined."""
    shown = [
        attribute(style, "display-name") or attribute(style, "name").replace("_20_", " ")
        for style in styles
    ]
    last = attribute(styles[-1], "parent-style-name") if styles else name
    return [one.lower() for one in (*shown, last.replace("_20_", " "))]


def _property(styles: Iterable[Element | None], name: str) -> str:
    """Return a property of paragraphs or characters from the first style that gives it."""
    for style in styles:
        for part in () if style is None else style.iterchildren():
            if local(part).endswith("-properties") and (value := attribute(part, name)):
                return value
    return ""


def _number(element: Element, name: str) -> int:
    """Return how many spaces, columns or rows an element stands for, within reason."""
    return min(max(integer(attribute(element, name), 1), 1), _MAX_NUMBER)
