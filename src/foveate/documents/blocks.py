"""What every reader returns, and how it becomes sections.

A reader turns its format into a flat list of headings and paragraphs. The text of a paragraph knows
the source offset of each of its characters. Everything after that is the same for all formats.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from foveate.documents.sentences import split_sentences
from foveate.documents.structure import MAX_DEPTH, Paragraph, Section, Sentence

PSEUDO_SECTION_LENGTH = 32  # sentences, as in the HDT paper


class MappedText:
    """Text assembled from pieces of a source, with the source offset of each character."""

    def __init__(self) -> None:
        """Make an empty text."""
        self._pieces: list[str] = []
        self._length = 0
        self._offsets: list[int] = []  # of each piece in this text
        self._source_spans: list[tuple[int, int]] = []  # of each piece

    @classmethod
    def from_source(cls, source: str, start: int, end: int) -> Self:
        """Make the text that is written at `source[start:end]`."""
        mapped = cls()
        mapped.add(source[start:end], start, end)
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
    """The start of a section, which encloses the following headings of higher levels."""

    level: int
    text: str


@dataclass(slots=True)
class Prose:
    """A paragraph."""

    text: MappedText
    speaker: str | None = None


Block = Heading | Prose


@dataclass(slots=True)
class ParsedText:
    """What a reader returns: the title, if the source states one, and the blocks."""

    title: str | None
    blocks: list[Block]


def name_set(names: str) -> frozenset[str]:
    """Split names separated by spaces."""
    return frozenset(names.split())


def collapse(text: object) -> str:
    """Replace each run of whitespace with a single space."""
    return " ".join(str(text).split())


def lift_title(blocks: list[Block]) -> ParsedText:
    """Take the first block as the title if it is a heading that encloses all the others."""
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
    for block in blocks:
        if isinstance(block, Heading):
            while len(enclosing) > 1 and enclosing[-1].level >= block.level:
                enclosing.pop()
            del enclosing[MAX_DEPTH:]
            section = _OpenSection(block.level, collapse(block.text))
            enclosing[-1].children.append(section)
            enclosing.append(section)
            opened.append(section)
        elif sentences := _sentences(block.text, language):
            enclosing[-1].paragraphs.append(Paragraph(sentences, block.speaker))
    for section in reversed(opened):
        section.finish()
    if not root.sections:
        return pseudo_sections(root.paragraphs)
    leading = (Section("", tuple(root.paragraphs)),) if root.paragraphs else ()
    return leading + root.sections


def _sentences(text: MappedText, language: str) -> tuple[Sentence, ...]:
    shown = str(text)
    spans: list[tuple[int, int]] = []
    previous_end = -1  # in the source
    for start, end in split_sentences(shown, language):
        first, last = text.source_span(start, end)
        if first < previous_end:  # one piece of source displays parts of both sentences
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        previous_end = last
    return tuple(
        Sentence(collapse(shown[start:end]), *text.source_span(start, end)) for start, end in spans
    )


def pseudo_sections(paragraphs: Iterable[Paragraph]) -> tuple[Section, ...]:
    """Group the paragraphs of a text without headings into untitled sections of 32 sentences."""
    sections: list[Section] = []
    current: list[Paragraph] = []
    room = PSEUDO_SECTION_LENGTH
    for paragraph in paragraphs:
        remaining = paragraph.sentences
        while remaining:
            sentences, remaining = remaining[:room], remaining[room:]
            current.append(Paragraph(sentences, paragraph.speaker))
            room -= len(sentences)
            if not room:
                sections.append(Section("", tuple(current)))
                current, room = [], PSEUDO_SECTION_LENGTH
    if current:
        sections.append(Section("", tuple(current)))
    return tuple(sections)
