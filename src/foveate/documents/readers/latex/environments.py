"""The environments of LaTeX: lists, theorems, tables and others."""

import re
from collections import Counter
from dataclasses import replace

from foveate.documents.blocks import Heading, MappedText
from foveate.documents.numerals import format_number
from foveate.documents.readers.latex.blocks import Environment, LatexBlocks
from foveate.documents.readers.latex.numbers import CHAPTER, LEVELS, SECTION, Numbered
from foveate.documents.readers.latex.tokens import Part, Token, tokenize
from foveate.documents.tables import Cell, table_blocks
from foveate.documents.words import load_words, name_set

_WORDS = load_words("latex")
_FLOATS: dict[str, str] = _WORDS["floats"]
_TABLES: dict[str, int] = _WORDS["tables"]
_LAYOUTS: dict[str, int] = _WORDS["layouts"]
_ENUMERATIONS = name_set(_WORDS["enumerations"])
_ITEM_LABELS = (r"\arabic*.", r"(\alph*)", r"\roman*.", r"\Alph*.")  # by depth
_STYLES = {"arabic": "1", "alph": "a", "Alph": "A", "roman": "i", "Roman": "I"}
_NUMERALS = {style: name for name, style in _STYLES.items()}
_NUMBER = re.compile(r"\\(arabic|[Aa]lph|[Rr]oman)\*")
_LABEL = re.compile(r"\blabel\s*=\s*((?:\{(?:[^{}]|\{[^{}]*\})*\}|[^,{}])+)")
_SHORT_LABEL = re.compile(r"([^\\{}=,<>]{0,20}?)(1|\b[AaIi])([^\w\\{}=,<>]{0,3})")
_LIST_START = re.compile(r"\bstart\s*=\s*([0-9]{1,6})\b")
_MAX_LABEL = 100  # characters of the source of a label
_PARTS_OF_LONG_TABLES = name_set("endfirsthead endhead endfoot endlastfoot")


def begin(reader: LatexBlocks, part: Part, name: str) -> None:
    r"""Read what follows `\begin{name}`; all of the environment if it is a table."""
    reader.flush()
    close = min(part.partners.get(part.index - 1, part.end), part.end)
    if f"begin {name}" in reader.macros:
        around = len(reader.environments)
        reader.run(reader.macros.expand(f"begin {name}", part))
        del reader.environments[around:]  # which its end would end
    option = part.option()
    arguments = part.arguments(_TABLES.get(name, _LAYOUTS.get(name, 0)))
    environment = replace(reader.environment)
    if name not in _LAYOUTS:
        environment.label = ""
    environment.float = _FLOATS.get(name.rstrip("*"), environment.float)
    if name in reader.numbers.theorems:
        note = f" ({reader.text(option)})" if option else ""
        reader.shown.append(f"{reader.numbers.theorem(name)}{note}. ")
    elif len(arguments) == _TABLES.get(name) and close < part.end:
        reader.environments.append(environment)
        _read_table(reader, replace(part, end=close))
        reader.environments.pop()
        part.index = close
    elif name == "abstract":
        reader.blocks.append(Heading(SECTION, "Abstract"))
    elif name == "thebibliography":
        part.argument()
        levels = [one.level for one in reader.blocks if isinstance(one, Heading)]
        reader.blocks.append(Heading(CHAPTER if CHAPTER in levels else SECTION, "References"))
        environment.kind = "reference"
    elif name in _ENUMERATIONS:
        _enumerate(environment, option.written if option else "")
    elif name == "frame" and (title := part.arguments(1)):
        reader.add_heading(LEVELS["frametitle"], reader.text(title[0]))
    reader.environments.append(environment)


def end(reader: LatexBlocks, part: Part, name: str) -> None:
    r"""End an environment."""
    reader.flush()
    reader.marker = ""  # of an item without text
    if len(reader.environments) > 1:
        reader.environments.pop()


