"""Paragraphs and their kinds, from the lines of all pages in reading order."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from foveate.documents.readers.pdf.lines import Line
from foveate.documents.readers.pdf.tables import find_tables, is_row
from foveate.documents.structure import Kind
from foveate.documents.words import alternatives, load_words, name_set

BULLET = re.compile(r"^[•‣▪■●○◦⁃►➢✓∗·*–—-]$")
_DASH = re.compile(r"^[∗·*–—-]$")  # what may be between words, too
_ENUMERATOR = re.compile(r"^(\(?(\d{1,3}|[a-z]|[ivx]{1,5})[.)]|\([A-Z]\)|\[\d{1,3}\])$")
_END_OF_ITEM = re.compile(r"[.:;]$|[;,] (?:and|or|und|oder|et|ou|y|o)$")
CAPTION = re.compile(
    rf"^(?:{alternatives(load_words('headings')['captions'])})\s*"
    r"([A-Z]?\d+([.–-]\d+)*|[IVX]+)(?!\s*(and|et|und)\b)\s*([:.–—|]|$|(?=\s[A-Z(]))"
)
NUMBERING = re.compile(
    r"^((?P<numbers>\d{1,2}(\.\d{1,3})*)\.?|(?P<roman>[IVX]{1,6})\.|(?P<letter>[A-Z])\.?|"
    r"(?P<lettered>[A-Z](\.\d{1,3})+)\.?|(?P<mark>§+\s*\d+[a-z]?))\s+(?=[^\W\d_]|[“\"'(‘$/])"
)
SECTION_NUMBER = re.compile(r"§+\s*\d{1,5}[a-z]?\.?\s+(?=\w)")
_LEADERS = re.compile(r"(\. ?){5,}|…{2,}|(· ?){5,}|(\. ){4,}")
_ENDS_IN_NUMBER = re.compile(r"(?<![\w.,])([0-9]{1,4}|[ivxlc]{1,6})$")
_WORDS = re.compile(r"[^\W\d_]{3,}")
_TERMINAL = tuple('.!?。！？”"»)')
_SYMBOLS = frozenset("=+−×÷<>≤≥≈≡∈∉∀∃∑∏∫√∂∇∞∪∩⊂⊆→←↦⇒⇔∧∨¬|∥·∗⊗⊕′″†(){}[]/^_,.;:")
_MATH_LETTERS = 0x1D400  # the first letter for mathematics in Unicode
_FUNCTIONS = name_set("lim sin cos tan log exp max min sup inf det perm mod arg")
_FOOTNOTE_MARK = re.compile(r"^(\d{1,3}|[∗*†‡§¶]{1,3}|[a-z])$")


@dataclass(slots=True)
class TextBlock:
    """Consecutive lines that belong together.

    Attributes:
        lines: The lines.
        kind: What they are.
        level: Level of the heading that they are; 0 if they are not a heading.
        skipped: Number of words at their beginning that are a mark, such as a bullet.
    """

    lines: list[Line]
    kind: Kind = "prose"
    level: int = 0
    skipped: int = 0
    text: str = field(init=False)
    size: float = field(init=False)  # of the font of most lines

    def __post_init__(self) -> None:
        """Compose the text."""
        self.text = " ".join(line.text for line in self.lines)
        sizes = [round(line.size * 2) / 2 for line in self.lines]
        self.size = sizes[0] if len(sizes) == 1 else Counter(sizes).most_common(1)[0][0]

    @property
    def page(self) -> int:
        """Number of the page where it begins."""
        return self.lines[0].page


@dataclass(frozen=True, slots=True)
class Typography:
    """What is usual in a document.

    Attributes:
        size: Font size of most characters, in points.
        pitches: For each font size, in half points, the usual distance of two baselines.
        is_mono: Whether most of the text is set in a typewriter font.
        is_bold: Whether most of the text is bold.
    """

    size: float
    pitches: dict[int, float]
    is_mono: bool
    is_bold: bool

    def pitch(self, line: Line) -> float:
        """Return the usual distance to the baseline of the next line."""
        return self.pitches.get(round(line.size * 2), 1.2 * line.size)


def study(lines: Sequence[Line]) -> Typography:
    """Measure what is usual in a document."""
    sizes: Counter[float] = Counter()
    steps: defaultdict[int, Counter[float]] = defaultdict(Counter)
    mono = bold = total = 0.0
    for line in lines:
        length = len(line.text)
        sizes[round(line.size * 2) / 2] += length if line.mono < 0.5 else length // 2
        mono += line.mono * length
        bold += line.bold * length
        total += length
    for one, other in pairwise(lines):
        step = other.baseline - one.baseline
        if one.frame is other.frame and abs(one.size - other.size) < 0.6 and step > 0:
            steps[round(one.size * 2)][round(step * 2) / 2] += 1
    pitches: dict[int, float] = {}
    for size, counts in steps.items():
        plausible = {
            step: count for step, count in counts.items() if 0.4 * size < step < 1.2 * size
        }
        if plausible:
            pitches[size] = max(plausible, key=lambda step: (plausible[step], -step))
    usual = sizes.most_common(1)[0][0] if sizes else 10.0
    return Typography(usual, pitches, mono > 0.6 * total, bold > 0.5 * total)


def find_blocks(pages: Sequence[list[Line]], typography: Typography) -> list[TextBlock]:
    """Group the lines of each page, which are in reading order, into blocks."""
    blocks: list[TextBlock] = []
    reached = 0
    for page in pages:
        lines, reached = _without_contents(page, reached)
        for _, group in groupby(lines, key=lambda line: id(line.frame)):
            last = next((block for block in reversed(blocks) if block.kind != "footnote"), None)
            above = last.lines if last and last.kind == "table" else []
            blocks.extend(_blocks_of_frame(list(group), typography, above))
    return blocks


def _without_contents(lines: Sequence[Line], reached: int) -> tuple[list[Line], int]:
    """Leave out tables of contents: lines with leaders, and the lines between them.

    Their numbers grow, as prices do not. `reached` is the last number of a table that the page
    before ends with, and that goes on here; returned is that of this page, or 0.
    """
    leading = [number for number, line in enumerate(lines) if _LEADERS.search(line.text)]
    ends = {
        number: int(end[1]) if end[1].isdigit() else 0
        for number, line in enumerate(lines)
        if (end := _ENDS_IN_NUMBER.search(line.text))
        and (number in leading or line.boxes[-1, 0] - line.boxes[-2:, 2].min() > line.size)
    }
    superfluous: set[int] = set()
    for number in range(len(lines)) if reached else ():
        if ends.get(number, -1) < reached:
            break
        superfluous.add(number)
        reached = ends[number]
    own = [ends[number] for number in leading if ends.get(number)]
    falls = sum(one > other for one, other in pairwise(own))
    if (
        len(leading) >= 3
        and len(ends.keys() & set(leading)) >= 0.7 * len(leading)
        and falls <= len(own) // 8
    ):
        superfluous.update(leading)
        for number in [*ends, *reversed(ends)]:
            if not superfluous.isdisjoint(range(number - 4, number + 5)):
                superfluous.add(number)
    for number in range(len(lines) - 2, -1, -1):  # first lines of entries that take two
        if number + 1 in superfluous and number - 1 in superfluous:
            superfluous.add(number)
    last = len(lines) - 1
    reached = max(ends.get(last, 0), reached) if last in superfluous else 0
    return [line for number, line in enumerate(lines) if number not in superfluous], reached


def _blocks_of_frame(
    lines: list[Line], typography: Typography, above: Sequence[Line]
) -> Iterator[TextBlock]:
    notes = _footnote_start(lines, typography)
    body, footnotes = lines[:notes], lines[notes:]
    code = _find_code(body, typography)
    formulas = _find_formulas(body, typography)
    mathematical = {n for start, end in formulas.items() for n in range(start, end)}
    tables = {
        start: end
        for start, end in find_tables(body, above)
        if start not in code
        and len(mathematical.intersection(range(start, end))) < 0.5 * (end - start)
    }
    tabular = {n for start, end in tables.items() for n in range(start, end)}
    formulas = {n: end for n, end in formulas.items() if not tabular.intersection(range(n, end))}
    number = 0
    while number < len(body):
        if number in tables or number in formulas:
            end = tables.get(number) or formulas[number]
            yield TextBlock(body[number:end], "table" if number in tables else "formula")
            number = end
            continue
        end = number + 1
        while (
            end < len(body)
            and end not in tables
            and end not in formulas
            and not _separates(body, number, end, code, typography)
        ):
            end += 1
        block = TextBlock(body[number:end], "code" if number in code else "prose")
        _classify(block)
        yield block
        number = end
    yield from _footnotes(footnotes)


def _find_code(lines: Sequence[Line], typography: Typography) -> set[int]:
    """Return the lines in a typewriter font that are not part of running text."""
    found: set[int] = set()
    for number, line in enumerate(lines):
        is_heading = line.bold > 0.9 and line.size > 1.1 * typography.size
        is_item = BULLET.match(line.words[0]) and line.mono < 0.99  # its bullet is in another font
        if line.mono < 0.75 or typography.is_mono or is_heading or is_item:
            continue
        above = lines[number - 1] if number else None
        runs_on = (
            above is not None
            and number - 1 not in found
            and line.baseline - above.baseline < 1.2 * typography.pitch(above)
            and min(abs(line.left - line.frame.left), abs(line.left - _text_left(above)))
            < line.size
            and not above.text.endswith((*_TERMINAL, ":", "："))
            and not _fits(above, line)
        )
        if not runs_on:
            found.add(number)
    return found


def _text_left(line: Line) -> float:
    """Return the left edge of a line's text, to the right of its bullet if it has one."""
    is_item = BULLET.match(line.words[0]) and len(line.words) > 1
    return float(line.boxes[1, 0]) if is_item else line.left


