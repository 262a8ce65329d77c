"""Sentences with the section they stand in."""

from collections.abc import Iterator
from dataclasses import dataclass

from foveate.documents import Document, Section, Sentence


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sentence stands in a document.

    Attributes:
        path: titles from the outermost section to the sentence's own.
        section: index of its section in the order of `Document.walk`.
        index: index among its section's own sentences.
    """

    path: tuple[str, ...]
    section: int
    index: int


def own_sentences(section: Section) -> Iterator[Sentence]:
    """Visit the sentences of a section that are not in a subsection."""
    for paragraph in section.paragraphs:
        yield from paragraph.sentences


def places(document: Document) -> list[Place]:
    """Place of each of `Document.sentences`, in their order."""
    return [
        Place(path, number, index)
        for number, (path, section) in enumerate(document.walk())
        for index, _ in enumerate(own_sentences(section))
    ]
