"""Paragraphs and headings of text without blank lines, by the lengths and the ends of its lines.

There are two kinds: lines that were wrapped, as programs extract them from PDFs, and lines of which
each is a paragraph, as word processors export them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from foveate.documents.headings import TERMS, is_name, is_paper_name, is_references
from foveate.documents.readers.plain.lines import (
    ENTRY,
    TextLine,
    breaks_on_purpose,
    columns,
    is_wrapped,
    usual_width,
)

_MIN_LINES = 30  # of a block that is too long for a paragraph
_LONG = 200  # columns of a line that was not wrapped
_MIN_WORDS = 20  # of a line that is a paragraph
_MIN_PARAGRAPHS = 3
_MAX_HEADING = 80  # columns
_MAX_HEADING_WORDS = 9
_MAX_FRONT = 40  # lines above the first heading: title, authors, affiliations
_MIN_NUMBERED = 3  # headings of a text that numbers them
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’»)\]]*$")
_LONE_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,2})*\.?")
_TRAILING = re.compile(r"\W*$")
_NUMBER = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[A-Z]\.|[IVX]{1,5}\.)\s+(?=[A-ZÀ-Þ])")
_FIRST = re.compile(r"(?:1|I)\.?\s")
_WORDS = re.compile(r"[A-ZÀ-Þ][^\W\d_]*(?:[\s/&,:'’-]+[^\W\d_]+)*\??")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SMALL_END = re.compile(r"\b(?:a|an|and|as|by|for|from|in|of|on|or|the|to|via|with|[:,&-])$")

_CLAUSE = re.compile(  # a title has such words at most as a question: How cod are caught
    r"(?!(?:how|what|when|where|which|who|why)\b).*"
    r"\b(?:are|be|been|can|had|has|have|if|is|it|let|such|that|these|this|was|we|were|which|will)\b",
    re.I,
)

Divided = tuple[list[list[TextLine]], frozenset[int]]
"""The lines of each paragraph and heading, and where the headings without a number start."""


def divide(text: str, blocks: list[list[TextLine]]) -> Divided:
    """Divide the lines between blank lines where those do not: see above for the two kinds.

    The blocks of other texts are returned as they are.
    """
    lines = list(chain.from_iterable(blocks))
    if _has_long_lines(text, lines):
        return [[line] for line in lines], frozenset()
    large = sum(len(block) for block in blocks if len(block) >= _MIN_LINES)
    if 2 * large < len(lines) or not is_wrapped([text[one.start : one.end] for one in lines]):
        return blocks, frozenset()
    return _divide_wrapped(text, blocks)


def _has_long_lines(text: str, lines: Sequence[TextLine]) -> bool:
    """Return whether most of the text is in lines that are paragraphs."""
    long = [
        one.end - one.start
        for one in lines
        if one.end - one.start >= _LONG and text.count(" ", one.start, one.end) >= _MIN_WORDS
    ]
    if len(long) < _MIN_PARAGRAPHS:
        return False
    widest = max(long)
    total = sum(one.end - one.start for one in lines)
    wrapped = sum(length > 0.9 * widest for length in long)  # at a great width
    return 2 * sum(long) > total and 2 * wrapped < len(long)


def _divide_wrapped(text: str, blocks: list[list[TextLine]]) -> Divided:
    lines = list(chain.from_iterable(blocks))
    shown = [text[line.start : line.end] for line in lines]
    width = usual_width(shown)
    headings = _find_headings(shown, width)
    first_heading = min(headings, default=0)
    num_front = first_heading if first_heading < _MAX_FRONT else 0
    block_starts = {block[0].start for block in blocks}
    divided: list[list[TextLine]] = []
    in_references = False
    for n, line in enumerate(lines):
        if (
            n == 0
            or line.start in block_starts
            or n in headings
            or n - 1 in headings
            or n <= num_front
        ):
            begins = True
        elif in_references:
            begins = ENTRY.match(shown[n]) is not None
        else:
            begins = _ends_paragraph(shown[n - 1], shown[n], width)
        if begins:
            divided.append([])
        divided[-1].append(line)
        if n in headings:
            in_references = is_references(shown[n])
    without_number = (n for n in headings if not _number_length(shown[n]))
    return divided, frozenset(lines[n].start for n in without_number)


def _find_headings(shown: Sequence[str], width: int) -> set[int]:
    """Return the indices of the lines that are headings.

    They have a name that sections of many documents have, or a number; where sections are not
    numbered, short lines that stand apart are headings as well. Lines that occur twice are none.
    """
    counts = Counter(shown)
    once = [counts[line] == 1 for line in shown]
    named = {n for n, line in enumerate(shown) if once[n] and _is_named(line)}
    numbered = {
        n
        for n in range(1, len(shown) - 1)
        if once[n] and n not in named and _is_numbered(shown, n, width)
    }
    has_numbers = len(numbered) >= _MIN_NUMBERED and any(
        _FIRST.match(shown[n]) for n in named | numbered
    )
    headings = named | numbered
    if not has_numbers:
        for n in range(1, len(shown) - 1):
            if once[n] and n not in headings and _stands_apart(shown, n, width, headings):
                headings.add(n)
    return headings


def _number_length(line: str) -> int:
    """Return the length of the number that a line begins with."""
    found = _NUMBER.match(line)
    return found.end() if found else 0


def _is_named(line: str) -> bool:
    """Return whether a line is the name that sections of many documents have: Abstract."""
    name = _TRAILING.sub("", line[_number_length(line) :])
    return not line[0].islower() and (is_name(name) or is_paper_name(name))


def _is_numbered(shown: Sequence[str], n: int, width: int) -> bool:
    """Return whether a line is a title with a number, rather than a part of a sentence."""
    line, above, below = shown[n], shown[n - 1], shown[n + 1]
    start = _number_length(line)
    title = line[start:]
    if not start or len(title.split()) > _MAX_HEADING_WORDS or columns(line) > _MAX_HEADING:
        return False
    if title[-1] in ".,;:-" or _LONG_WORD.search(title) is None or below[0].islower():
        return False
    return title.isupper() or _may_end(above) or columns(above) < 0.6 * width


def _stands_apart(shown: Sequence[str], n: int, width: int, headings: set[int]) -> bool:
    """Return whether a short line without a number stands between two paragraphs."""
    line, above, below = shown[n], shown[n - 1], shown[n + 1]
    return (
        columns(line) < 0.8 * width
        and len(line.split()) <= _MAX_HEADING_WORDS
        and _WORDS.fullmatch(line) is not None
        and _LONG_WORD.search(line) is not None
        and (line.isupper() or not (_CLAUSE.match(line) or _SMALL_END.search(line)))
        and (_may_end(above) or n - 1 in headings)
        and above.casefold() not in TERMS
        and below[0].isupper()
        and (n + 1 in headings or columns(below) > 0.6 * width)
    )


def _may_end(line: str) -> bool:
    """Return whether a line ends with a sentence, or is the number of the heading below it."""
    return _SENTENCE_END.search(line[-5:]) is not None or _LONE_NUMBER.fullmatch(line) is not None


def _ends_paragraph(line: str, following: str, width: int) -> bool:
    """Return whether a paragraph ends with a line: at the end of a sentence, with room left."""
    return (
        _SENTENCE_END.search(line[-5:]) is not None
        and not following[0].islower()
        and breaks_on_purpose(line, following, int(0.9 * width))
    )