def is_formula(line: Line) -> bool:
    """Return whether a line is mathematics rather than words."""
    text = line.text
    if line.math <= 0.25 and text.isascii() and not any(map(text.__contains__, "=<>")):
        return False
    visible = [character for character in text if not character.isspace()]
    if not visible or line.mono > 0.5 or line.bold > 0.9:
        return False
    words = sum(len(word) for word in _WORDS.findall(text) if ord(word[0]) < _MATH_LETTERS)
    letters = sum(ord(character) >= _MATH_LETTERS for character in visible)
    symbols = sum(character in _SYMBOLS for character in visible)
    share = words / len(visible)
    if max(line.math, letters / len(visible)) > 0.25 and share < 0.45:
        return True
    return symbols > 0.3 * len(visible) and share < 0.3 and any(c in "=≤≥≈∈∑∫→<>" for c in text)


def _is_fragment(line: Line) -> bool:
    """Return whether a line may be a part of a formula: limits, fractions, its number."""
    narrow = line.right - line.left < 0.5 * (line.frame.right - line.frame.left)
    if line.mono >= 0.5 or not (narrow or line.cells):
        return False
    return all(word in _FUNCTIONS for word in _WORDS.findall(line.text))


def _find_formulas(lines: Sequence[Line], typography: Typography) -> dict[int, int]:
    """Find formulas that are set apart: the first line of each, and the line after its last."""
    found: dict[int, int] = {}
    number = 0
    while number < len(lines):
        end = number
        certain = False
        while end < len(lines) and (is_formula(lines[end]) or _is_fragment(lines[end])):
            step = lines[end].baseline - lines[end - 1].baseline if end else 0.0
            if end > number and step > 2.5 * typography.pitch(lines[end - 1]):
                break
            certain = certain or is_formula(lines[end])
            end += 1
        if certain and end > number and not _is_last_of_paragraph(lines, number, typography):
            found[number] = end
        number = max(end, number + 1)
    return found


