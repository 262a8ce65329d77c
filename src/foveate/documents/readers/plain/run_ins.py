"""Headings of clauses on the line, or in the paragraph, in which their text begins.

They are those of contracts and statutes: "Section 1.02 Interpretation. Headings are for reference
only.", or "Article 3" directly above its text.
"""

import re
from collections.abc import Sequence

from foveate.documents.headings import (
    LAW_PARTS,
    LAW_PARTS_PATTERN,
    is_bare_part,
    is_title_case,
    part_kind,
)
from foveate.documents.readers.plain.lines import (
    MAX_HEADING,
    Chunk,
    TextLine,
    breaks_on_purpose,
    columns,
)

_NUMBER = rf"(?i:(?:{LAW_PARTS_PATTERN}))\s+(?:\d{{1,4}}(?:\.\d{{1,3}})*[a-z]?|[IVXLC]{{1,7}})"
_TEXT_BEHIND = r"[.:](?:\s*[–—-]{1,2})?\s+(?=[^\W\d_a-z]|[\"“(\[])"
_TITLED = re.compile(rf"({_NUMBER}\s*[.:–—-]{{0,2}}\s+(\w[^.:;!?]{{2,}})){_TEXT_BEHIND}")
_UNTITLED = re.compile(rf"({_NUMBER}){_TEXT_BEHIND}")
_TITLED_LINE = re.compile(rf"{_NUMBER}\s*[.:–—-]{{1,2}}\s+[^\W\d_a-z][^.:;!?]{{2,80}}")
_FEWEST = 2  # clauses of a document that has such headings
_LONG = 4  # lines of a paragraph that is no title


def split_run_ins(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Separate the headings of clauses from their texts, if a document has several of them.

    Clauses without a title have a heading if others have a title or are above their text.
    """
    ends = {index: end for index, chunk in enumerate(chunks) if (end := _heading_end(chunk))}
    if len(ends) < _FEWEST:
        return list(chunks)
    split: list[Chunk] = []
    for index, chunk in enumerate(chunks):
        end = ends.get(index, 0)
        if not end and _may_begin_clause(chunk) and (match := _UNTITLED.match(chunk.shown)):
            end = 0 if is_title_case(chunk.shown[match.end() :]) else match.end(1)
        split += _divided(chunk, end) if end else [chunk]
    return split


def _heading_end(chunk: Chunk) -> int:
    """Return where the heading of a clause ends within a chunk; 0 if it does not begin with one."""
    if not _may_begin_clause(chunk):
        return 0
    first, _, rest = chunk.shown.partition("\n")
    if rest and part_kind(first) in LAW_PARTS and is_bare_part(first):
        is_text = rest[-1] in ".;:؛" or rest.count("\n") >= _LONG
        return len(first) if is_text and not rest[0].islower() and not rest.isupper() else 0
    match = _TITLED.match(chunk.shown, 0, 2 * MAX_HEADING)
    is_heading = match and len(match[1]) <= MAX_HEADING and is_title_case(match[2])
    is_wrapped = match and is_heading and match[2].isupper()  # 2.1 LEGAL / STATUS. The Buyer
    if rest and not is_wrapped and _is_titled_line(first, rest):
        return len(first)
    return match.end(1) if match and is_heading else 0


def _is_titled_line(first: str, rest: str) -> bool:
    """Return whether the first line of a paragraph is the heading of a clause with its title."""
    lines = rest.split("\n")
    return (
        _TITLED_LINE.fullmatch(first) is not None
        and not rest[0].islower()
        and rest[-1] in ".;:؛"
        and breaks_on_purpose(first, lines[0], max(map(columns, lines)))
    )


def _may_begin_clause(chunk: Chunk) -> bool:
    return not chunk.heading and len(chunk.parts) == 1 and not chunk.is_list


def _divided(chunk: Chunk, end: int) -> list[Chunk]:
    """Return the heading that ends at an offset of what a chunk shows, and the text behind it."""
    shown = chunk.shown
    kind = part_kind(shown)
    begin = end + len(shown[end:]) - len(shown[end:].lstrip(" \n.:–—-"))
    heading, text = _cut(chunk.lines, shown, 0, end), _cut(chunk.lines, shown, begin, len(shown))
    return [
        Chunk([heading], " ".join(shown[:end].split()), heading=kind),
        Chunk([text], shown[begin:]),
    ]


def _cut(lines: Sequence[TextLine], shown: str, start: int, end: int) -> list[TextLine]:
    """Return the lines, or their parts, between two offsets of the text that they show."""
    cut: list[TextLine] = []
    offset = 0
    for line, text in zip(lines, shown.split("\n"), strict=True):
        first, last = max(start - offset, 0), min(end - offset, len(text))
        if first < last:
            cut.append(TextLine(line.start + first, line.start + last, line.indent))
        offset += len(text) + 1
    return cut
