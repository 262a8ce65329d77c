"""Plain text that is laid out by lines: code, drawn tables and records."""

import re
from collections.abc import Sequence
from itertools import pairwise

from foveate.documents.blocks import MappedText, Prose, table_row
from foveate.documents.readers.plain.lines import (
    Chunk,
    TextLine,
    breaks_on_purpose,
    columns,
    is_wrapped,
)

_CODE = re.compile(
    r"^[$#%>] \S|^(?:for|while|if|elif|else|def|class|with|try)\b.*:$|^import \w+$|"
    r"\w\([^ ()]*\)[;:]?$|[;{}\\]$|\w\(\)|^[}\])]|[\w\]][ :+]*=[ \w\"'$]|"
    r"->|=>|::|&&|\|\|| --?[A-Za-z]"
    r"|(?:^| )~?/\w[\w.-]*/|<[\w/-]+>| \| "
)
_PROMPT = re.compile(r"[$#%] \S")
_DRAWN = re.compile(r"^[!-/:-@[-`{-~]+$|[-=_~.]{3}|[|/\\]{2}")
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?:。！？：][\"'”’»)\]]*$")
_MIN_RECORDS = 4
_END = ".,;:!?…。，；：！？—-”\"'»)"


def is_code(chunk: Chunk, base: int) -> bool:
    """Return whether a chunk is code: indented more than the text, with lines that look like code.

    Args:
        chunk: Lines without blank lines between them.
        base: Indentation of the text around them.
    """
    lines = chunk.shown.split("\n")
    if not chunk.is_list and chunk.indent > base and is_drawing(chunk.shown):
        return True
    if chunk.indent > base and _PROMPT.match(lines[0]):
        return True
    if len(lines) == 1:
        line = lines[0]
        is_sentence = line[0].isupper() or line[-1] in ".:;!?" or line.count(" ") > 12
        return chunk.indent > base and not is_sentence and _CODE.search(line) is not None
    if chunk.indent <= base and (len(lines) < 3 or not _CODE.search(lines[0])):
        return False
    share = sum(_CODE.search(line) is not None for line in lines) / len(lines)
    sentences = sum(line[-1] in ".,:" and len(line.split()) > 5 for line in lines) / len(lines)
    if sentences > 0.2:
        return False
    return share >= (0.5 if chunk.indent > base else 0.8)


def is_drawing(text: str) -> bool:
    """Return whether lines draw something, such as the branches of git, and are no sentences."""
    words = text.split()
    return 2 * sum(_DRAWN.search(word) is not None for word in words) > len(words)


def is_listing(text: str) -> bool:
    """Return whether lines of a preformatted text draw something, or all look like code."""
    return is_drawing(text) or all(_CODE.search(line.strip()) for line in text.strip().split("\n"))


def is_prose(text: str) -> bool:
    """Return whether most of a preformatted text is paragraphs of sentences between blank lines."""
    prose = 0
    blocks = [block.strip() for block in _BLANK_LINES.split(text.strip())]
    for block in blocks:
        lines = block.split("\n")
        num_code = sum(_CODE.search(line.strip()) is not None for line in lines)
        is_said = block.count(" ") + len(lines) > 4 or not block.isascii()
        if is_said and _SENTENCE_END.search(block) and 4 * num_code <= len(lines):
            prose += len(block)
    return 2 * prose > sum(map(len, blocks))


def are_records(chunk: Chunk) -> bool:
    """Return whether a chunk consists of lines that are not wrapped and do not form sentences."""
    lines = chunk.shown.split("\n")
    if chunk.is_list or len(lines) < _MIN_RECORDS:
        return False
    if is_wrapped(lines):
        return False
    width = max(map(columns, lines))
    if sum(columns(line) > width - 12 for line in lines) > 0.6 * len(lines):
        return False  # wrapped
    broken = sum(breaks_on_purpose(line, following, width) for line, following in pairwise(lines))
    ended = sum(line[-1] in _END for line in lines)
    return broken >= 0.6 * (len(lines) - 1) and ended <= 0.25 * len(lines)


def is_drawn_table(chunk: Chunk) -> bool:
    """Return whether a chunk is a table whose cells are separated by lines of characters."""
    lines = chunk.shown.split("\n")
    return len(lines) > 2 and all(line[0] in "|+" and line[-1] in "|+" for line in lines)


def table_rows(text: str, lines: Sequence[TextLine]) -> list[Prose]:
    """Return the rows of a drawn table, each with its column headers.

    The first row holds the headers if a ruled line follows it.
    """
    rows: list[list[TextLine]] = [[]]
    for line in lines:
        if set(text[line.start : line.end]) <= set("|+-=: "):
            rows.append([])
        else:
            rows[-1].append(line)
    is_ruled = sum(not row for row in rows) < len(rows) - 1  # more than a frame around the lines
    rows = [row for row in rows if row]
    if is_ruled and len(rows) == 2:  # heads, then a row on each line
        rows = [rows[0], *([line] for line in rows[1])]
    cells = [_cells(text, row) for row in rows]
    heads = cells.pop(0) if is_ruled and len(cells) > 1 else []
    return [Prose(row, kind="table") for row in (table_row(heads, found) for found in cells) if row]


def _cells(text: str, row: list[TextLine]) -> list[MappedText]:
    """Return the cells of a row, whose text may continue on its next lines."""
    cells: list[MappedText] = []
    for line in row:
        start = line.start + (text[line.start] == "|")
        for column, cell in enumerate(text[start : line.end].rstrip("|").split("|")):
            if column == len(cells):
                cells.append(MappedText())
            if visible := cell.strip():
                first = start + cell.find(visible)
                cells[column].add(" " if cells[column] else "", first, first)
                cells[column].add(visible, first, first + len(visible))
            start += len(cell) + 1
    return cells
