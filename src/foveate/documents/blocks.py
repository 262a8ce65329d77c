"""The blocks that every reader returns, and how they become sections.

A reader turns its format into a flat list of headings and paragraphs. The text of a paragraph knows
the source offset of each of its characters. Everything after that is the same for all formats.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Self

from foveate.documents.layout import Layout
from foveate.documents.sentences import MAX_LENGTH, shorten, split_sentences
from foveate.documents.structure import (
    MAX_DEPTH,
    DocumentError,
    Kind,
    Landmark,
    Paragraph,
    Section,
    Sentence,
)

PSEUDO_SECTION_LENGTH = 32  # sentences, as in the HDT paper
LONGEST_TERM = 100  # characters of the terms that begin the sentence of their definition
_SOFT_HYPHEN = re.compile("\xad(?:[ \t\r]*\n[ \t]*)?")  # and the line break that it allows
_BLANK_START = re.compile(r"(?:[ \t\r]*\n)*")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_MAX_UNCLOSED = 10_000  # characters of a paragraph of nothing but marks
_MARKER = re.compile(r"(?:[^\W\d]+\.?\s+)?\(?(?:\d{1,4}(?:\.\d+)*|[A-Za-z]|[ivxlcIVXLC]{1,6})[.)]")


class MappedText:
    """Text assembled from pieces of a source, with the source offset of each character."""

    def __init__(self) -> None:
        """Make an empty text."""
        self._pieces: list[str] = []
        self._length = 0
        self._offsets: list[int] = []  # of each piece in this text
        self._source_spans: list[tuple[int, int]] = []  # of each piece

    @classmethod
    def from_text(cls, text: str, start: int = 0, end: int | None = None) -> Self:
        """Make a text that is displayed for `source[start:end]`, or that is its own source."""
        mapped = cls()
        mapped.add(text, start, start + len(text) if end is None else end)
        return mapped

    def add(self, text: str, start: int, end: int) -> None:
        """Append the text displayed for `source[start:end]`.

        If the two have the same length, they correspond character by character. Otherwise (an
        entity, an escape) every character of the text stands for the whole piece of source.
        """
        if text:
            self._pieces.append(text)
            self._offsets.append(self._length)
            self._source_spans.append((start, end))
            self._length += len(text)

    def extend(self, other: "MappedText") -> None:
        """Append the pieces of another text."""
        for piece, (start, end) in zip(other._pieces, other._source_spans, strict=True):
            self.add(piece, start, end)

    def part(self, start: int, end: int) -> "MappedText":
        """Return the text from `start` to `end` with its source offsets."""
        part = MappedText()
        for piece in range(max(bisect_right(self._offsets, start) - 1, 0), len(self._pieces)):
            offset, shown = self._offsets[piece], self._pieces[piece]
            first, last = max(start - offset, 0), min(end - offset, len(shown))
            if last <= first:
                break
            source = self._source_spans[piece]
            if source[1] - source[0] == len(shown):
                source = (source[0] + first, source[0] + last)
            part.add(shown[first:last], *source)
        return part

    def stripped(self) -> "MappedText":
        """Return the text without the whitespace around it."""
        shown = str(self)
        return self.part(len(shown) - len(shown.lstrip()), len(shown.rstrip()))

    def strip_end(self) -> None:
        """Remove the whitespace at the end of the last piece."""
        if self._pieces:
            piece, (start, end) = self._pieces.pop(), self._source_spans.pop()
            self._length = self._offsets.pop()
            kept = piece.rstrip()
            is_mapped = end - start == len(piece)
            self.add(kept, start, start + len(kept) if is_mapped else end)

    def tail(self, length: int) -> str:
        """Return the last characters, `length` of them or a few more."""
        pieces: list[str] = []
        for piece in reversed(self._pieces):
            if length <= 0:
                break
            pieces.append(piece)
            length -= len(piece)
        return "".join(reversed(pieces))

    def __str__(self) -> str:
        """Return the text alone."""
        return "".join(self._pieces)

    def __bool__(self) -> bool:
        """Return whether any character is visible."""
        return not all(piece.isspace() for piece in self._pieces)

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end in the source of the text from `start` to `end`."""
        return self._source_of(start)[0], self._source_of(end - 1)[1]

    def _source_of(self, index: int) -> tuple[int, int]:
        piece = bisect_right(self._offsets, index) - 1
        start, end = self._source_spans[piece]
        if end - start != len(self._pieces[piece]):
            return start, end
        offset = start + index - self._offsets[piece]
        return offset, offset + 1


