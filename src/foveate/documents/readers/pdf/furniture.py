"""Running heads, running feet and page numbers: recognized across pages, and left out."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from foveate.documents.numerals import roman_number
from foveate.documents.readers.pdf.lines import Line, Segment, group_rows
from foveate.documents.readers.pdf.paragraphs import has_note_mark
from foveate.documents.readers.pdf.words import Words
from foveate.documents.words import alternatives, load_words

_ZONE = 0.16  # share of the page's height, at the top and at the bottom, that holds furniture
_MOST_ROWS = 3  # of furniture, at each end
_SAME_HEIGHT = 4.0  # points
_WINDOW = 8  # pages around one that may repeat its running head
_APART = 1.35  # font sizes between the baselines of furniture and text
_SET_APART = 0.6  # font sizes between a page number and the words beside it, the least
_SEPARATORS = frozenset("|•·–—-")
_PAGE, _OF = (alternatives(load_words("headings")[kind]) for kind in ("page", "of"))
_NUMBER = r"(?:\w{1,6}[-–])?(\d{1,4}|(?-i:[ivxlc]{1,7}|[IVXLC]{1,7}))\s*(?:页|頁|ページ)?"
_TOTAL = rf"(?:\s*(?:{_OF})\s*\d{{1,4}})?"
_ONLY_NUMBER = re.compile(rf"\W*({_PAGE})?\s*{_NUMBER}{_TOTAL}\W*", re.I)
_NAMED_NUMBER = re.compile(rf"(?<!\w)(?:{_PAGE})\s*(\d{{1,4}}){_TOTAL}\W*$", re.I)
_LABEL = re.compile(r"(:|\b(no|nr|number|nummer|numéro|número)\.?|[#№º°])$")
_PUNCTUATION = "…\"'“”‘’«»()[]{}.,;:!?|•·–—-"


@dataclass(slots=True)
class _Row:
    """Lines at the edge of a page that share a baseline."""

    page: int  # its index
    height: float  # of the baseline
    lines: list[Line]  # from left to right
    inner: Line | None  # the next one towards the middle of the page
    text: str
    # What may be the page's own number, at either end: its distance from the index of the page,
    # None where the word "page" stands before it, and the other words.
    numbers: list[tuple[int | None, str]]

    @property
    def size(self) -> float:
        """Size of the font."""
        return self.lines[0].size

    @property
    def gap(self) -> float:
        """The distance to the next row; 0 if there is none."""
        return abs(self.inner.baseline - self.height) if self.inner else 0.0


def remove_furniture(pages: Sequence[list[Line]], heights: Sequence[float]) -> list[list[Line]]:
    """Leave out running heads, running feet and page numbers; heights of pages are in points.

    They stand at the edge of the page, apart from the text, and differ from page to page by
    nothing or by the page's own number. Of others in their place, no word may get lost.
    """
    superfluous: set[int] = set()
    body = Counter(round(line.size) for lines in pages for line in lines if line.mono < 0.5)
    usual = body.most_common(1)[0][0] if body else 0
    edges = [
        _edge_rows(index, lines, height, is_top)
        for is_top in (True, False)
        for index, (lines, height) in enumerate(zip(pages, heights, strict=True))
    ]
    for row in _furniture(edges, pages, usual):
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
        if rows:
            rows[-1].inner = line
        if not outside or len(rows) == _MOST_ROWS:
            break
        rows.append(_Row(page, line.baseline, [line], None, "", []))
    for row in rows:
        row.lines.sort(key=lambda line: line.left)
        row.text = " ".join(line.text for line in row.lines).casefold()
        if not has_note_mark(row.lines[0]):
            row.numbers = list(_numbers(row))
    return rows


def _numbers(row: _Row) -> Iterator[tuple[int | None, str]]:
    """Yield what may be the number of a row's page: alone, set apart, or after the word "page"."""
    words = [word for line in row.lines for word in line.words]
    boxes = np.concatenate([line.boxes for line in row.lines])
    apart = (boxes[1:, 0] - boxes[:-1, 2] > _SET_APART * row.size).tolist()
    own = [index for index, word in enumerate(words) if word not in _SEPARATORS]
    cuts = [
        index
        for before, index in pairwise(own)
        if any(apart[before:index]) or index - before > 1  # a separator is between them
    ]
    for first, last in {(0, [*cuts, len(words)][0]), ([0, *cuts][-1], len(words))}:
        found = _ONLY_NUMBER.fullmatch(" ".join(words[first:last]))
        if found:
            rest = [w for w in words[:first] + words[last:] if w not in _SEPARATORS]
            value = int(found[2]) if found[2].isdigit() else roman_number(found[2].upper())
            yield None if found[1] else value - row.page, " ".join(rest).casefold()
    if found := _NAMED_NUMBER.search(row.text):
        yield None, row.text[: found.start()].strip()


