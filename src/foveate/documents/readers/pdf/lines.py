"""Lines of a page in reading order, from its words: rows, columns, and what spans columns."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.documents.readers.pdf.direction import order_words, pair_brackets
from foveate.documents.readers.pdf.words import Words
from foveate.documents.scripts import is_mark, signs

_CELL_GAP = 1.0  # widths of an em between words of one row that do not belong together
_FULL = 0.7  # of the width of a frame that a line of text takes, the least
_NEAR = 3.0  # points by which the edge of a column may be missed
_FEWEST_WORDS = 4  # in a line of prose
_FEWEST_LINES = 4  # of a column of prose that begin at its edge
_INDENT = 40.0  # points by which lines of a column may be indented
_DROP_CAP = 1.8  # times the usual size, the least of a letter that begins several lines
_HIGHEST = 1.2  # sizes between the baselines of a line and of a mark in it
SMALL = 0.85  # of the size of a line: that of a mark in it
_RAISED = 0.1  # sizes between the baselines of a line and of a small mark, the least
_ALIKE = 0.6  # of the widest gap between words, the narrowest of a line that is stretched


@dataclass(slots=True)
class Segment:
    """Words that were written one after the other on one baseline, without a wide gap."""

    words: list[int]
    left: float
    top: float
    right: float
    bottom: float
    baseline: float
    size: float

    @property
    def width(self) -> float:
        """Width in points."""
        return self.right - self.left


@dataclass(slots=True)
class Frame:
    """A part of a page with lines one below the other, such as a column.

    Attributes:
        left: Left edge of most lines.
        right: Right edge of the longest lines.
    """

    left: float
    right: float


@dataclass(slots=True)
class Line:
    """A line of text in a frame.

    Attributes:
        page: Number of its page.
        words: Its words, from left to right.
        glued: For each word, whether no space separates it from the one before.
        places: `(words, 6)` float32, the left, top, right and bottom of each word, its baseline,
            and the size of its font. One array instead of lists, because a long document has
            millions of words.
        cells: Indices of the words that follow a wide gap.
        left, top, right, bottom: Its edges, in points.
        baseline: Of most of its words.
        size: Size of the font of most characters.
        bold: Share of bold characters.
        italic: Share of italic characters.
        mono: Share of characters of a typewriter font.
        math: Share of characters of a mathematical font.
        frame: The frame that it is in.
    """

    page: int
    words: tuple[str, ...]
    glued: tuple[bool, ...]
    places: NDArray[np.float32]
    cells: tuple[int, ...]
    left: float
    top: float
    right: float
    bottom: float
    baseline: float
    size: float
    bold: float
    italic: float
    mono: float
    math: float
    frame: Frame
    text: str = field(init=False)

    def __post_init__(self) -> None:
        """Compose the text."""
        self.text = join_words(self.words, self.glued)

    @property
    def boxes(self) -> NDArray[np.float32]:
        """`(words, 4)` float32, the left, top, right and bottom of each word."""
        return self.places[:, :4]

    @property
    def baselines(self) -> NDArray[np.float32]:
        """`(words,)` float32, the baseline of each word."""
        return self.places[:, 4]

    @property
    def sizes(self) -> NDArray[np.float32]:
        """`(words,)` float32, the size of the font of each word in points."""
        return self.places[:, 5]


def join_words(words: Sequence[str], glued: Sequence[bool]) -> str:
    """Write words with spaces where there are any."""
    if not any(glued):
        return " ".join(words)
    return "".join(
        word if is_glued or not number else f" {word}"
        for number, (word, is_glued) in enumerate(zip(words, glued, strict=True))
    )


def find_segments(words: Words) -> list[Segment]:
    """Group words that were written one after the other on one baseline."""
    if not words.texts:
        return []
    _place_drop_caps(words)
    boxes, sizes, baselines = words.boxes, words.sizes, words.baselines
    large = np.maximum(sizes[1:], sizes[:-1])
    gaps = boxes[1:, 0] - boxes[:-1, 2]
    falls = np.abs(np.diff(baselines))
    is_small = np.minimum(sizes[1:], sizes[:-1]) < SMALL * large  # as the numbers of lines are
    widest = np.where(is_small, 0.6, _CELL_GAP) * large
    same = (falls < 0.5 * large) & (gaps < widest) & (gaps > -0.5 * large)
    # A mark, however high or low, touches what it belongs to, and is smaller or returns.
    touching = (falls < _HIGHEST * large) & (gaps < 0.4 * large) & (gaps > -0.3 * large)
    mark = touching & is_small
    returns = touching[1:] & touching[:-1] & (np.abs(baselines[2:] - baselines[:-2]) < 0.5)
    mark[1:] |= returns
    mark[:-1] |= returns
    same |= mark
    starts = np.concatenate([[0], np.flatnonzero(~same) + 1])
    ends = [*starts[1:].tolist(), len(sizes)]
    # The baseline and the size are those of the word that takes most room.
    room = words.lengths * sizes
    largest = np.repeat(np.maximum.reduceat(room, starts), np.diff([*starts, len(sizes)]))
    mains = np.flatnonzero(room == largest)
    mains = mains[np.searchsorted(mains, starts)]
    return [
        Segment(list(range(first, last)), *corners, baseline, size)
        for first, last, corners, baseline, size in zip(
            starts.tolist(),
            ends,
            _corners(boxes, starts),
            baselines[mains].tolist(),
            sizes[mains].tolist(),
            strict=True,
        )
    ]


def _place_drop_caps(words: Words) -> None:
    """Put large first letters into the first of the lines beside them, which all begin with them.

    Changes the places of those words.
    """
    boxes, baselines, sizes = words.boxes, words.baselines, words.sizes
    usual = float(np.median(sizes))
    for cap in np.flatnonzero((sizes > _DROP_CAP * usual) & (words.lengths < 3)).tolist():
        text = words.texts[cap]
        left, _, right, _ = boxes[cap].tolist()
        beside = np.flatnonzero(
            (boxes[:, 0] > right - 0.1 * usual)
            & (boxes[:, 0] < right + 1.5 * usual)
            & (baselines > baselines[cap] - sizes[cap])
            & (baselines < baselines[cap] + 0.5 * usual)
            & (sizes < sizes[cap] / _DROP_CAP)
        )
        beside = beside[np.lexsort([boxes[beside, 0], baselines[beside]])]
        beside = beside[np.diff(baselines[beside], prepend=-usual) > 0.5 * usual]
        if len(beside) < 2 or not text[-1].isupper() or not all(map(_is_opening, text[:-1])):
            continue
        first, start = int(beside[0]), float(boxes[beside, 0].min())
        if _begins_word(text, words.texts[first]):
            right = float(boxes[first, 0])
        boxes[beside[1:], 0] = left
        boxes[cap] = left, boxes[first, 1], min(right, start), boxes[first, 3]
        baselines[cap], sizes[cap] = baselines[first], sizes[first]
        words.glued[first] = right > boxes[first, 0] - 0.1


def _is_opening(character: str) -> bool:
    return unicodedata.category(character) in ("Pi", "Ps", "Po")


def _begins_word(letter: str, rest: str) -> bool:
    """Return whether a drop cap is a letter of the word after it, not the word "A" or "I"."""
    from wordfreq import zipf_frequency

    if letter[-1] not in "AI":
        return True
    return bool(zipf_frequency(letter[-1] + rest, "en") >= zipf_frequency(rest, "en"))


def find_frames(segments: Sequence[Segment], words: Words) -> list[tuple[Frame, list[Segment]]]:
    """Divide a page into frames, in reading order.

    Columns have about the same width. What spans several columns (titles, wide figures and tables)
    separates what is above it from what is below it. Each frame comes with its segments.
    """
    if not segments:
        return []
    gutters = _find_gutters(segments, words)
    if not gutters:
        return _side_frames(segments)
    frames: list[tuple[Frame, list[Segment]]] = []
    columned: list[Segment] = []
    spanning: list[Segment] = []

    def flush_columns() -> None:
        edges = [float("-inf"), *((left + right) / 2 for left, right in gutters), float("inf")]
        for first, last in pairwise(edges):
            column = [s for s in columned if first <= (s.left + s.right) / 2 < last]
            if column:
                frames.extend(_side_frames(column))
        columned.clear()

    def flush_spanning() -> None:
        if spanning:
            frames.append((_frame_of(spanning), list(spanning)))
        spanning.clear()

    for row in group_rows(segments):
        if any(_crosses(segment, gutter) for segment in row for gutter in gutters):
            flush_columns()
            spanning.extend(row)
        else:
            flush_spanning()
            columned.extend(row)
    flush_columns()
    flush_spanning()
    return frames


def _crosses(segment: Segment, gutter: tuple[float, float]) -> bool:
    left, right = gutter
    reach = min(12.0, 0.3 * segment.width)
    return segment.left < left - reach and segment.right > right + reach


def _find_gutters(segments: Sequence[Segment], words: Words) -> list[tuple[float, float]]:
    """Find the spaces between columns of prose, as left and right edges.

    They may be wide: two pages may be on one sheet.
    """
    prose = [segment for segment in segments if len(segment.words) >= _FEWEST_WORDS]
    begun = sum(words.texts[segment.words[0]][:1].isupper() for segment in prose)
    if begun > 0.75 * len(prose):  # rows of a table
        return []
    lefts = np.array([segment.left for segment in prose])
    rights = np.array([segment.right for segment in prose])
    shared = Counter(np.round(lefts / 2).tolist())
    columns: list[tuple[float, float, int]] = []  # left, right and number of lines
    for left in sorted(2 * edge for edge, count in shared.items() if count >= _FEWEST_LINES):
        if columns and left < columns[-1][1] + _NEAR:
            continue
        mine = np.abs(lefts - left) < _NEAR
        indented = (lefts > left - _NEAR) & (lefts < left + _INDENT)
        columns.append((left, float(np.median(rights[mine])), int(indented.sum())))
    widths = [right - left for left, right, _ in columns]
    if len(columns) < 2 or min(widths) < 0.6 * max(widths):
        return []
    if sum(count for _, _, count in columns) < 0.6 * len(prose):
        return []
    return [
        (max(float(rights[rights < other].max()), right), other)
        for (_, right, _), (other, _, _) in pairwise(columns)
    ]


def _side_frames(segments: Sequence[Segment]) -> list[tuple[Frame, list[Segment]]]:
    """Separate notes in the margin from the main frame.

    Notes stand beside full lines or none; what stands beside short ones is a cell of their row.
    """
    main = _frame_of(segments)
    outside = [s.right < main.left - _NEAR or s.left > main.right + _NEAR for s in segments]
    if not any(outside):
        return [(main, list(segments))]
    inside = [s for s, is_outside in zip(segments, outside, strict=True) if not is_outside]
    beside = [s for s, is_outside in zip(segments, outside, strict=True) if is_outside]
    whole = Frame(min(s.left for s in segments), max(s.right for s in segments))
    width = main.right - main.left
    is_full = np.array([segment.width > _FULL * width for segment in inside])
    baselines = np.array([segment.baseline for segment in inside])
    in_row = np.abs(np.array([[s.baseline] for s in beside]) - baselines) < 2
    has_text, has_full = in_row.any(axis=1), in_row[:, is_full].any(axis=1)
    if width < 0.4 * (whole.right - whole.left) or has_full.sum() < 0.5 * has_text.sum():
        return [(whole, list(segments))]
    notes: list[Segment] = []
    for segment, is_row in zip(beside, has_text.tolist(), strict=True):
        # A number or bullet next to a line belongs to it.
        (inside if is_row and segment.width < 40 else notes).append(segment)
    return [(main, inside)] + ([(_frame_of(notes), notes)] if notes else [])


def _frame_of(segments: Sequence[Segment]) -> Frame:
    widest = max(segment.width for segment in segments)
    long = [segment for segment in segments if segment.width > 0.6 * widest]
    return Frame(min(s.left for s in long), max(s.right for s in long))


def group_rows(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Group segments that share a baseline, from top to bottom; each row from left to right."""
    rows: list[list[Segment]] = []
    baseline = size = 0.0
    for segment in sorted(segments, key=lambda segment: segment.baseline):
        if rows and segment.baseline - baseline < 0.3 * min(size, segment.size):
            rows[-1].append(segment)
            if segment.size > size:
                baseline, size = segment.baseline, segment.size
        else:
            rows.append([segment])
            baseline, size = segment.baseline, segment.size
    for row in rows:
        row.sort(key=lambda segment: segment.left)
    return rows


