"""Word documents (DOCX).

The main part is a sequence of paragraphs and tables. The kind of a paragraph follows from its
style; the numbers of lists and headings, which Word computes when it shows them, follow from their
definitions.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from foveate.documents import formulas
from foveate.documents.blocks import Heading, ParsedText
from foveate.documents.decoding import load_decompressed
from foveate.documents.markup import Element, attribute, integer, local
from foveate.documents.numerals import ListLevel, next_marker
from foveate.documents.readers.looks import Look
from foveate.documents.readers.office import symbols
from foveate.documents.readers.office.drawings import drawn_blocks
from foveate.documents.readers.office.package import Package, reference
from foveate.documents.readers.office.paragraphs import (
    BlockCollector,
    ShownText,
    heading_level,
    is_contents_style,
    style_kind,
    table_cell,
)
from foveate.documents.structure import DocumentError, Kind
from foveate.documents.tables import Cell
from foveate.documents.words import load_words, name_set

_MAIN = "word/document.xml"
_OLD_WORD = bytes.fromhex("d0cf11e0a1b11ae1")  # also what Word writes under a password
_WORDS = load_words("office")["word"]
_HIDDEN, _WRAPPERS = name_set(_WORDS["hidden"]), name_set(_WORDS["wrappers"])
_NUMBER_STYLES: dict[str, str] = _WORDS["number_styles"]
_SPACES = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}
_LEVELS = {"superscript": 1, "subscript": -1}
_BODY_TEXT = 9  # the outline level of what is not a heading
_MAX_ANCESTORS = 50  # of a style
_MAX_MARKER = 50  # characters of the number of an item
_MAX_COLUMNS = 63  # of a table in Word
_HEXADECIMAL = re.compile("[0-9A-Fa-f]{1,8}")


def read(data: bytes) -> ParsedText:
    """Read headings, paragraphs, lists, tables and notes."""
    if data.startswith(_OLD_WORD):
        raise DocumentError(
            "is an old Word file (.doc) or has a password: open it in Word or LibreOffice and save "
            "it as DOCX without a password."
        )
    reader = _DocxBlocks(Package(data, "DOCX"))
    reader.read_blocks(reader.main)
    return reader.collector.parsed(*reader.package.properties())


@dataclass(slots=True)
class _Style:
    """What a paragraph's style says, with what it inherits."""

    names: list[str] = field(default_factory=list)  # its own, then those of its ancestors
    level: int | None = None  # in the outline, from 0
    list: str | None = None  # the list whose items have this style
    list_level: int | None = None
    has_head_row: bool = False  # of a table: the first row looks different
    bold: bool | None = None
    upper: bool | None = None  # shown in capitals
    centred: bool | None = None
    size: int | None = None  # in half points


class _Styles:
    """The styles of a document by their identifiers."""

    def __init__(self, root: Element | None) -> None:
        styles = () if root is None else root.iterfind("{*}style")
        self.elements = {attribute(style, "styleId"): style for style in styles}
        self.known: dict[str, _Style] = {}

    def __getitem__(self, identifier: str) -> _Style:
        if identifier not in self.known:
            self.known[identifier] = self.inherit(identifier)
        return self.known[identifier]

    def inherit(self, identifier: str) -> _Style:
        style = _Style()
        seen: set[str] = set()
        while identifier and identifier not in seen and len(seen) < _MAX_ANCESTORS:
            seen.add(identifier)
            element = self.elements.get(identifier)
            if element is None:  # known to Word, so that its name is its identifier
                style.names.append(identifier.lower())
                break
            style.names.append(attribute(element.find("{*}name"), "val").lower())
            properties = element.find("{*}pPr")
            if properties is not None:
                level = properties.find("{*}outlineLvl")
                if style.level is None and level is not None:
                    style.level = integer(attribute(level, "val"), _BODY_TEXT)
                number, depth = _list_of(properties)
                style.list = number if style.list is None else style.list
                style.list_level = depth if style.list_level is None else style.list_level
                style.centred = _is_centred(properties, style.centred)
            if (font := element.find("{*}rPr")) is not None:
                style.bold = _switch(font.find("{*}b"), style.bold)
                style.upper = _switch(font.find("{*}caps"), style.upper)
                style.size = _size(font) if style.size is None else style.size
            kinds = (attribute(one, "type") for one in element.iterfind("{*}tblStylePr"))
            style.has_head_row = style.has_head_row or "firstRow" in kinds
            identifier = attribute(element.find("{*}basedOn"), "val")
        if style.level is None and (level := heading_level(style.names)) is not None:
            style.level = level - 1
        return style


