"""What a document is made of: sections, paragraphs, and sentences with their place in the text."""

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
