"""What every reader yields, and how it becomes sections.

A reader turns its format into a flat run of headings and paragraphs whose text knows, character by
character, where in the source it stands; everything after that is the same for all formats.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from foveate.documents.sentences import split
from foveate.documents.structure import DEEPEST, Paragraph, Section, Sentence

PSEUDO_SECTION = 32  # sentences, as in the tree attention paper


class MappedText:
    """Text put together from pieces of a source, that knows where each character came from."""

    def __init__(self) -> None:
        """Start empty."""
        self._pieces: list[str] = []
        self._length = 0
        self._offsets: list[int] = []  # where each piece starts here
        self._spans: list[tuple[int, int]] = []  # and where it stands in the source

    @classmethod
    def copy(cls, source: str, start: int, end: int) -> Self:
        """A stretch of the source as it stands."""
        mapped = cls()
        mapped.add(source[start:end], start, end)
        return mapped

    def add(self, text: str, start: int, end: int) -> None:
        """Append what ``source[start:end]`` displays.

        Where the two differ in length (an entity, an escape) all of the text stands for all of the
        span; otherwise they correspond character by character.
        """
        if text:
            self._pieces.append(text)
            self._offsets.append(self._length)
            self._spans.append((start, end))
            self._length += len(text)

    def __str__(self) -> str:
        """The text alone."""
        return "".join(self._pieces)

    def __bool__(self) -> bool:
        """Whether there is anything to see."""
        return not all(piece.isspace() for piece in self._pieces)

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """The source from the character at ``start`` to the one before ``end``."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, index: int) -> tuple[int, int]:
        piece = bisect_right(self._offsets, index) - 1
        start, end = self._spans[piece]
        if end - start != len(self._pieces[piece]):
            return start, end
        place = start + index - self._offsets[piece]
        return place, place + 1


@dataclass(slots=True)
class Heading:
    """The start of a section; a lower level encloses the higher ones that follow."""

    level: int
    text: str


@dataclass(slots=True)
class Prose:
    """A paragraph."""

    text: MappedText
    speaker: str | None = None


Block = Heading | Prose


@dataclass(slots=True)
class Reading:
    """What a reader makes of a source."""

    title: str | None
    blocks: list[Block]


def names(listed: str) -> frozenset[str]:
    """Names written one behind the other, as a set."""
    return frozenset(listed.split())


def collapse(text: object) -> str:
    """The text with every run of white space as one space."""
    return " ".join(str(text).split())


def lift_title(blocks: list[Block]) -> Reading:
    """Take the first heading as the title where it stands first and encloses all the others."""
    levels = [block.level for block in blocks if isinstance(block, Heading)]
    first = blocks[0] if blocks else None
    if isinstance(first, Heading) and min(levels[1:], default=first.level + 1) > first.level:
        return Reading(collapse(first.text), blocks[1:])
    return Reading(None, blocks)


@dataclass(slots=True)
class _Node:
    """A section under construction."""

    level: int
    title: str = ""
    paragraphs: list[Paragraph] = field(default_factory=list)
    children: list["_Node"] = field(default_factory=list)
    sections: tuple[Section, ...] = ()  # what became of the children

    def finish(self) -> None:
        """Turn the children, which are finished, into sections; drop those without a sentence."""
        self.sections = tuple(
            Section(child.title, tuple(child.paragraphs), child.sections)
            for child in self.children
            if child.paragraphs or child.sections
        )


def build(blocks: Iterable[Block], language: str) -> tuple[Section, ...]:
    """Nest a run of blocks into sections.

    What precedes the first heading is an untitled section. Headings without any text under them
    are left out. Where there is no heading at all, every 32 sentences are a section.
    """
    root = _Node(level=0)
    nodes = [root]
    enclosing = [root]
    for block in blocks:
        if isinstance(block, Heading):
            while len(enclosing) > 1 and enclosing[-1].level >= block.level:
                enclosing.pop()
            del enclosing[DEEPEST:]
            node = _Node(block.level, collapse(block.text))
            enclosing[-1].children.append(node)
            enclosing.append(node)
            nodes.append(node)
        elif sentences := _sentences(block.text, language):
            enclosing[-1].paragraphs.append(Paragraph(sentences, block.speaker))
    for node in reversed(nodes):
        node.finish()
    if not root.sections:
        return pseudo_sections(root.paragraphs)
    leading = (Section("", tuple(root.paragraphs)),) if root.paragraphs else ()
    return leading + root.sections


def _sentences(text: MappedText, language: str) -> tuple[Sentence, ...]:
    shown = str(text)
    spans: list[tuple[int, int]] = []
    behind = -1  # the end of the sentence before, in the source
    for start, end in split(shown, language):
        first, last = text.source_span(start, end)
        if first < behind:  # one piece of source displays the end of one and the start of this
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        behind = last
    return tuple(
        Sentence(collapse(shown[start:end]), *text.source_span(start, end)) for start, end in spans
    )


def pseudo_sections(paragraphs: Iterable[Paragraph]) -> tuple[Section, ...]:
    """Cut a text without headings into untitled sections of 32 sentences."""
    sections: list[Section] = []
    current: list[Paragraph] = []
    room = PSEUDO_SECTION
    for paragraph in paragraphs:
        rest = paragraph.sentences
        while rest:
            taken, rest = rest[:room], rest[room:]
            current.append(Paragraph(taken, paragraph.speaker))
            room -= len(taken)
            if not room:
                sections.append(Section("", tuple(current)))
                current, room = [], PSEUDO_SECTION
    if current:
        sections.append(Section("", tuple(current)))
    return tuple(sections)