def make_lines(page: int, words: Words, segments: Sequence[Segment], frame: Frame) -> list[Line]:
    """Make the lines of a frame, from top to bottom."""
    rows = _attach_scripts(group_rows(segments), words)
    glued = words.glued.tolist()
    ordered = [_order_words(row, words, glued) for row in rows]
    index = np.concatenate([indices for indices, _, _ in ordered])
    lengths, styles = words.lengths[index], words.styles[index]
    places = np.column_stack([words.boxes[index], words.baselines[index], words.sizes[index]])
    starts = np.cumsum([0, *(len(indices) for indices, _, _ in ordered[:-1])])
    totals = np.maximum(np.add.reduceat(lengths, starts), 1.0)[:, None]
    shares = np.add.reduceat(lengths[:, None] * styles, starts) / totals
    sizes = np.round(places[:, 5], 1)
    largest, smallest = np.maximum.reduceat(sizes, starts), np.minimum.reduceat(sizes, starts)
    highest = np.minimum.reduceat(places[:, 4], starts)
    lowest = np.maximum.reduceat(places[:, 4], starts)
    lines: list[Line] = []
    for number, row, (
        indices,
        row_glued,
        cells,
    ), first, corners, styled, size, is_even, spread in zip(
        range(len(rows)),
        rows,
        ordered,
        starts.tolist(),
        _corners(places, starts),
        _fours(shares),
        largest.tolist(),
        (largest == smallest).tolist(),
        zip(highest.tolist(), lowest.tolist(), strict=True),
        strict=True,
    ):
        left, top, right, bottom = corners
        bold, italic, mono, math = styled
        last = first + len(indices)
        own = places[first:last]
        texts = tuple([words.texts[n] for n in indices])
        if words.has_right_to_left:
            texts = pair_brackets(texts)
        if not is_even:
            by_size: Counter[float] = Counter()
            for text, one in zip(texts, sizes[first:last].tolist(), strict=True):
                by_size[one] += len(text)
            size = by_size.most_common(1)[0][0]
        baseline = max(row, key=lambda segment: segment.width).baseline
        if len(own) > 1 and not is_even and own[0, 5] < SMALL * own[1, 5] and is_mark(texts[0]):
            row_glued[1] = False
        if max(baseline - spread[0], spread[1] - baseline) > _RAISED * size:
            texts = _write_marks(texts, row_glued, own, baseline, size)
        around = rows[max(number - 1, 0) : number] + rows[number + 1 : number + 2]
        if cells and _is_stretched(own, cells, frame) and not _is_aligned(row, around):
            cells = []
        lines.append(
            Line(page, texts, tuple(row_glued), own, tuple(cells), left, top, right, bottom,
                 baseline, size, bold, italic, mono, math, frame)
        )  # fmt: skip
    return lines


