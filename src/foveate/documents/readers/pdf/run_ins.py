"""Headings whose paragraph continues on the same line, such as "1) Voting: Voting usually …"."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from foveate.documents.readers.pdf.extraction import Bookmark
from foveate.documents.readers.pdf.headings import key_of
from foveate.documents.readers.pdf.lines import Line, part_of
from foveate.documents.readers.pdf.paragraphs import RUN_IN_MARK, TextBlock

_MOST_LINES = 3  # of such a heading
_ENDED = (".", ":", "：")
_SHORTEST, _LONGEST = 3, 120  # characters


def part_run_ins(blocks: Sequence[TextBlock], bookmarks: Sequence[Bookmark]) -> list[TextBlock]:
    """Separate such headings from their paragraphs.

    They are set off in italic or bold type, and have a number or a letter, or end with a colon or
    a full stop. The outline tells which they are; without an outline they need the number.
    """
    named = _named_by_outline(blocks, bookmarks)
    parted: list[TextBlock] = []
    for block in blocks:
        size = _heading_size(block) if block.kind in ("prose", "item") else 0
        heading, rest = _cut(block.lines, size) if size else ([], block.lines)
        text = " ".join(line.text for line in heading)
        is_marked = bool(heading and RUN_IN_MARK.match(heading[0].words[0]))
        is_heading = is_marked
        if bookmarks:
            is_heading = (is_marked or text.endswith(_ENDED)) and key_of(text) in named[block.page]
        if not is_heading or not _SHORTEST < len(text) < _LONGEST:
            parted.append(block)
            continue
        heading[-1] = _without_colon(heading[-1])
        parted.append(TextBlock(heading, is_run_in=True))
        if rest:
            parted.append(TextBlock(rest))
    return parted


def _named_by_outline(
    blocks: Sequence[TextBlock], bookmarks: Sequence[Bookmark]
) -> defaultdict[int, set[str]]:
    """Return the keys of titles that the outline has on or next to each page.

    Those of headings that stand alone are left out.
    """
    alone: defaultdict[int, set[str]] = defaultdict(set)
    for block in blocks:
        if len(block.text) < _LONGEST and not RUN_IN_MARK.match(block.lines[0].words[0]):
            alone[block.page].add(key_of(block.text))
    named: defaultdict[int, set[str]] = defaultdict(set)
    for bookmark in bookmarks:
        pages = (bookmark.page - 1, bookmark.page, bookmark.page + 1)
        key = key_of(bookmark.title)
        if not any(key in alone[page] for page in pages):
            for page in pages:
                named[page].add(key)
    return named


def _without_colon(line: Line) -> Line:
    return replace(line, words=(*line.words[:-1], line.words[-1].rstrip(":：")))


def _heading_size(block: TextBlock) -> int:
    """Return the number of words in emphasized type that a block begins with.

    It is 0 if the whole block is emphasized and no colon ends it: that is not a run-in heading.
    """
    size = 0
    for line in block.lines[:_MOST_LINES]:
        size += line.lead
        if line.lead < len(line.words):
            return size
    return size if block.text.endswith((":", "：")) else 0


def _cut(lines: Sequence[Line], size: int) -> tuple[list[Line], list[Line]]:
    """Separate the first `size` words from the others."""
    heading: list[Line] = []
    rest: list[Line] = []
    for line in lines:
        count = len(line.words)
        if size >= count:
            heading.append(line)
        elif size:
            heading.append(part_of(line, 0, size))
            rest.append(part_of(line, size, count))
        else:
            rest.append(line)
        size = max(size - count, 0)
    return heading, rest