def _level(element: Element) -> ListLevel:
    style = attribute(element.find("{*}numFmt"), "val", "decimal")
    return ListLevel(
        style=_NUMBER_STYLES.get(style, "1"),
        template=attribute(element.find("{*}lvlText"), "val")[:_MAX_MARKER],
        start=integer(attribute(element.find("{*}start"), "val"), 1),
        is_legal=_is_on(element.find("{*}isLgl")),
    )


class _Numbering:
    """Counts the items of lists and writes their numbers."""

    def __init__(self, root: Element | None) -> None:
        self.levels: dict[str, dict[int, ListLevel]] = {}  # of each list, by depth from 1
        self.counts: dict[str, Counter[int]] = {}  # of each list; some share them
        definitions: dict[str, tuple[dict[int, ListLevel], Counter[int]]] = {}
        for element in () if root is None else root:
            if local(element) == "abstractNum":
                levels = {_depth(level): _level(level) for level in element.iterfind("{*}lvl")}
                definitions[attribute(element, "abstractNumId")] = levels, Counter()
            elif local(element) == "num":
                definition = attribute(element.find("{*}abstractNumId"), "val")
                levels, counts = definitions.get(definition, ({}, Counter()))
                own = _overrides(element, levels)
                number = attribute(element, "numId")
                self.levels[number] = levels | own
                self.counts[number] = Counter() if own else counts

    def next_marker(self, number: str, depth: int) -> str:
        """Count an item of a list and return its number as shown; empty for bullets."""
        counts = self.counts.get(number, Counter())
        return next_marker(self.levels.get(number, {}), counts, depth)


def _depth(level: Element) -> int:
    return integer(attribute(level, "ilvl"), 0) + 1


def _overrides(element: Element, levels: dict[int, ListLevel]) -> dict[int, ListLevel]:
    """Return the levels that a list defines differently from the definition it refers to."""
    own: dict[int, ListLevel] = {}
    for override in element.iterfind("{*}lvlOverride"):
        depth = _depth(override)
        level = override.find("{*}lvl")
        if level is not None:
            own[depth] = _level(level)
        elif depth in levels:
            start = attribute(override.find("{*}startOverride"), "val")
            own[depth] = levels[depth]._replace(start=integer(start, levels[depth].start))
    return own


