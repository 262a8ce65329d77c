"""Sentences with the section they stand in."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from foveate.documents import Document, Section, Sentence


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sentence stands in a document.

    Attributes:
        path: titles from the outermost section to the sentence's own.
        section: index of its section in the order of `Document.walk`.
        index: index among its section's own sentences.
        speaker: who says it, where the document tells.
    """

    path: tuple[str, ...]
    section: int
    index: int
    speaker: str | None


def own_sentences(section: Section) -> Iterator[Sentence]:
    """Visit the sentences of a section that are not in a subsection."""
    for paragraph in section.paragraphs:
        yield from paragraph.sentences


def places(document: Document) -> list[Place]:
    """Place of each of `Document.sentences`, in their order."""
    return [
        Place(path, number, index, speaker)
        for number, (path, section) in enumerate(document.walk())
        for index, speaker in enumerate(_speakers(section))
    ]


def _speakers(section: Section) -> Iterator[str | None]:
    """Who says each of a section's own sentences."""
    for paragraph in section.paragraphs:
        yield from repeat(paragraph.speaker, len(paragraph.sentences))