def begin_item(reader: LatexBlocks, part: Part) -> None:
    """Begin an item with its own label or, in an enumeration, with its number."""
    reader.flush()
    reader.note_place(part, part.tokens[part.index - 1])
    reader.marker = ""
    environment = reader.environment
    if environment.kind != "reference":
        environment.kind = "item"
    if label := part.option():
        reader.shown.append(reader.text(label) + " ")
    elif environment.label:
        environment.count += 1
        written = _NUMBER.sub(
            lambda number: format_number(environment.count, _STYLES[number[1]]), environment.label
        )
        reader.marker = reader.text(tokenize(written, part.depth + 1))
        reader.numbers.current = Numbered("item", reader.marker.rstrip(".:"))


def _enumerate(environment: Environment, options: str) -> None:
    """Begin to number items, as the options of their environment say."""
    label = _ITEM_LABELS[min(environment.depth, len(_ITEM_LABELS) - 1)]
    if given := _LABEL.search(options):
        label = given[1]
    elif short := _SHORT_LABEL.fullmatch(options.strip()):
        label = f"{short[1]}\\{_NUMERALS[short[2]]}*{short[3]}"
    is_number = _NUMBER.search(label) and len(label) <= _MAX_LABEL
    environment.label = label if is_number else ""
    start = _LIST_START.search(options)
    environment.count = int(start[1]) - 1 if start else 0
    environment.depth += 1


def _read_table(reader: LatexBlocks, part: Part) -> None:
    """Add the rows of a table; a line below the first ones says that they hold the headers."""
    rows: list[list[Cell]] = []
    heads: list[list[Cell]] = []
    cells: list[Cell] = []
    num_heads = 0
    below: Counter[int] = Counter()  # rows that a cell of each column still spans
    start, nesting, column = part.index, 0, 0
    while part.index <= part.end:
        kind, text, _ = part.next if part.index < part.end else Token("row", "", -1)
        part.index += 1
        nesting += (kind in ("begin", "open")) - (kind in ("end", "close"))
        if kind == "macro" and text in ("hline", "midrule") and not num_heads:
            num_heads = len(rows) if len(rows) <= (1 if text == "hline" else 3) else 0
        elif kind == "macro" and text == "caption" and nesting <= 0:
            is_starred = part.is_starred
            part.option()
            add_caption(reader, part.arguments(1), is_starred)
            start = part.index
        ends_part = kind == "macro" and text in _PARTS_OF_LONG_TABLES
        ends_row = ends_part or (kind == "row" and nesting <= 0)
        if ends_row or (kind == "cell" and nesting <= 0):
            cell = _cell(reader, part.within(start, part.index - 1))
            if not (below[column] and not cell.text):
                cells.append(cell)
            for spanned in range(column, column + cell.columns):
                below[spanned] = max(below[spanned] - 1, 0, cell.rows - 1)
            column += cell.columns
            start = part.index
        if ends_row:
            if any(cell.text for cell in cells):
                rows.append(cells)
            cells, column = [], 0
        if ends_part:
            heads, rows = heads or ([] if "foot" in text else rows), []
    num_heads = len(heads) or num_heads
    rows = heads + rows
    for row in table_blocks(rows, num_heads if num_heads < len(rows) else 0):
        reader.add(str(row.text), row.kind)


def _cell(reader: LatexBlocks, part: Part) -> Cell:
    cell = Cell(MappedText.from_text(reader.text(replace(part))))
    while part.index < part.end:
        kind, text, _ = part.next
        part.index += 1
        if kind == "macro" and text in ("multicolumn", "multirow"):
            part.option()
            number = part.argument().written.strip()
            if number.isdecimal() and len(number) < 3:
                cell.columns = int(number) if text == "multicolumn" else cell.columns
                cell.rows = int(number) if text == "multirow" else cell.rows
    return cell


def add_caption(reader: LatexBlocks, arguments: list[Part], is_starred: bool) -> None:
    """Add a caption with the number of its figure or table."""
    float_ = "" if is_starred else reader.environment.float
    label = reader.numbers.float(float_) if float_ else ""
    shown = reader.text(arguments[0]) if arguments else ""
    reader.flush()
    reader.add(f"{label}{shown}" if shown else "", "caption")