class _DocxBlocks:
    """Reads the blocks of the main part."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.main_name = package.relations("").get("officeDocument", [_MAIN])[0]
        self.relations = package.relations(self.main_name)
        self.main = package.require(self.main_name)
        self.styles = _Styles(self.part("styles"))
        self.numbering = _Numbering(self.part("numbering"))
        self.collector = BlockCollector()
        self.notes = {
            kind: {attribute(note, "id"): note for note in self.part(f"{kind}s", ())}
            for kind in ("footnote", "endnote")
        }

    def part(self, role: str, default: Element = None) -> Element:
        """Return the root of the part that has a role for the main part."""
        for name in self.relations.get(role, ()):
            root = self.package.xml(name)
            if root is not None:
                return root
        return default

    def read_blocks(self, parent: Element) -> None:
        """Read the paragraphs and tables in an element."""
        for element in parent:
            name = local(element)
            if name == "p":
                self.read_paragraph(element)
            elif name == "tbl":
                self.read_table(element)
            elif name == "altChunk":
                self.read_chunk(attribute(element, "id"))
            elif name == "sdt" and _is_contents(element):
                for paragraph in element.iter("{*}p"):
                    self.collector.skip_paragraph(self.text(paragraph).text)
            elif name not in _HIDDEN:
                self.read_blocks(element)

    def read_chunk(self, identifier: str) -> None:
        """Read a part in another format, which Word shows as if it were written here."""
        name = self.relations.get(identifier, [""])[0]
        content = self.package.read(name)
        if content is None:
            return
        part = load_decompressed(content, f"has a part, {name}, that", None, None, name)
        parsed: ParsedText = part.format.load_reader()(part.content)
        self.collector.add_heading(1, parsed.title or "")
        for block in parsed.blocks:
            if isinstance(block, Heading):
                self.collector.add_heading(block.level, block.text)
            else:
                self.collector.add_paragraph(str(block.text), block.kind)

    def read_paragraph(self, paragraph: Element) -> None:
        properties = paragraph.find("{*}pPr")
        shown = self.text(paragraph)
        style = self.style(properties)
        text = shown.text
        marker = self.marker(properties, style)
        if text.strip() and marker:
            text = f"{marker} {text}"
        level = self.level(properties, style)
        if is_contents_style(style.names):
            self.collector.skip_paragraph(text)
        elif "title" in style.names:
            self.collector.add_title(text)
        elif level is not None:
            self.collector.add_heading(level + 1, text)
        else:
            kind: Kind = "prose" if marker is None else "item"
            kind = "formula" if _is_formula(paragraph) else kind
            look = _look(paragraph, properties, style, text)
            self.collector.add_paragraph(text, style_kind(style.names) or kind, look)
        self.read_appended(shown)

    def read_appended(self, shown: "_DocxText") -> None:
        """Read the notes that a paragraph or table refers to, and its text boxes."""
        for kind, note in shown.notes:
            element = self.notes[kind].pop(note, None)  # each is read once
            if element is not None:
                self.collector.add_note(self.text(element).text, kind)
        for box in shown.boxes:
            self.read_blocks(box)
        for drawing in shown.drawings:
            for part in self.relations.get(drawing, ()):
                self.collector.add_blocks(drawn_blocks(self.package, part))

    def style(self, properties: Element | None) -> _Style:
        """Return the style of a paragraph or table by its properties."""
        if properties is None:
            return self.styles[""]
        style = properties.find("{*}pStyle")
        style = properties.find("{*}tblStyle") if style is None else style
        return self.styles[attribute(style, "val")]

    def level(self, properties: Element | None, style: _Style) -> int | None:
        """Return the level of a heading in the outline, from 0; None for other paragraphs."""
        own = None if properties is None else properties.find("{*}outlineLvl")
        level = style.level if own is None else integer(attribute(own, "val"), _BODY_TEXT)
        return level if level is not None and level < _BODY_TEXT else None

    def marker(self, properties: Element | None, style: _Style) -> str | None:
        """Return the number of an item, empty for a bullet; None for other paragraphs."""
        number, level = (None, None) if properties is None else _list_of(properties)
        number = style.list if number is None else number
        level = style.list_level if level is None else level
        if number is None or number == "0":
            return None
        return self.numbering.next_marker(number, min(level or 0, 8) + 1)

    def text(self, element: Element) -> "_DocxText":
        """Return the visible text of a paragraph, cell or note."""
        shown = _DocxText()
        shown.collect(element)
        return shown

    def read_table(self, table: Element) -> None:
        rows = [
            list(_children(row, "tc"))
            for row in _children(table, "tr")
            if row.find("{*}trPr/{*}del") is None
        ]
        is_narrow = max(map(len, rows), default=0) < 2
        if is_narrow or any(self.is_laid_out(cell) for row in rows for cell in row):
            for row in rows:  # it only lays out the page
                for cell in row:
                    self.read_blocks(cell)
            return
        grid: list[list[Cell]] = []
        appended: list[_DocxText] = []
        open_cells: dict[int, Cell] = {}  # by column, those that may continue in the next row
        for number, row in enumerate(rows, 1):
            line: list[Cell] = []
            column = 0
            for cell in row:
                shown = self.text(cell)
                appended.append(shown)
                columns, continues = _merging(cell.find("{*}tcPr"))
                if continues and column in open_cells:
                    open_cells[column].rows += 1
                else:
                    open_cells[column] = table_cell(shown.text, number, columns)
                    line.append(open_cells[column])
                column += columns
            grid.append(line)
        self.collector.add_table(grid, self.num_heads(table))
        for shown in appended:
            self.read_appended(shown)

    def is_laid_out(self, cell: Element) -> bool:
        """Return whether a cell holds a part of the page, with headings or a table of its own."""
        if cell.find("{*}tbl") is not None:
            return True
        texts = [one for one in cell.iterfind("{*}p") if any(True for _ in one.iter("{*}t"))]
        properties = [one.find("{*}pPr") for one in texts]
        levels = [self.level(one, self.style(one)) is not None for one in properties]
        return any(levels) and not all(levels)

    def num_heads(self, table: Element) -> int | None:
        """Return how many rows are set apart as column headers; None if none is."""
        rows = list(_children(table, "tr"))
        flags = [_is_on(row.find("{*}trPr/{*}tblHeader")) for row in rows]
        if flags and flags[0]:
            return flags.index(False) if False in flags else 1
        properties = table.find("{*}tblPr")
        look = None if properties is None else properties.find("{*}tblLook")
        marks_first = attribute(look, "firstRow") in ("1", "true")
        if marks_first and self.style(properties).has_head_row:
            return 1
        return 1 if len(rows) > 1 and _is_bold(rows[0]) and not _is_bold(rows[1]) else None


class _DocxText(ShownText):
    """What an element shows; notes are given by kind and identifier."""

    font = ""

    def collect(self, parent: Element) -> None:
        for element in parent:
            name = local(element)
            if name == "t":
                self.add(symbols.translate(element.text or "", self.font))
            elif name == "sym":
                code = attribute(element, "char")
                character = chr(int(code[-4:], 16)) if _HEXADECIMAL.fullmatch(code) else ""
                self.add(symbols.translate(character, attribute(element, "font")))
            elif name == "ddList":  # of a form
                chosen = integer(attribute(element.find("{*}result"), "val"), 0)
                entries = element.findall("{*}listEntry")
                self.add(attribute(entries[chosen], "val") if chosen < len(entries) else "")
            elif name in ("oMath", "oMathPara"):
                self.add(formulas.from_word(element))
            elif name in _SPACES:
                self.add(_SPACES[name])
            elif name in ("footnoteReference", "endnoteReference"):
                self.notes.append((name.removesuffix("Reference"), attribute(element, "id")))
            elif name == "txbxContent":
                self.boxes.append(element)
            elif name in ("chart", "relIds"):
                self.drawings.append(reference(element, "dm", "id"))
            elif name not in _HIDDEN and not (name == "r" and _is_invisible(element)):
                num_pieces = len(self.pieces)
                if name == "r":
                    align = attribute(element.find("{*}rPr/{*}vertAlign"), "val")
                    self.level = _LEVELS.get(align, 0)
                    self.font = attribute(element.find("{*}rPr/{*}rFonts"), "ascii")
                self.collect(element)
                self.level = 0
                if name in ("p", "tc") and len(self.pieces) > num_pieces:
                    self.add("\n")


def _children(parent: Element, name: str) -> Iterator[Element]:
    """Iterate over the rows of a table or the cells of a row, including those in wrappers."""
    for child in parent:
        if local(child) == name:
            yield child
        elif local(child) in _WRAPPERS:
            yield from _children(child, name)


def _is_on(switch: Element | None) -> bool:
    """Return whether a property is given and not switched off."""
    return switch is not None and attribute(switch, "val", "1") not in ("0", "false", "off")


def _switch(switch: Element | None, otherwise: bool | None) -> bool | None:
    """Return whether a property is on, or what holds if it is not given or known already."""
    return otherwise if switch is None or otherwise is not None else _is_on(switch)


def _is_centred(properties: Element, otherwise: bool | None) -> bool | None:
    alignment = properties.find("{*}jc")
    if alignment is None or otherwise is not None:
        return otherwise
    return attribute(alignment, "val") == "center"


def _size(font: Element) -> int | None:
    return integer(attribute(font.find("{*}sz"), "val"), 0) or None


def _look(paragraph: Element, properties: Element | None, style: _Style, text: str) -> Look:
    """Return how a paragraph looks, by its own properties and those of its style."""
    fonts = [
        run.find("{*}rPr")
        for run in paragraph.iter("{*}r")
        if any((part.text or "").strip() for part in run.iterfind("{*}t"))
    ]
    own = (None if font is None else font.find("{*}b") for font in fonts)
    bold = [bool(style.bold) if switch is None else _is_on(switch) for switch in own]
    caps = [font is not None and _is_on(font.find("{*}caps")) for font in fonts]
    sizes = [size for font in fonts[:1] if font is not None and (size := _size(font))]
    centred = None if properties is None else _is_centred(properties, None)
    return Look(
        is_bold=bool(bold) and all(bold),
        is_centred=bool(style.centred if centred is None else centred),
        is_upper=text.isupper() or bool(style.upper) or (bool(caps) and all(caps)),
        size=sizes[0] if sizes else style.size,
    )


def _is_invisible(run: Element) -> bool:
    properties = run.find("{*}rPr")
    return properties is not None and _is_on(properties.find("{*}vanish"))


def _is_bold(row: Element) -> bool:
    """Return whether all text of a row is bold."""
    runs = [run for run in row.iter("{*}r") if run.find("{*}t") is not None]
    return bool(runs) and all(_is_on(run.find("{*}rPr/{*}b")) for run in runs)


def _is_contents(block: Element) -> bool:
    """Return whether a content control is a table of contents."""
    gallery = block.find("{*}sdtPr/{*}docPartObj/{*}docPartGallery")
    return attribute(gallery, "val") == "Table of Contents"


def _is_formula(paragraph: Element) -> bool:
    """Return whether a paragraph is a formula set apart."""
    names = {local(child) for child in paragraph} - {"pPr", "bookmarkStart", "bookmarkEnd"}
    return names == {"oMathPara"}


def _merging(properties: Element | None) -> tuple[int, bool]:
    """Return how many columns a cell spans and whether it continues the one above."""
    if properties is None:
        return 1, False
    span = integer(attribute(properties.find("{*}gridSpan"), "val"), 1)
    merge = properties.find("{*}vMerge")
    continues = merge is not None and attribute(merge, "val") != "restart"
    return min(max(span, 1), _MAX_COLUMNS), continues


def _list_of(properties: Element) -> tuple[str | None, int | None]:
    """Return the list and the level in it that the properties of a paragraph state."""
    number = properties.find("{*}numPr/{*}numId")
    level = properties.find("{*}numPr/{*}ilvl")
    return (
        None if number is None else attribute(number, "val"),
        None if level is None else integer(attribute(level, "val"), 0),
    )
