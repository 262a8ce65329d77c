"""What a document consists of: sections, paragraphs, and sentences with their offsets."""

from collections.abc import Iterable
from dataclasses import dataclass

MAX_DEPTH = 64  # of nested sections; walking them by recursion is safe


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its place in the text.

    Attributes:
        text: The sentence as displayed: without markup, with single spaces.
        start: Offset in `Document.text` of the sentence's first character.
        end: Offset just behind its last character.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences that belong together.

    Attributes:
        sentences: At least one sentence.
        speaker: Who says them; None if the document does not say.
    """

    sentences: tuple[Sentence, ...]
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A section: a heading, its own paragraphs, then its subsections.

    Attributes:
        title: The heading; empty if there is none.
        paragraphs: The paragraphs before the first subsection.
        sections: The subsections.
    """

    title: str
    paragraphs: tuple[Paragraph, ...]
    sections: tuple["Section", ...] = ()


def move_sections(sections: Iterable[Section], offset: int, levels: int) -> tuple[Section, ...]:
    """Add `offset` to the place of every sentence in the sections.

    Args:
        sections: Sections, in order.
        offset: Number of characters in front of the text that the sentences point into.
        levels: Greatest depth to keep, at least 1: deeper sections become siblings of the one
            that holds them.
    """
    moved: list[Section] = []
    for section in sections:
        paragraphs = tuple(
            Paragraph(
                tuple(
                    Sentence(sentence.text, sentence.start + offset, sentence.end + offset)
                    for sentence in paragraph.sentences
                ),
                paragraph.speaker,
            )
            for paragraph in section.paragraphs
        )
        below = move_sections(section.sections, offset, max(levels - 1, 1))
        if levels > 1:
            moved.append(Section(section.title, paragraphs, below))
        else:
            moved += [Section(section.title, paragraphs)] if paragraphs else []
            moved += below
    return tuple(moved)
