"""The parts of a document: sections, paragraphs and sentences; and spans, which locate them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

MAX_DEPTH = 64  # of nested sections; walking them by recursion is safe


Kind = Literal["prose", "item", "table", "code", "formula", "caption", "footnote", "reference"]
"""What a paragraph is: running text; an item of a list; rows of a table, one a sentence; code; a
formula set apart; the caption of a figure or table; a footnote; entries of a bibliography.
"""
KINDS: tuple[Kind, ...] = get_args(Kind)


class DocumentError(ValueError):
    """A file or text cannot become a document; the message says what is wrong and what to do."""


class NotADocumentError(DocumentError):
    """A file is well-formed, but holds no text, such as the settings of a program."""


class Box(NamedTuple):
    """A rectangle on a page, in points (1/72 inch) from the page's upper left corner.

    Attributes:
        page: Number of the page, from 1.
        left: Distance of the left edge from the page's left edge.
        top: Distance of the upper edge from the page's upper edge.
        right: Distance of the right edge from the page's left edge.
        bottom: Distance of the lower edge from the page's upper edge.
    """

    page: int
    left: float
    top: float
    right: float
    bottom: float


class Landmark(NamedTuple):
    """Where a part of the source that its readers can find begins.

    Attributes:
        start: Offset in `Document.text` of its first character.
        name: How the reader finds it, such as "paragraph 12", "cell 3" or "0:12:05".
    """

    start: int
    name: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its place in the text.

    Attributes:
        text: The sentence as displayed: without markup, with single spaces. A listing is one
            sentence, with its lines and its indentation.
        start: Offset in `Document.text` of the sentence's first character.
        end: Offset just past its last character.
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
        kind: What the paragraph is; see `Kind`.
    """

    sentences: tuple[Sentence, ...]
    speaker: str | None = None
    kind: Kind = "prose"


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

    @property
    def num_own_sentences(self) -> int:
        """Number of sentences that are not in a subsection."""
        return sum(len(paragraph.sentences) for paragraph in self.paragraphs)

    @property
    def num_sentences(self) -> int:
        """Number of sentences, those of subsections included."""
        return self.num_own_sentences + sum(section.num_sentences for section in self.sections)


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a document, in the form that every result uses.

    Attributes:
        document: The document's name: its source or, if it has none, its title.
        path: Titles from the outermost section to the innermost one that holds the span; empty for
            a whole document.
        page: Page of the span's first character, from 1; None for formats without pages.
        start: Offset of the first character in `Document.text`.
        end: Offset just past the last character.
        text: The words of the span, without markup.
        speaker: Who says them; None if the document does not say.
        place: Where a reader of the source finds the span's first character, in the terms of its
            format: "page 3", "page xii", "line 120", "paragraph 12", "0:12:05".
        boxes: The rectangles of the span, one for each line, for formats with pages.
    """

    document: str
    path: tuple[str, ...]
    page: int | None
    start: int
    end: int
    text: str
    speaker: str | None = None
    place: str = ""
    boxes: tuple[Box, ...] = ()


def format_path(path: Iterable[str]) -> str:
    """Write the titles of the sections around something on one line.

    Example:
        >>> format_path(("Methods", "", "Counting"))
        'Methods › Counting'
    """
    return " › ".join(filter(None, path))


def check_depth(title: str, depth: int) -> None:
    """Reject a section that is nested too deep to be walked by recursion.

    Args:
        title: Its heading.
        depth: Its depth, from 1.

    Raises:
        DocumentError: Its depth is more than 64. The message lacks a subject.
    """
    if depth > MAX_DEPTH:
        raise DocumentError(
            f"nests sections more than {MAX_DEPTH} deep ({title!r:.60}): flatten some."
        )


def check_paragraphs(paragraphs: Iterable[Paragraph]) -> None:
    """Reject paragraphs of a kind that does not exist, or whose speaker is not a name.

    Args:
        paragraphs: Paragraphs that hold sentences.

    Raises:
        DocumentError: The first of them. The message lacks a subject.
    """
    for paragraph in paragraphs:
        first = paragraph.sentences[0].text
        if paragraph.kind not in KINDS:
            raise DocumentError(
                f"has a paragraph of kind {paragraph.kind!r:.40} ({first!r:.40}): "
                f"use one of {', '.join(KINDS)}."
            )
        if not isinstance(paragraph.speaker, str | None):
            raise DocumentError(
                f"has a paragraph with the speaker {paragraph.speaker!r:.40} ({first!r:.40}): "
                "give a string or None."
            )


def check_sentences(sentences: Iterable[Sentence], length: int) -> None:
    """Reject sentences that are empty, overlap, are out of order or lie outside their text.

    Args:
        sentences: All sentences of a document, in order.
        length: Number of characters of its text.

    Raises:
        DocumentError: The first such sentence, and why. The message lacks a subject.
    """
    before = 0  # end of the sentence before
    for number, sentence in enumerate(sentences, 1):
        start, end = sentence.start, sentence.end
        if not sentence.text.strip():
            raise DocumentError(f"has an empty sentence ({number}): leave it out.")
        if not (isinstance(start, int) and isinstance(end, int)):
            fault = "where offsets have to be integers"
        elif not start < end:
            fault = "but has to end after it starts"
        elif start < 0 or end > length:
            fault = f"outside its text of {length} characters: keep text and sections together"
        elif start < before:
            fault = f"but the one before ends at {before}: put them in order, without overlap"
        else:
            before = end
            continue
        place = f"{number} ({sentence.text!r:.40}) from {start!r} to {end!r}"
        raise DocumentError(f"has sentence {place}, {fault}.")


def drop_empty(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Leave out paragraphs and sections without a sentence.

    Example:
        >>> cod = Section("Cod", (Paragraph((Sentence("Cod swim.", 0, 9),)), Paragraph(())))
        >>> [kept] = drop_empty((Section("Eel", ()), cod))
        >>> kept.title, len(kept.paragraphs)
        ('Cod', 1)
    """
    return tuple(
        Section(
            section.title,
            tuple(paragraph for paragraph in section.paragraphs if paragraph.sentences),
            drop_empty(section.sections),
        )
        for section in sections
        if section.num_sentences
    )


def shift_sections(sections: Iterable[Section], offset: int) -> tuple[Section, ...]:
    """Add a number of characters to the offsets of all sentences in the sections."""
    return tuple(
        Section(
            section.title,
            tuple(
                replace(
                    paragraph,
                    sentences=tuple(
                        Sentence(sentence.text, sentence.start + offset, sentence.end + offset)
                        for sentence in paragraph.sentences
                    ),
                )
                for paragraph in section.paragraphs
            ),
            shift_sections(section.sections, offset),
        )
        for section in sections
    )