def _attach_scripts(rows: list[list[Segment]], words: Words) -> list[list[Segment]]:
    """Put superscripts and subscripts into the row next to theirs that they belong to."""
    for number, row in enumerate(rows):
        around = [other for other in rows[max(number - 1, 0) : number + 2] if other is not row]
        limit = SMALL * max((base.size for other in around for base in other), default=0.0)
        for script in [small for small in row if small.width < 60 and small.size < limit]:
            for other in around:
                if any(_belongs(script, base, words) for base in other):
                    row.remove(script)
                    other.append(script)
                    other.sort(key=lambda segment: segment.left)
                    break
    return [row for row in rows if row]


def _belongs(script: Segment, base: Segment, words: Words) -> bool:
    """Return whether a segment is a superscript or subscript next to a word of another."""
    overlap = min(script.bottom, base.bottom) - max(script.top, base.top)
    if script.size >= SMALL * base.size or overlap <= 0.3 * (script.bottom - script.top):
        return False
    boxes = words.boxes[base.words]
    gaps = np.maximum(script.left - boxes[:, 2], boxes[:, 0] - script.right)
    return bool(((gaps > -1) & (gaps < 0.4 * base.size)).any())


def _order_words(
    row: Sequence[Segment], words: Words, all_glued: Sequence[bool]
) -> tuple[list[int], list[bool], list[int]]:
    """Return the indices of the words of a row, which of them are glued, and where cells begin."""
    if len(row) == 1 and not words.has_right_to_left:
        indices = row[0].words
        return indices, [False, *[all_glued[index] for index in indices[1:]]], []
    indices = []
    cells: list[int] = []
    end = 0.0
    glued: list[bool] = []
    is_within = False
    for segment in row:
        if indices and segment.left - end > _CELL_GAP * segment.size:
            cells.append(len(indices))
        glued += [
            bool(indices) and segment.left - end < 0.12 * segment.size,
            *[all_glued[index] for index in segment.words[1:]],
        ]
        indices += segment.words
        is_within = is_within or segment.left < end - 1
        end = max(end, segment.right)
    if is_within and not cells:  # a mark within a segment
        indices.sort(key=lambda index: float(words.boxes[index, 0]))
        gaps = words.boxes[indices[1:], 0] - words.boxes[indices[:-1], 2]
        glued = [False, *(gaps < 0.12 * words.sizes[indices[1:]]).tolist()]
    if words.has_right_to_left:
        texts = [words.texts[index] for index in indices]
        order = [
            first + n
            for first, last in pairwise([0, *cells, len(texts)])
            for n in order_words(texts[first:last], words.is_mirrored)
        ]
        glued = [
            n > 0 and abs(order[n] - order[n - 1]) == 1 and glued[max(order[n - 1 : n + 1])]
            for n in range(len(order))
        ]
        indices = [indices[n] for n in order]
    return indices, glued, cells