def _furniture(
    edges: Sequence[list[_Row]], pages: Sequence[list[Line]], usual: float
) -> list[_Row]:
    """Return the rows that are furniture, set apart from the text, which is of the usual size."""
    rows = [row for edge in edges for row in edge]
    fewest = 1 if len(pages) < 4 else 2
    counting = [(offset, row) for row in rows for offset, _ in row.numbers]
    counted = {(key, id(row)) for key, row in _recurring(counting, fewest)}
    shown: dict[int, str] = {}  # their words without the page's own number
    own: dict[int, int | None] = {}  # a page has one number, and others are those of invoices
    for row, offset, rest in sorted(
        ((one, *number) for one in rows for number in one.numbers),
        key=lambda found: (found[1] is not None, len(found[2]) > 0, abs(found[1] or 0)),
    ):
        is_own = not rest or own.get(row.page, offset) == offset
        if (offset, id(row)) in counted and is_own and not _LABEL.search(rest):
            own.setdefault(row.page, offset)
            shown.setdefault(id(row), rest)
    shown = {id(row): shown.get(id(row), row.text) for row in rows}
    certain = {id(row) for _, row in _recurring([(shown[id(r)], r) for r in rows], fewest)}
    certain.update(one for one, text in shown.items() if not text)
    zones: Counter[int] = Counter()
    for edge in edges:
        leading = takewhile(lambda row: id(row) in certain, edge)
        zones.update(round(row.height) for row in leading)
    alike: set[int] = set()
    for row in rows:
        zone = sum(zones[round(row.height) + shift] for shift in range(-2, 3))
        in_place = zone >= 3 and (row.gap > 1.5 * row.size or not row.gap)
        is_number = any(not rest for _, rest in row.numbers)
        if is_number and in_place:
            certain.add(id(row))
        elif (in_place and row.size <= usual + 0.5) or shown[id(row)] != row.text:
            alike.add(id(row))
    kept = _words_elsewhere([row for row in rows if id(row) in alike - certain], pages)
    furniture: list[_Row] = []
    for edge in edges:
        found = list(
            takewhile(
                lambda row: (
                    id(row) in certain
                    or (id(row) in alike and all(map(kept.__contains__, _words(shown[id(row)]))))
                ),
                edge,
            )
        )
        while found and (0 < found[-1].gap < _APART * found[-1].size or _heads_table(found[-1])):
            found.pop()  # part of the text
        furniture += found
    return furniture


def _recurring(rows: Sequence[tuple[Any, _Row]], fewest: int) -> Iterator[tuple[Any, _Row]]:
    """Yield the rows whose key stands at the same height on that many other pages near."""
    by_key: defaultdict[Any, list[_Row]] = defaultdict(list)
    for key, row in rows:
        by_key[key].append(row)
    for key, members in by_key.items():
        for number, row in enumerate(members):
            near = {
                other.page
                for other in members[max(number - _WINDOW, 0) : number + _WINDOW + 1]
                if 0 < abs(other.page - row.page) <= _WINDOW
                and abs(other.height - row.height) < _SAME_HEIGHT
            }
            if len(near) >= fewest:
                yield key, row


def _words(text: str) -> list[str]:
    return [bare for word in text.casefold().split() if (bare := word.strip(_PUNCTUATION))]


def _words_elsewhere(rows: Sequence[_Row], pages: Sequence[list[Line]]) -> set[str]:
    """Return the words of rows that also stand in the document where those rows do not stand."""
    sought = {word for row in rows for word in _words(row.text)}
    inside = {(line.text, round(line.baseline)) for row in rows for line in row.lines}
    found: set[str] = set()
    for line in (line for lines in pages for line in lines) if sought else ():
        if (line.text, round(line.baseline)) not in inside:
            found.update(sought.intersection(_words(line.text)))
    return found


def _heads_table(row: _Row) -> bool:
    """Return whether the cells of a row stand above those of the next."""
    line, inner = row.lines[0], row.inner
    if inner is None or len(row.lines) > 1 or not line.cells or not inner.cells:
        return False
    lefts, below = line.boxes[[0, *line.cells], 0], inner.boxes[[0, *inner.cells], 0]
    return all(np.abs(below - left).min() < _SAME_HEIGHT for left in lefts.tolist())


def drop_line_numbers(segments: Sequence[Segment], words: Words, known: set[int]) -> list[Segment]:
    """Leave out numbers of lines in the margin: outside of all text, they count its lines.

    Where each line has a number, lines have to run on, too, unlike the rows of a table. `known`
    holds the places of such numbers on earlier pages, for pages that have few of them.
    """
    texts = [words.texts[s.words[0]] if len(s.words) == 1 else "" for s in segments]
    lone = [s for s, text in zip(segments, texts, strict=True) if text.isdecimal()]
    others = [s for s, text in zip(segments, texts, strict=True) if not text.isdecimal()]
    if not lone or not others:
        return list(segments)
    left, right = min(s.left for s in others), max(s.right for s in others)
    columns: defaultdict[int, list[Segment]] = defaultdict(list)
    for segment in lone:
        if segment.right < left:
            columns[round(segment.right / _SAME_HEIGHT)].append(segment)
        elif segment.left > right:
            columns[-round(segment.left / _SAME_HEIGHT)].append(segment)
    superfluous: set[int] = set()
    for place in list(columns):
        column = [s for shift in (-1, 0, 1) for s in columns.get(place + shift, ())]
        if place in known or _count_lines(column, others, words):
            known.add(place)
            superfluous.update(map(id, column))
    return [segment for segment in segments if id(segment) not in superfluous]


def _count_lines(column: list[Segment], others: Sequence[Segment], words: Words) -> bool:
    """Return whether the numbers of a column grow by as many as there are lines between them."""
    column.sort(key=lambda segment: segment.baseline)
    rows = group_rows([*column, *(s for s in others if s.width > 2 * s.size)])
    at = {id(segment): index for index, row in enumerate(rows) for segment in row}
    values = [(int(words.texts[s.words[0]]), at[id(s)]) for s in column]
    steps = [(other[0] - one[0], other[1] - one[1]) for one, other in pairwise(values)]
    right = sum(by == lines for by, lines in steps)
    if right < 2 or right < 0.7 * len(steps):
        return False
    margin = set(map(id, column))
    beside = [[s for s in rows[row] if id(s) not in margin][:1] for _, row in values]
    firsts = [words.texts[segment.words[0]][0] for row in beside for segment in row]
    runs_on = sum(f.isalpha() and not f.isupper() for f in firsts) > 0.3 * len(firsts)
    return max(by for by, _ in steps) > 1 or (right > 2 and runs_on)
