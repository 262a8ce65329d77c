"""What the readers of word processors' formats share: blocks, each with the place its users see."""

import re
from collections.abc import Iterable, Sequence

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    compose_text,
    lift_title,
    table_row,
)
from foveate.documents.structure import Kind

_STYLE_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r".*caption$"), "caption"),
    (re.compile(r"bibliography( \d)?$"), "reference"),
    (re.compile(r"(source code|code|html preformatted|preformatted text|macro( text)?)$"), "code"),
    (re.compile(r"list (bullet|number)"), "item"),
)
_CONTENTS = re.compile(r"(toc|contents) (\d|heading)|table of (figures|authorities)")
_MAX_CELL = 1000  # characters of a cell in a table that says something by its rows
_MAX_HEAD = 60  # characters of a column's head
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[\W\d]+")


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
        """Add a heading; an empty one is left out, as its users do not see it."""
        if text.strip():
            self.skip_paragraph(text)
            self.blocks.append(Heading(level, text))

    def add_paragraph(self, text: str, kind: Kind = "prose") -> None:
        """Add a paragraph, or the lines of code that stand in one."""
        if not text.strip():
            return
        self.skip_paragraph(text)
        for line in text.split("\n") if kind == "code" else [text]:
            self._add(line, kind, f"paragraph {self._num_paragraphs}")

    def add_note(self, text: str, place: str) -> None:
        """Add a footnote or endnote after the paragraph that refers to it."""
        self._add(text, "footnote", place)

    def add_table(self, rows: Sequence[Sequence[str]], num_heads: int | None) -> None:
        """Add the rows of a table, each said in words with the heads of its columns.

        Args:
            rows: The cells of each row; one that spans several columns or rows is repeated.
            num_heads: Number of rows at the top that hold the column heads; None if unknown.
        """
        self._num_tables += 1
        rows = [[collapse(cell) for cell in row] for row in rows]
        if num_heads is None:
            num_heads = int(_begins_with_heads(rows))
        if num_heads >= len(rows):
            num_heads = 0
        heads = [
            _mapped(" ".join(dict.fromkeys(column))) for column in zip(*rows[:num_heads], strict=False)
        ]
        for number, row in enumerate(rows[num_heads:], num_heads + 1):
            cells = [_mapped(cell) for cell in row]
            spans_all = len(row) > 1 and len(set(row)) == 1
            said = table_row((), cells[:1]) if spans_all else table_row(heads, cells)
            self._add(str(said), "table", f"table {self._num_tables}, row {number}")

    def parsed(self, title: str = "") -> ParsedText:
        """Compose the text.

        Args:
            title: The title that the file's properties state, for documents that show none.
        """
        if self._titles:
            return compose_text(collapse(" ".join(self._titles)), self.blocks)
        lifted = lift_title(self.blocks)
        return compose_text(lifted.title or collapse(title) or None, lifted.blocks)

    def _add(self, text: str, kind: Kind, place: str) -> None:
        if text.strip():
            self.blocks.append(Prose(_mapped(text), kind=kind, place=place))


def style_kind(names: Iterable[str]) -> Kind | None:
    """Return the kind of the paragraphs of a style; None if the style does not say.

    Args:
        names: The style's name and those it inherits from, in lower case.
    """
    kinds = (kind for name in names for pattern, kind in _STYLE_KINDS if pattern.match(name))
    return next(kinds, None)


def is_contents_style(names: Iterable[str]) -> bool:
    """Return whether a style, by its names in lower case, is that of a table of contents."""
    return any(_CONTENTS.match(name) for name in names)


def is_layout(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table only lays out text: in one column, or with long text in a cell."""
    is_narrow = max(map(len, rows), default=0) < 2
    return is_narrow or any(len(cell) > _MAX_CELL for row in rows for cell in row)


def _mapped(text: str) -> MappedText:
    """Return a text of its own; `compose_text` gives it its place in the document's text."""
    return MappedText.from_source(text, 0, len(text))


def _begins_with_heads(rows: Sequence[Sequence[str]]) -> bool:
    """Guess from the words whether the first row of a table holds the heads of its columns."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    first = rows[0]
    if not all(first[1:]) or len(set(first)) < len(first):
        return False
    if any(len(head) > _MAX_HEAD or head.endswith((".", ":", ";")) for head in first):
        return False
    if not first[0]:
        return True
    if any(_NUMBER.fullmatch(head) for head in first):
        return False
    columns = zip(first, *rows[1:], strict=False)
    return len(first) > 2 or any(
        all(_DIGIT.search(cell) for cell in column if cell) and not _DIGIT.search(head)
        for head, *column in columns
    )
