"""A place in a document, in the form that every result uses."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a document.

    Attributes:
        document: The document's name: its source or, if it has none, its title.
        path: Titles from the outermost section to the innermost one that holds the span; empty for
            a whole document.
        page: Page of the span's first character, from 1; None for formats without pages.
        start: Offset of the first character in `Document.text`.
        end: Offset just behind the last character.
        text: The words of the span, without markup.
        speaker: Who says them; None if the document does not say.
    """

    document: str
    path: tuple[str, ...]
    page: int | None
    start: int
    end: int
    text: str
    speaker: str | None = None
