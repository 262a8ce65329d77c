"""The text of a PDF, composed of its blocks, and the place of each of its words."""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose, TextComposer
from foveate.documents.layout import Layout
from foveate.documents.readers.pdf.headings import split_run_in
from foveate.documents.readers.pdf.lines import SMALL, Line
from foveate.documents.readers.pdf.paragraphs import TextBlock
from foveate.documents.readers.pdf.tables import CellBounds, arrange, has_heads
from foveate.documents.readers.pdf.words import mirror, turn_boxes
from foveate.documents.scripts import is_mark, signs
from foveate.documents.words import load_words, name_set

_CONJUNCTIONS = {
    language: name_set(words) for language, words in load_words("conjunctions").items()
}
"""The words before which a hyphen stands for the rest of a word: pre- and postwar."""
_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_REST_OF_ADDRESS = re.compile(r"[\w%~-]*([/_=&?#]|[.-]\w|\d)")
_ITALIC = 0.1  # share of the characters of a line that begins with a heading in italics
_CLOSING = frozenset(".,;:!?)]}”’»。，；：！？）」』")

_SHORT = re.compile(r"^([A-Za-zµ\d]{1,2})?$")  # what may have exponents: symbols, units, nothing

_RARE = 3.0  # the frequency of a word that is hardly one
_BETTER_KNOWN = 2.3  # powers of ten by which two words have to be more frequent than one

_COMPOUNDING = name_set("de nl sv da nb no fi hu is")
"""Languages that write compounds as one word: a hyphen before a small letter is never theirs."""


