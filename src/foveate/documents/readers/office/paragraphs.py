"""Shared by the readers of word processors' formats: blocks, each with the place that users see."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    compose_text,
    lift_title,
)
from foveate.documents.headings import long_words
from foveate.documents.markup import Element
from foveate.documents.metadata import split_names
from foveate.documents.numbering import find_numbered
from foveate.documents.readers.looks import Look, headings_by_look
from foveate.documents.scripts import scripted
from foveate.documents.structure import Kind
from foveate.documents.tables import Cell, table_blocks

_STYLE_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r".*caption$"), "caption"),
    (re.compile(r"bibliography( \d)?$"), "reference"),
    (re.compile(r"(source code|code|html preformatted|preformatted text|macro( text)?)$"), "code"),
    (re.compile(r"list (bullet|number)"), "item"),
)
_HEADING = re.compile(r"heading ?([1-9])$")
_CONTENTS = re.compile(r"(toc|contents) ?(\d|heading)|table of (figures|authorities)")
_MAX_HEAD = 60  # characters of a column header
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[\W\d]+")
_CLAUSE_END = (".", ";", ":", ",", "。", "；", "：", "，", "; and", "; or")
_CLAUSE_WORDS = 8  # fewer may be a title that ends in a full stop
_CLAUSE_LENGTH = 250  # characters: no title is longer
_FEWEST_CLAUSES = 2


class BlockCollector:
    """Collects the blocks of a document and names the place of each.

    Paragraphs are counted as word processors count them: all that are not empty, headings and
    tables of contents included. Tables and notes have numbers of their own.
    """

    def __init__(self) -> None:
        """Begin without blocks."""
        self.blocks: list[Block] = []
        self._titles: list[str] = []
        self._num_paragraphs = 0
        self._num_tables = 0
        self._num_notes: Counter[str] = Counter()
        self._looks: dict[int, Look] = {}  # of blocks, by their identities
        self._places: dict[int, str] = {}  # of headings, by their identities

    def skip_paragraph(self, text: str) -> None:
        """Count a paragraph that is seen but not read, such as a line of a table of contents."""
        self._num_paragraphs += bool(text.strip())

    def add_title(self, text: str) -> None:
        """Add a line of the title or, where the text has begun, a heading above all others."""
        if self.blocks:
            self.add_heading(0, text)
        elif text.strip():
            self.skip_paragraph(text)
            self._titles.append(text)

    def add_heading(self, level: int, text: str) -> None:
        """Add a heading; an empty one is left out, since users do not see it."""
        if text.strip():
            self.skip_paragraph(text)
            heading = Heading(level, text)
            self._places[id(heading)] = f"paragraph {self._num_paragraphs}"
            self.blocks.append(heading)

    def add_paragraph(self, text: str, kind: Kind = "prose", look: Look | None = None) -> None:
        """Add a paragraph, or the lines of code that are in one.

        Where no style marks the headings of a document, they are recognized by their looks.
        """
        if not text.strip():
            return
        self.skip_paragraph(text)
        before = self.blocks[-1] if self.blocks and kind == "code" else None
        place = f"paragraph {self._num_paragraphs}"
        if isinstance(before, Prose) and before.kind == "code" and before.place:
            place = before.place  # a listing is often a paragraph for each line
        self._add(text, kind, place)
        if look is not None and kind in ("prose", "item"):
            self._looks[id(self.blocks[-1])] = look

    def add_blocks(self, blocks: Iterable[Prose]) -> None:
        """Add what belongs to the last paragraph, such as the items of SmartArt in it."""
        for block in blocks:
            self._add(str(block.text), block.kind, f"paragraph {self._num_paragraphs}")

    def add_note(self, text: str, kind: str = "footnote") -> None:
        """Add a footnote or endnote, as `kind` says, after the paragraph that refers to it."""
        self._num_notes[kind] += 1
        self._add(text, "footnote", f"{kind} {self._num_notes[kind]}")

    def add_table(self, rows: Sequence[Sequence[Cell]], num_head_rows: int | None) -> None:
        """Add the rows of a table, each written as a sentence with its column headers.

        It is guessed whether the first row holds them if the number of such rows is None.
        """
        self._num_tables += 1
        if num_head_rows is None:
            num_head_rows = int(_begins_with_heads(rows))
        for row in table_blocks(rows, num_head_rows if num_head_rows < len(rows) else 0):
            number = row.text.source_span(0, 1)[0]  # as `table_cell` notes it
            row.place = f"table {self._num_tables}, row {number}"
            self.blocks.append(row)

    def parsed(self, title: str = "", author: str = "") -> ParsedText:
        """Compose the text; the title and the authors are those that the properties state."""
        blocks = self._with_clauses()
        shown_title = collapse(" ".join(self._titles))
        if self._looks and not any(isinstance(block, Heading) for block in blocks):
            found, blocks = headings_by_look(blocks, self._looks)
            shown_title = shown_title or found or ""
        if shown_title:
            parsed = compose_text(shown_title, blocks)
        else:
            lifted = lift_title(blocks)
            parsed = compose_text(lifted.title or collapse(title) or None, lifted.blocks)
        return replace(find_numbered(parsed), authors=split_names(author))

    def _with_clauses(self) -> list[Block]:
        """Turn the headings that are clauses into text, as contracts are numbered by such styles.

        Where most headings of a level are, all of that level are.
        """
        headings = [block for block in self.blocks if isinstance(block, Heading)]
        clauses = [heading for heading in headings if _is_clause(heading.text)]
        if len(clauses) < _FEWEST_CLAUSES:
            return self.blocks
        known = {id(heading) for heading in clauses}
        counts = Counter(heading.level for heading in headings)
        texts = Counter(heading.level for heading in clauses)
        most = {level for level, n in texts.items() if 2 * n > counts[level]}
        return [
            Prose(MappedText.from_text(block.text), place=self._places[id(block)])
            if isinstance(block, Heading) and (id(block) in known or block.level in most)
            else block
            for block in self.blocks
        ]

    def _add(self, text: str, kind: Kind, place: str) -> None:
        if text.strip():
            self.blocks.append(Prose(MappedText.from_text(text), kind=kind, place=place))


class ShownText:
    """The visible text of an element, the notes in it or its references to them, and text boxes."""

    def __init__(self) -> None:
        """Begin with no text."""
        self.pieces: list[tuple[str, int]] = []  # texts, and whether they are raised or lowered
        self.notes: list[Any] = []
        self.boxes: list[Element] = []
        self.drawings: list[str] = []  # charts and SmartArt, by identifier
        self.level = 0  # 1 in a superscript, -1 in a subscript

    @property
    def text(self) -> str:
        """The text of all pieces."""
        return join_pieces(self.pieces)

    def add(self, text: str) -> None:
        """Append a text."""
        self.pieces.append((text, self.level))


def _is_clause(heading: str) -> bool:
    """Return whether the text of a heading is a sentence rather than a title."""
    text = heading.strip()
    if not text.endswith(_CLAUSE_END):
        return len(text) > _CLAUSE_LENGTH
    is_long = text.count(" ") + 1 >= _CLAUSE_WORDS or (
        not text.isascii() and len(text) > 5 * _CLAUSE_WORDS
    )
    words = long_words(text)
    return is_long and 2 * sum(word[0].isupper() for word in words) <= len(words)


def join_pieces(pieces: Iterable[tuple[str, int]]) -> str:
    """Join texts, each with 1 if it is a superscript, -1 if it is a subscript, else 0."""
    shown = ""
    for level, group in groupby((piece for piece in pieces if piece[0]), key=itemgetter(1)):
        text = "".join(text for text, _ in group)
        shown += scripted(shown, text, is_raised=level > 0) if level else text
    return shown


def style_kind(names: Iterable[str]) -> Kind | None:
    """Return the kind of the paragraphs of a style, by its names in lower case; None if unknown."""
    kinds = (kind for name in names for pattern, kind in _STYLE_KINDS if pattern.match(name))
    return next(kinds, None)


def heading_level(names: Iterable[str]) -> int | None:
    """Return the level of the headings of a style, by its names in lower case; None for others."""
    matches = filter(None, map(_HEADING.match, names))
    return next((int(match[1]) for match in matches), None)


def is_contents_style(names: Iterable[str]) -> bool:
    """Return whether a style, by its names in lower case, is that of a table of contents."""
    return any(_CONTENTS.match(name) for name in names)


def table_cell(text: str, row: int, columns: int = 1, rows: int = 1) -> Cell:
    """Return a cell for `BlockCollector.add_table`, which spans several columns or rows.

    The number of its row, from 1, takes the place of offsets in a source, which it does not have.
    """
    mapped = MappedText()
    mapped.add(collapse(text), row, row)
    return Cell(mapped, columns=columns, rows=rows)


def _begins_with_heads(rows: Sequence[Sequence[Cell]]) -> bool:
    """Guess from the words whether the first row of a table holds the column headers."""
    texts = [[str(cell.text) for cell in row] for row in rows]
    first, *others = texts or [[]]
    if not others or len(first) < 2 or not all(first[1:]) or len(set(first)) < len(first):
        return False
    if any(len(head) > _MAX_HEAD or head.endswith((".", ":", ";")) for head in first):
        return False
    if not first[0]:
        return True
    if any(_NUMBER.fullmatch(head) for head in first):
        return False
    columns = zip(first, *others, strict=False)
    return len(first) > 2 or any(
        all(_DIGIT.search(cell) for cell in column if cell) and not _DIGIT.search(head)
        for head, *column in columns
    )