def _write_marks(
    texts: tuple[str, ...],
    glued: Sequence[bool],
    places: NDArray[np.float32],
    baseline: float,
    size: float,
) -> tuple[str, ...]:
    """Write the raised and lowered words of a line, of that baseline and size, as such."""
    rises = (baseline - places[:, 4]) / size
    small = places[:, 5] < SMALL * size
    is_script = np.abs(rises) > np.where(small, _RAISED, 0.25)
    marked: list[str] = []
    base = ""
    for index, text in enumerate(texts):
        if not (glued[index] and (is_script[index] or not is_script[index - 1])):
            base = ""
        if is_script[index]:
            is_raised = bool(rises[index] > 0)
            is_written = base and (is_raised or small[index])
            around = signs(base, text, is_raised=is_raised) if is_written else None
            marked.append(text if around is None else around[0] + text + around[1])
        else:
            marked.append(text)
            base += text
    return tuple(marked)


Four = tuple[float, float, float, float]


def _corners(boxes: NDArray[np.float32], starts: NDArray[np.intp]) -> list[Four]:
    """Return the left, top, right and bottom edges of what groups of boxes cover."""
    first = np.minimum.reduceat(boxes[:, :2], starts)
    return _fours(np.concatenate([first, np.maximum.reduceat(boxes[:, 2:4], starts)], axis=1))


def _fours(table: NDArray[Any]) -> list[Four]:
    return [(first, second, third, last) for first, second, third, last in table.tolist()]


def _is_stretched(boxes: NDArray[np.float32], cells: Sequence[int], frame: Frame) -> bool:
    """Return whether a line has wide gaps only because its words fill the width of its frame."""
    if len(cells) < 2 or abs(boxes[-1, 2] - frame.right) > _NEAR:
        return False
    gaps = boxes[2:, 0] - boxes[1:-1, 2]  # the first word may be the mark of an item
    return bool(gaps.min() > _ALIKE * gaps.max())


def _is_aligned(row: Sequence[Segment], around: Sequence[Sequence[Segment]]) -> bool:
    """Return whether cells of a row, but for the first, stand at an edge of some beside it."""
    for other in around:
        edges = [(cell.left, cell.right) for cell in other[1:]]
        shared = sum(
            any(min(abs(c.left - left), abs(c.right - right)) < 1 for left, right in edges)
            for c in row[1:]
        )
        if shared > 0.5 * (len(row) - 1):
            return True
    return False