@dataclass(slots=True)
class Heading:
    """The start of a section, which contains the following headings of deeper levels."""

    level: int
    text: str


@dataclass(slots=True)
class Prose:
    """A paragraph.

    Attributes:
        text: Its text. That of a table's row, an entry of a bibliography or a listing is one
            sentence, and consecutive ones of the same kind form one paragraph. Consecutive lines of
            code from one place are one listing.
        speaker: Who says it; None if unknown.
        kind: What it is; see `foveate.documents.structure.Kind`.
        place: Where the source's readers find it, such as "paragraph 12" or "0:12:05"; None for
            formats that are found by line or page.
        starts: Where its sentences start, if the source says so.
    """

    text: MappedText
    speaker: str | None = None
    kind: Kind = "prose"
    place: str | None = None
    starts: tuple[int, ...] = ()


Block = Heading | Prose

UNSPLIT: tuple[Kind, ...] = ("table", "code", "formula", "reference")  # a block is one sentence


@dataclass(slots=True)
class ParsedText:
    """What a reader returns.

    Attributes:
        title: The title, if the source states one.
        blocks: Headings and paragraphs, in order.
        text: The text that the blocks point into; None if it is the text that was given to the
            reader. Readers of binary formats always compose one.
        layout: Where the words of `text` are on the pages, for formats with pages.
        landmarks: Places within paragraphs, such as the time of each subtitle, in place of those of
            the blocks.
        authors: The names of the authors, if the source states them.
        date: When it was published, in ISO 8601, if the source states it.
        language: ISO 639 code of its language, if the reader had to detect it.
        left_out: Lines that are no part of the text, such as running heads, as far as the reader
            notes them.
    """

    title: str | None
    blocks: list[Block]
    text: str | None = None
    layout: Layout | None = None
    landmarks: tuple[Landmark, ...] = ()
    authors: tuple[str, ...] = ()
    date: str | None = None
    language: str | None = None
    left_out: tuple[str, ...] = ()


class TextComposer:
    """Composes a text of paragraphs, for formats whose source is not text."""

    def __init__(self) -> None:
        """Begin with an empty text."""
        self._pieces: list[str] = []
        self._length = 0

    def add(self, paragraph: str, separator: str = "\n\n") -> MappedText:
        """Append a paragraph and what separates it from the next; return it with its offsets."""
        end = self._length + len(paragraph)
        mapped = MappedText()
        mapped.add(paragraph, self._length, end)
        self._pieces += paragraph, separator
        self._length = end + len(separator)
        return mapped

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces).rstrip()


def compose_text(title: str | None, blocks: Iterable[Block]) -> ParsedText:
    """Write blocks of other texts, such as the chapters of a book, into one clean text.

    Args:
        title: The title.
        blocks: Headings and paragraphs that point into any texts.

    Returns:
        The same blocks, which point into the text returned with them: headings and paragraphs
        without markup, separated by blank lines.
    """
    composer = TextComposer()
    composed: list[Block] = []
    for block in blocks:
        shown = collapse(block.text)
        if shown and isinstance(block, Prose) and block.kind == "code":
            shown = _BLANK_START.sub("", str(block.text), 1).rstrip()
        if isinstance(block, Heading):
            if shown:
                composer.add(shown)
            composed.append(block)
        elif shown:
            separator = "\n" if block.kind in UNSPLIT else "\n\n"
            composed.append(replace(block, text=composer.add(shown, separator)))
    return ParsedText(title, composed, composer.text)


def table_row(heads: Sequence[MappedText | str], cells: Sequence[MappedText]) -> MappedText:
    """Write a table row as a sentence: each cell with its column header.

    Args:
        heads: The column headers; empty if the table has none.
        cells: The cells of the row, in order. Empty cells are left out.

    Returns:
        The row, such as "Item: Support; Price: 450 euros" or, without headers, "Support; 450
        euros". Its source offsets are those of its cells; headers count as the beginning of their
        cell.
    """
    row = MappedText()
    for head, cell in zip_longest(heads, cells):
        if not cell:
            continue
        cell = cell.stripped()
        start, _ = cell.source_span(0, 1)
        label = collapse(head) if head else ""
        row.add("; " if row else "", start, start)
        row.add(f"{label.rstrip(':')}: " if label else "", start, start)
        row.extend(cell)
    return row