def _is_last_of_paragraph(lines: Sequence[Line], number: int, typography: Typography) -> bool:
    """Return whether a line looks like a formula only because a paragraph ends with it."""
    line = lines[number]
    if not number or line.left > line.frame.left + line.size:
        return False
    return line.baseline - lines[number - 1].baseline < 1.2 * typography.pitch(line)


def _separates(
    lines: Sequence[Line], first: int, number: int, code: set[int], typography: Typography
) -> bool:
    """Return whether a new block begins with the line of that number."""
    above, line = lines[number - 1], lines[number]
    step = line.baseline - above.baseline
    pitch = max(typography.pitch(above), typography.pitch(line))
    large = max(above.size, line.size)
    if (number - 1 in code) != (number in code):
        return True
    if number in code:
        return step > 3 * pitch
    if abs(above.size - line.size) > 0.08 * large + 0.3:
        return True
    ends = _fits(above, line) or NUMBERING.match(above.text) is not None
    if _differ(above.bold, line.bold) and (ends or above.text.endswith(_TERMINAL)):
        return True
    are_headings = min(above.bold, line.bold) > 0.9 and _fits(above, line)
    if are_headings and (NUMBERING.match(line.text) or SECTION_NUMBER.match(line.text)):
        return True
    if _differ(above.italic, line.italic) and ends:
        return True
    if step > 1.3 * pitch or step < -0.5 * pitch:
        return True
    if number - first == 1 and _fits(above, line):  # a heading close to its text
        if is_centred(above) and not is_centred(line):
            return True
        in_two_lines = is_centred(above) or min(above.bold, line.bold) > 0.6
        if NUMBERING.match(above.text) and step > 1.03 * pitch and not in_two_lines:
            return True
    if _begins_item(line, above):
        return True
    if CAPTION.match(line.text) and _fits(above, line):
        return True
    return _begins_paragraph(lines, first, number)


