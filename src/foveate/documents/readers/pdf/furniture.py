"""Running heads, running feet and page numbers: recognized across pages, and left out."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from foveate.documents.numerals import roman_number
from foveate.documents.readers.pdf.lines import Line, Segment
from foveate.documents.readers.pdf.paragraphs import has_note_mark
from foveate.documents.readers.pdf.words import Words

_ZONE = 0.16  # share of the page's height, at the top and at the bottom, that holds furniture
_MOST_ROWS = 3  # of furniture, at each end
_SAME_HEIGHT = 4.0  # points
_WINDOW = 8  # pages around one that may repeat its running head
_APART = 1.35  # font sizes between the baselines of furniture and text
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"(\d{1,4}|(?-i:[ivxlcIVXLC]{1,7}))$", re.I)
_LONGEST = 120  # characters of a row that counts pages
_ONLY_NUMBER = re.compile(
    r"\W*(page|seite|p\.|s\.|第)?\s*(\d{1,4}|(?-i:[ivxlcIVXLC]{1,7}))\s*(页|頁|ページ)?\s*((/|of|von|de|sur)\s*\d{1,4})?\W*$",
    re.I,
)
_FEWEST_LINE_NUMBERS = 12


@dataclass(slots=True)
class _Row:
    """Lines at the edge of a page that share a baseline."""

    page: int
    height: float  # of its baseline
    lines: list[Line]
    gap: float  # to the next row towards the middle of the page
    key: str  # its text without the numbers
    numbers: tuple[int, ...]
    size: float


def remove_furniture(pages: Sequence[list[Line]], heights: Sequence[float]) -> list[list[Line]]:
    """Leave out running heads, running feet and page numbers; heights of pages are in points."""
    superfluous: set[int] = set()
    for is_top in (True, False):
        rows = [
            _edge_rows(index, lines, height, is_top)
            for index, (lines, height) in enumerate(zip(pages, heights, strict=True))
        ]
        body = Counter(round(line.size) for lines in pages for line in lines if line.mono < 0.5)
        usual = body.most_common(1)[0][0] if body else 0
        for row in _furniture(rows, usual):
            superfluous.update(map(id, row.lines))
    return [[line for line in lines if id(line) not in superfluous] for lines in pages]


def _edge_rows(page: int, lines: Sequence[Line], height: float, is_top: bool) -> list[_Row]:
    """Return the outermost rows of a page, from the edge towards the middle."""
    ordered = sorted(lines, key=lambda line: line.baseline, reverse=not is_top)
    rows: list[_Row] = []
    for line in ordered:
        outside = line.bottom < height * _ZONE if is_top else line.top > height * (1 - _ZONE)
        if rows and abs(rows[-1].height - line.baseline) < _SAME_HEIGHT:
            rows[-1].lines.append(line)
            continue
        if rows and not rows[-1].gap:
            rows[-1].gap = abs(line.baseline - rows[-1].height)
        if not outside or len(rows) == _MOST_ROWS:
            break
        rows.append(_Row(page, line.baseline, [line], 0.0, "", (), line.size))
    for row in rows:
        row.lines.sort(key=lambda line: line.left)
        text = " ".join(line.text for line in row.lines)
        is_short = len(text) < _LONGEST and not has_note_mark(row.lines[0])
        ends = {text.split()[0], text.split()[-1]} if is_short else set()
        row.numbers = tuple(_value(word) for word in ends if _PAGE_NUMBER.match(word))
        only = _ONLY_NUMBER.match(text) if is_short else None
        if only:
            row.key = "#"
            row.numbers = (_value(only[2]),)
        else:
            row.key = _key(text)
    return rows


def _key(text: str) -> str:
    """Return a text without what changes from page to page."""
    return _DIGITS.sub("#", "".join(text.split()).casefold())


def _value(number: str) -> int:
    """Return the value of a page number, arabic or roman."""
    if number.isdigit():
        return int(number)
    return roman_number(number.upper())


def _furniture(pages: Sequence[list[_Row]], usual_size: float) -> list[_Row]:
    """Return the rows that are furniture.

    They repeat those of near pages, or count the pages, or are where such rows are on other pages.
    They are set apart from the text, whose lines mostly are of the usual size.
    """
    certain = _repeated(pages) | _numbered(pages)
    zones: Counter[int] = Counter()
    for rows in pages:
        leading = takewhile(lambda row: id(row) in certain, rows)
        zones.update(round(row.height) for row in leading)
    furniture: list[_Row] = []
    for rows in pages:
        found: list[_Row] = []
        for row in rows:
            zone = sum(zones[round(row.height) + shift] for shift in range(-2, 3))
            alike = zone >= 3 and (row.gap > 1.5 * row.size or not row.gap)
            if not (id(row) in certain or (alike and row.size <= usual_size + 0.5)):
                break
            found.append(row)
        while found and 0 < found[-1].gap < _APART * found[-1].size:  # part of the text
            found.pop()
        furniture += found
    return furniture


def _repeated(pages: Sequence[list[_Row]]) -> set[int]:
    """Return the identities of rows that recur on several near pages, except for their numbers."""
    by_key: defaultdict[str, list[_Row]] = defaultdict(list)
    for rows in pages:
        for row in rows:
            by_key[row.key].append(row)
    fewest = 1 if len(pages) < 4 else 2
    repeated: set[int] = set()
    for rows in by_key.values():
        for number, row in enumerate(rows):
            near = {
                other.page
                for other in rows[max(number - _WINDOW, 0) : number + _WINDOW + 1]
                if abs(other.page - row.page) <= _WINDOW
                and abs(other.height - row.height) < _SAME_HEIGHT
            }
            if len(near - {row.page}) >= fewest:
                repeated.add(id(row))
    return repeated


def _numbered(pages: Sequence[list[_Row]]) -> set[int]:
    """Return the identities of rows that begin or end with numbers that count the pages."""
    places: Counter[tuple[int, int]] = Counter()
    found: list[tuple[_Row, tuple[int, int]]] = []
    for rows in pages:
        for row in rows:
            for number in row.numbers:
                place = number - row.page, round(row.height / _SAME_HEIGHT)
                places[place] += 1
                found.append((row, place))
    fewest = max(3, len(pages) // 20)
    return {
        id(row)
        for row, (offset, height) in found
        if sum(places[offset, height + shift] for shift in (-1, 0, 1)) >= fewest
    }


def drop_line_numbers(segments: Sequence[Segment], words: Words) -> list[Segment]:
    """Leave out the line numbers that manuscripts for review have in the margin."""
    numbers = [
        segment
        for segment in segments
        if len(segment.words) == 1 and words.texts[segment.words[0]].isdigit()
    ]
    edges: Counter[int] = Counter(round(segment.right / 4) for segment in numbers)
    superfluous: set[int] = set()
    for edge, count in edges.items():
        if count < _FEWEST_LINE_NUMBERS:
            continue
        column = [s for s in numbers if abs(s.right / 4 - edge) <= 1]
        column.sort(key=lambda segment: segment.baseline)
        values = [int(words.texts[segment.words[0]]) for segment in column]
        steps = Counter(b - a for a, b in pairwise(values))
        step, times = steps.most_common(1)[0]
        if step in (1, 5) and times > 0.7 * len(values):
            superfluous.update(map(id, column))
    return [segment for segment in segments if id(segment) not in superfluous]
