"""What a document is made of: sections, paragraphs, and sentences with their place in the text."""

from collections.abc import Iterable
from dataclasses import dataclass

DEEPEST = 64  # sections nest no deeper, so that walking a document by recursion is safe


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and where it stands.

    Attributes:
        text: The sentence as displayed: without markup, every run of whitespace one space.
        start: Offset in ``Document.text`` of the sentence's first character.
        end: Offset just behind its last character.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences that belong together.

    Attributes:
        sentences: At least one.
        speaker: Who says them, in a transcript.
    """

    sentences: tuple[Sentence, ...]
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it: its own paragraphs, then its subsections.

    Attributes:
        title: The heading; empty where there is none.
        paragraphs: What precedes the first subsection.
        sections: The subsections.
    """

    title: str
    paragraphs: tuple[Paragraph, ...]
    sections: tuple["Section", ...] = ()


def move_sections(sections: Iterable[Section], offset: int, levels: int) -> tuple[Section, ...]:
    """Add `offset` to the place of every sentence in the sections.

    Args:
        sections: Sections, in order.
        offset: Number of characters now in front of the text that the sentences point into.
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
