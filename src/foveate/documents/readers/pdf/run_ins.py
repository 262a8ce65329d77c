"""Headings whose paragraph goes on in the same line, such as "1) Voting: Voting usually …"."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from foveate.documents.readers.pdf.extraction import Bookmark
from foveate.documents.readers.pdf.headings import key_of
from foveate.documents.readers.pdf.lines import Line, part_of
from foveate.documents.readers.pdf.paragraphs import RUN_IN_MARK, TextBlock

_MOST_LINES = 3  # of such a heading
_SHORTEST, _LONGEST = 3, 120  # characters


def part_run_ins(
    blocks: Iterable[TextBlock], bookmarks: Sequence[Bookmark]
) -> list[TextBlock]:
    """Part such headings from their paragraphs.

    The outline tells which they are. Without an outline, they are what has a number or a letter
    in the same italic or bold type.
    """
    named: defaultdict[int, set[str]] = defaultdict(set)
    for bookmark in bookmarks:
        for page in (bookmark.page - 1, bookmark.page, bookmark.page + 1):
            named[page].add(key_of(bookmark.title))
    parted: list[TextBlock] = []
    for block in blocks:
        size = _heading_size(block) if block.kind in ("prose", "item") else 0
        heading, rest = _cut(block.lines, size) if size else ([], block.lines)
        text = " ".join(line.text for line in heading)
        marked = bool(heading and RUN_IN_MARK.match(heading[0].words[0]))
        is_heading = key_of(text) in named[block.page] if bookmarks else marked
        if not is_heading or not _SHORTEST < len(text) < _LONGEST:
            parted.append(block)
            continue
        parted.append(TextBlock(heading, is_run_in=True))
        if rest:
            parted.append(TextBlock(rest))
    return parted


def _heading_size(block: TextBlock) -> int:
    """Return the number of words in emphasized type that a block begins with.

    It is 0 if the whole block is emphasized and no colon ends it: that is no heading run in.
    """
    size = 0
    for line in block.lines[:_MOST_LINES]:
        size += line.lead
        if line.lead < len(line.words):
            return size
    return size if block.text.endswith((":", "：")) else 0


def _cut(lines: Sequence[Line], size: int) -> tuple[list[Line], list[Line]]:
    """Part the first words, as many as `size`, from the others; their colon is left out."""
    heading: list[Line] = []
    for number, line in enumerate(lines):
        if size < len(line.words):
            break
        heading.append(line)
        size -= len(line.words)
    else:
        number = len(lines)
    rest = list(lines[number:])
    if size:
        heading.append(part_of(rest[0], 0, size))
        rest[0] = part_of(rest[0], size, len(rest[0].words))
    last = heading[-1]
    heading[-1] = replace(last, words=(*last.words[:-1], last.words[-1].rstrip(":：")))
    return heading, rest