def vocabulary(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts that no line break may have split."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_LETTERS.findall(text.casefold()))
    return counts


class Sheet(NamedTuple):
    """The size of a page, and how its words are rotated on it.

    Attributes:
        width: In points, as shown.
        height: In points, as shown.
        quarter_turns: Number of quarter turns, clockwise, by which the words are turned.
        is_mirrored: Whether left and right of its words are exchanged.
    """

    width: float
    height: float
    quarter_turns: int
    is_mirrored: bool

    @property
    def reading_height(self) -> float:
        """Height of the page when its words are upright."""
        return self.width if self.quarter_turns % 2 else self.height


class Composer:
    """Composes the text of a document, and records where its words are."""

    def __init__(
        self, words: Counter[str], language: str, marks: Mapping[int, Collection[str]]
    ) -> None:
        """Begin with an empty text.

        Args:
            words: The vocabulary of the document.
            language: ISO 639 code of its language.
            marks: The marks of the footnotes on each page. Raised marks are left out.
        """
        self._composer = TextComposer()
        self._words = words
        self._language = language
        self._marks = marks
        self._length = 0
        self._starts = array("q")
        self._boxes = array("f")
        self._line_numbers = array("q")
        self._pages = array("q")
        self._num_lines = 0
        self._level = 0  # of the last heading that stands alone
        self.blocks: list[Block] = []

    def add_title(self, blocks: Sequence[TextBlock]) -> str:
        """Write the title, and return it."""
        return str(self._write([line for block in blocks for line in block.lines]))

    def add(self, block: TextBlock) -> None:
        """Write a block."""
        if block.level:
            self._level = block.level
            self.blocks.append(Heading(block.level, str(self._write(block.lines))))
        elif block.kind == "table":
            self._add_table(block)
        elif block.kind == "code":
            self._add_code(block)
        else:
            separator = "\n" if block.kind in ("formula", "reference") else "\n\n"
            text = self._write(block.lines, block.skipped, separator)
            shown, kind = str(text), block.kind
            is_set_off = block.lines[0].italic > _ITALIC
            cut = split_run_in(shown, is_set_off=is_set_off) if kind in ("prose", "item") else 0
            if cut:
                heading = shown[:cut].rstrip(" —–-.:：")
                is_numbered = ")" in heading[:3]  # with a letter below those with a number
                level = self._level + 1 + heading[0].isalpha() if is_numbered else 1
                self.blocks.append(Heading(level, heading if is_numbered else heading.capitalize()))
                text, kind = text.part(cut, len(shown)), "prose"
            if text:
                self.blocks.append(Prose(text, kind=kind))

    def finish(self, title: str | None, sheets: Sequence[Sheet]) -> ParsedText:
        """Return the whole, with all boxes on the pages as they are shown."""
        pages = np.asarray(self._pages)
        boxes = np.asarray(self._boxes).reshape(-1, 4)
        if any(sheet.quarter_turns or sheet.is_mirrored for sheet in sheets):
            _turn_back(boxes, pages, sheets)
        layout = Layout(
            np.array([sheet[:2] for sheet in sheets], dtype=np.float32).reshape(-1, 2),
            np.asarray(self._starts),
            np.asarray(self._line_numbers),
            pages,
            boxes,
        )
        return ParsedText(title, self.blocks, self._composer.text, layout)

    def _write(
        self, lines: Sequence[Line], skipped: int = 0, separator: str = "\n\n"
    ) -> MappedText:
        """Write lines as one paragraph."""
        pieces: list[str] = []
        starts: list[int] = []
        length = 0
        for number, line in enumerate(lines):
            chosen = self._without_marks(line, skipped if not number else 0)
            self._note(line, chosen)
            if not chosen:
                continue
            text, own = _text_of(line, chosen)
            gap = ""
            if pieces:
                end = "".join(pieces[-4:]).rsplit(" ", 1)[-1]
                gap, cut = self.gap(end, line.words[chosen[0]])
                if cut:
                    pieces[-1] = pieces[-1][:-1]
                    length -= 1
            length += len(gap)
            starts += [length + start for start in own]
            pieces.append(gap + text)
            length += len(text)
        return self._append("".join(pieces), starts, separator)

    def _without_marks(self, line: Line, first: int) -> list[int]:
        """Return the indices of the words of a line, from `first`, that are not footnote marks."""
        rises = line.baseline - line.baselines
        if rises.max() <= 0.15 * line.size:
            return [index for index in range(first, len(line.words)) if line.words[index]]
        raised = rises > np.where(line.sizes < SMALL * line.size, 0.15, 0.25) * line.size
        chosen: list[int] = []
        # A note may be on the previous page, if another mark refers to it again.
        marks = {*self._marks.get(line.page, ()), *self._marks.get(line.page - 1, ())}
        before = ""
        for index in range(first, len(line.words)):
            word = line.words[index]
            mark = word.removeprefix("^")
            if raised[index] and (
                (mark in marks and not _SHORT.match(before))
                or (
                    line.glued[index]
                    and is_mark(mark)
                    and signs(before, mark, is_raised=True) is None
                )
            ):
                continue
            if word:
                chosen.append(index)
                is_script = len(word) > 1 and word[0] in "^_"
                before = before + word * (not is_script) if line.glued[index] else word
        return chosen

    def _append(self, text: str, starts: Iterable[int], separator: str) -> MappedText:
        """Append text whose words start there."""
        self._starts.extend(self._length + start for start in starts)
        self._length += len(text) + len(separator)
        return self._composer.add(text, separator)

    def _note(self, line: Line, chosen: Sequence[int]) -> None:
        """Record the places of words of a line."""
        boxes = line.boxes if len(chosen) == len(line.words) else line.boxes[list(chosen)]
        self._boxes.frombytes(boxes.tobytes())
        self._line_numbers.extend([self._num_lines] * len(chosen))
        self._pages.extend([line.page] * len(chosen))
        self._num_lines += 1

    def gap(self, end: str, word: str) -> tuple[str, bool]:
        """Return what separates the last word of a line from the first of the next.

        Returns:
            The space, and whether the hyphen at the end is left out.
        """
        if len(end) > 1 and end.endswith("-") and end[-2].isalnum():
            second = _LETTERS.match(word)
            first = _LETTERS.findall(end) if end[-2].isalpha() else []
            if second and first and self._joins(first[-1], second[0], word[second.end() :]):
                return " ", False
            if not second:
                return ("" if word[0].isalnum() else " "), False
            return "", bool(first) and not self._keeps_hyphen(first[-1], second[0])
        if (is_wide(end[-1:]) and is_wide(word[0])) or end[-1:] == word[0] == "-":
            return "", False
        if end.endswith(("http:", "https:")) and word.startswith("//"):
            return "", False
        if "://" in end and _continues_address(end, word):
            return "", False
        return (" " if not end.endswith("//") else ""), False

    def _joins(self, first: str, second: str, rest: str) -> bool:
        """Return whether a hyphen stands for the rest of a word that comes after "and"."""
        conjunctions = _CONJUNCTIONS.get(self._language, _CONJUNCTIONS["en"])
        if second not in conjunctions or rest[:1] not in ("", "/", "."):
            return False
        return len(second) == 1 or self._frequency(first + second) < _RARE

    def _keeps_hyphen(self, first: str, second: str) -> bool:
        """Return whether a hyphen at a line end is part of the word."""
        joined, hyphenated = (first + second).casefold(), f"{first}-{second}".casefold()
        if self._words[joined] or self._words[hyphenated]:
            return self._words[hyphenated] >= self._words[joined]
        first, second = first.rsplit("-", 1)[-1], second.split("-", 1)[0]
        if min(len(first), len(second)) == 1 or first.isupper() != second.isupper():
            return True  # an X-ray, a US-based company
        joined = (first + second).casefold()
        frequency = self._frequency(joined)
        if second[0].isupper():
            return not (first.isupper() and frequency > 0)
        if not frequency and self._words[first.casefold()] and self._words[second.casefold()]:
            return True  # two words of the document that nobody writes as one
        if self._language in _COMPOUNDING:
            return False
        return self._frequency(f"{first}-{second}") > frequency + _BETTER_KNOWN

    def _frequency(self, word: str) -> float:
        """Return how common a word is in its language: from 0, unknown, to 8."""
        from wordfreq import zipf_frequency

        try:
            return float(zipf_frequency(word, self._language))
        except (LookupError, ImportError):  # no frequencies of that language
            return 0.0

    def _add_code(self, block: TextBlock) -> None:
        left = min(line.left for line in block.lines)
        for line in block.lines:
            width = line.right - line.left
            step = width / max(len(line.text), 1)
            indent = " " * min(round((line.left - left) / step), 40) if step > 1 else ""
            self._note(line, range(len(line.words)))
            text, starts = _text_of(line, range(len(line.words)))
            mapped = self._append(indent + text, [len(indent) + one for one in starts], "\n")
            self.blocks.append(Prose(mapped, kind="code"))

    def _add_table(self, block: TextBlock) -> None:
        rows = arrange(block.lines)
        heads: list[str] = []
        if has_heads(rows):
            heads = [_cell_text(cell).rstrip(":") for cell in rows[0]]
        for number, row in enumerate(rows):
            is_head = bool(heads) and not number
            pieces: list[str] = []
            length = 0
            starts: list[int] = []
            for column, cell in enumerate(row):
                if not cell:
                    continue
                label = heads[column] if heads and not is_head else ""
                lead = ("; " if pieces else "") + (f"{label}: " if label else "")
                pieces.append(lead)
                length += len(lead)
                for part, (line, (first, last)) in enumerate(cell):
                    for index in range(first, last):
                        space = (index > first and not line.glued[index]) or (
                            index == first and part
                        )
                        word = (" " if space else "") + line.words[index]
                        starts.append(length + len(word) - len(line.words[index]))
                        pieces.append(word)
                        length += len(word)
                    self._note(line, range(first, last))
            text = self._append("".join(pieces), starts, "\n")
            if text and not is_head:
                self.blocks.append(Prose(text, kind="table"))


def _turn_back(
    boxes: NDArray[np.float32], pages: NDArray[np.int64], sheets: Sequence[Sheet]
) -> None:
    """Turn the boxes of words on turned pages, in place, to where the pages show them."""
    by_page = np.argsort(pages, kind="stable")
    firsts = np.searchsorted(pages[by_page], np.arange(1, len(sheets) + 2))
    for index, (width, height, turns, is_mirrored) in enumerate(sheets):
        size = (height, width) if turns % 2 else (width, height)
        mine = by_page[firsts[index] : firsts[index + 1]]
        if is_mirrored:
            boxes[mine] = mirror(boxes[mine], size[0])
        if turns:
            boxes[mine] = turn_boxes(boxes[mine], *size, turns)


def _text_of(line: Line, chosen: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text of some words of a line, and where each of them starts in it."""
    text = line.words[chosen[0]]
    starts = [0]
    for previous, index in pairwise(chosen):
        word = line.words[index]
        glued = word[0] in _CLOSING if previous < index - 1 else line.glued[index]
        is_unspaced = glued or (is_wide(text[-1]) and is_wide(word[0]))
        text += "" if is_unspaced else " "
        starts.append(len(text))
        text += word
    return text, starts


def _cell_text(cell: Sequence[tuple[Line, CellBounds]]) -> str:
    return " ".join(word for line, (first, last) in cell for word in line.words[first:last])


def _continues_address(end: str, word: str) -> bool:
    """Return whether a line continues the web address that the line above ends with.

    Addresses are broken anywhere, without a hyphen.
    """
    if "://" in word or end.endswith((",", ";", ")", ">")):
        return False
    if end[-1] in "/-_.=&?#%":
        return not word[0].isupper()
    return bool(_REST_OF_ADDRESS.match(word))


def is_wide(character: str) -> bool:
    """Return whether a character is as wide as high, as Chinese and Japanese ones are."""
    return bool(character) and unicodedata.east_asian_width(character) in "WF"