def definition_blocks(
    terms: Sequence[MappedText], definition: MappedText, kind: Kind
) -> list[Prose]:
    """Write a definition as a sentence that begins with its terms: "cod: a fish of cold seas".

    Terms that are too long to begin a sentence become paragraphs of their own.
    """
    if not 0 < sum(len(str(term)) for term in terms) <= LONGEST_TERM:
        return [Prose(text, kind=kind) for text in (*terms, definition)]
    joined = MappedText()
    for number, term in enumerate(terms, 1):
        term = term.stripped()
        shown = str(term)
        _, end = term.source_span(0, len(shown))
        is_open = shown.endswith((":", "?", "!"))
        joined.extend(term)
        joined.add(", " if number < len(terms) else " " if is_open else ": ", end, end)
    joined.extend(definition.stripped())
    return [Prose(joined, kind=kind)]


def check_closed(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> None:
    """Reject text with a paragraph in which much markup is opened, and not closed.

    Parsers search the rest of the paragraph for the end of each, in quadratic time.
    """
    for paragraph in _BLANK_LINE.split(text) if len(text) > _MAX_UNCLOSED else ():
        num_unclosed = len(opening.findall(paragraph)) - len(closing.findall(paragraph))
        if num_unclosed * len(paragraph) > _MAX_UNCLOSED**2:
            raise DocumentError(
                f"has a paragraph with {num_unclosed:,} marks of markup that are not closed: "
                "correct it, or read it as plain text."
            )


def collapse(text: object) -> str:
    """Replace each run of whitespace with a single space; leave out soft hyphens."""
    return " ".join(_SOFT_HYPHEN.sub("", str(text)).split())


def lift_title(blocks: list[Block]) -> ParsedText:
    """Take the first block as the title if it is a heading that contains all the others."""
    levels = [block.level for block in blocks if isinstance(block, Heading)]
    first = blocks[0] if blocks else None
    if isinstance(first, Heading) and min(levels[1:], default=first.level + 1) > first.level:
        return ParsedText(collapse(first.text), blocks[1:])
    return ParsedText(None, blocks)


@dataclass(slots=True)
class _OpenSection:
    """A section under construction."""

    level: int
    title: str = ""
    paragraphs: list[Paragraph] = field(default_factory=list)
    children: list["_OpenSection"] = field(default_factory=list)
    sections: tuple[Section, ...] = ()

    def finish(self) -> None:
        """Turn the finished children into sections, without those that hold no sentence."""
        self.sections = tuple(
            Section(child.title, tuple(child.paragraphs), child.sections)
            for child in self.children
            if child.paragraphs or child.sections
        )


def build_sections(blocks: Iterable[Block], language: str) -> tuple[Section, ...]:
    """Nest blocks into sections.

    The text before the first heading becomes an untitled section. Headings without text are left
    out. If there are no headings at all, every 32 sentences become a section.

    Args:
        blocks: Headings and paragraphs, in order.
        language: ISO 639 code of the language by whose rules sentences are split.
    """
    root = _OpenSection(level=0)
    opened = [root]
    enclosing = [root]
    for _, group in groupby(enumerate(blocks), _joint):
        block, *rest = (block for _, block in group)
        if isinstance(block, Heading):
            while len(enclosing) > 1 and enclosing[-1].level >= block.level:
                enclosing.pop()
            del enclosing[MAX_DEPTH:]
            section = _OpenSection(block.level, collapse(block.text))
            enclosing[-1].children.append(section)
            enclosing.append(section)
            opened.append(section)
        elif sentences := tuple(
            sentence
            for part in _units([one for one in (block, *rest) if isinstance(one, Prose)])
            for sentence in _sentences(part, language)
        ):
            enclosing[-1].paragraphs.append(Paragraph(sentences, block.speaker, block.kind))
    for section in reversed(opened):
        section.finish()
    if not root.sections:
        return pseudo_sections(root.paragraphs)
    leading = (Section("", tuple(root.paragraphs)),) if root.paragraphs else ()
    return leading + root.sections


def _joint(numbered: tuple[int, Block]) -> int | str:
    """Return what consecutive blocks of one paragraph share: their kind if they are not split."""
    number, block = numbered
    return block.kind if isinstance(block, Prose) and block.kind in UNSPLIT else number


def _units(blocks: list[Prose]) -> Iterator[Prose]:
    """Yield the blocks of a paragraph, the lines of a listing as one."""
    for (kind, _), lines in groupby(
        filter(attrgetter("text"), blocks), attrgetter("kind", "place")
    ):
        first, *rest = lines
        if kind == "code" and rest:
            listing = MappedText()
            end = 0
            for text in (line.text for line in (first, *rest)):
                start, stop = text.source_span(0, len(str(text)))
                listing.add("\n" if end else "", end, start)
                listing.extend(text)
                end = stop
            rest = []
            first = replace(first, text=listing)
        yield from (first, *rest)


def _listing(code: str) -> Iterator[tuple[int, int]]:
    """Yield the part of a listing between its blank edges; a long one is cut at ends of lines."""
    start = end = 0
    for line in (*code.splitlines(keepends=True), ""):
        if code[start:end].strip() and (not line or end + len(line) - start > MAX_LENGTH):
            blank = _BLANK_START.match(code, start)
            first = blank.end() if blank else start
            yield from shorten(code, first, first + len(code[first:end].rstrip()))
            start = end
        end += len(line)


def landmarks(parsed: ParsedText, place: str | None = None) -> tuple[Landmark, ...]:
    """Collect the places that a text names, by the offsets where they begin.

    Args:
        parsed: The text.
        place: Where the whole text is found, if it names no places.
    """
    named = parsed.landmarks or tuple(
        Landmark(block.text.source_span(0, 1)[0], block.place)
        for block in parsed.blocks
        if isinstance(block, Prose) and block.place and block.text
    )
    return named or ((Landmark(0, place),) if place else ())


def _sentences(block: Prose, language: str) -> tuple[Sentence, ...]:
    text = block.text
    shown = str(text)
    if not text:
        return ()
    pieces: Iterable[tuple[int, int]]
    if block.starts:
        ends = (start - 1 for start in (*block.starts[1:], len(shown) + 1))  # without the space
        pieces = zip(block.starts, ends, strict=True)
    elif block.kind == "code":
        pieces = _listing(shown)
    elif block.kind in UNSPLIT:
        first_visible = len(shown) - len(shown.lstrip())
        pieces = shorten(shown, first_visible, len(shown.rstrip()))
    else:
        pieces = split_sentences(shown, language)
    spans: list[tuple[int, int]] = []
    previous_start, previous_end = 0, -1  # in the source
    for start, end in pieces:
        first, last = text.source_span(start, end)
        is_marker = len(spans) == 1 and _MARKER.fullmatch(shown[slice(*spans[0])])
        # One piece of source shows parts of both sentences, nothing in the source shows one of
        # them, or a number begins an item.
        if spans and (
            first < previous_end
            or last == first
            or previous_end == previous_start
            or (is_marker and block.kind != "prose")
        ):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        previous_start, previous_end = text.source_span(*spans[-1])
    return tuple(
        Sentence(visible, *text.source_span(start, end))
        for start, end in spans
        if previous_end > previous_start
        and (visible := shown[start:end] if block.kind == "code" else collapse(shown[start:end]))
    )


def pseudo_sections(paragraphs: Iterable[Paragraph]) -> tuple[Section, ...]:
    """Group the paragraphs of a text without headings into untitled sections of 32 sentences."""
    sections: list[Section] = []
    current: list[Paragraph] = []
    room = PSEUDO_SECTION_LENGTH
    for paragraph in paragraphs:
        start = 0
        while start < len(paragraph.sentences):
            sentences = paragraph.sentences[start : start + room]
            current.append(replace(paragraph, sentences=sentences))
            start += len(sentences)
            room -= len(sentences)
            if not room:
                sections.append(Section("", tuple(current)))
                current, room = [], PSEUDO_SECTION_LENGTH
    if current:
        sections.append(Section("", tuple(current)))
    return tuple(sections)