def _differ(one: float, other: float) -> bool:
    """Return whether one line is in a style, such as bold type, and the other is not."""
    return max(one, other) > 0.9 and abs(one - other) > 0.5


def _fits(above: Line, line: Line) -> bool:
    """Return whether the first word of a line would have fitted on the line above."""
    room = above.frame.right - above.right
    width = float(line.boxes[0, 2] - line.boxes[0, 0])
    return room > width + 0.6 * above.size


def _begins_item(line: Line, above: Line) -> bool:
    first = line.words[0]
    if BULLET.match(first) and len(line.words) > 1:
        if not _DASH.match(first):
            return True
        indented = line.left > line.frame.left + 0.3 * line.size and line.left != above.left
        return indented or _fits(above, line) or above.text.endswith((":", ".", ";"))
    if _ENUMERATOR.match(first) and len(line.words) > 1:
        return _fits(above, line) or _END_OF_ITEM.search(above.text) is not None
    return False


def _begins_paragraph(lines: Sequence[Line], first: int, number: int) -> bool:
    """Return whether a line begins a paragraph, by its indentation or the line above."""
    above, line = lines[number - 1], lines[number]
    indent = line.left - above.left
    em = line.size
    is_item = BULLET.match(lines[first].words[0]) or _ENUMERATOR.match(lines[first].words[0])
    if is_item:
        if indent < -0.3 * em and line.left < lines[first].left + 0.5 * em:
            return _fits(above, line) or above.text.endswith(_TERMINAL)
        return _fits(above, line) and above.text.endswith(_TERMINAL)
    if number - first == 1 and 0.5 * em < indent:  # hanging indentation
        return _fits(above, line) and above.text.endswith((*_TERMINAL, ":"))
    if indent > 0.6 * em:
        return indent < 6 * em or _fits(above, line)
    if indent < -2.5 * em and number - first > 1:
        return True
    return _fits(above, line) and above.text.endswith((*_TERMINAL, ":")) and not is_centred(above)


def is_centred(line: Line) -> bool:
    """Return whether a line is in the middle of its frame, with room on both sides."""
    left, right = line.left - line.frame.left, line.frame.right - line.right
    return left > 2 * line.size and abs(left - right) < line.size


def _footnote_start(lines: Sequence[Line], typography: Typography) -> int:
    """Return the index of the first line of the footnotes at the bottom of a frame."""
    number = len(lines)
    start = number
    while number and lines[number - 1].size < 0.93 * typography.size:
        number -= 1
        if has_note_mark(lines[number]) and not is_row(lines[number]):
            start = number
    has_body = any(line.size > 0.93 * typography.size for line in lines[:start])
    if start == len(lines) or not has_body or lines[start].baseline < 150:
        return len(lines)
    return start


def has_note_mark(line: Line) -> bool:
    """Return whether a line begins with a small or raised mark."""
    if len(line.words) < 2 or not _FOOTNOTE_MARK.match(line.words[0]):
        return False
    raised = line.baselines[0] < line.baselines[1] - 0.1 * line.size
    return bool(line.sizes[0] < (0.92 if raised else 0.8) * line.sizes[1])


def _footnotes(lines: Sequence[Line]) -> Iterator[TextBlock]:
    starts = [n for n, line in enumerate(lines) if n == 0 or has_note_mark(line)]
    for start, end in pairwise([*starts, len(lines)]):
        yield TextBlock(list(lines[start:end]), "footnote", skipped=1)


def _classify(block: TextBlock) -> None:
    """Set the kind of a block, as its first words indicate."""
    first = block.lines[0]
    if block.kind == "code":
        return
    if CAPTION.match(first.text):
        block.kind = "caption"
    elif len(first.words) > 1 and BULLET.match(first.words[0]):
        block.kind = "item"
        block.skipped = 1
    elif len(first.words) > 1 and _ENUMERATOR.match(first.words[0]) and first.bold < 0.9:
        block.kind = "item"
