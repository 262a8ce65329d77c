"""A document's text and sections from parts that are already separate."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.documents.blocks import collapse
from foveate.documents.errors import DocumentError
from foveate.documents.sentences import split
from foveate.documents.structure import DEEPEST, Paragraph, Section, Sentence

_SHAPE = (
    'give (heading, text or list of sentences[, subsections]) or a mapping with "title" or '
    '"heading", "text" or "sentences", and "sections"'
)


def compose(parts: Sequence[Any], language: str) -> tuple[str, tuple[Section, ...]]:
    """Write the parts one below the other, and note where each sentence comes to stand."""
    composer = _Composer(language)
    sections = composer.sections(parts, depth=1)
    return "".join(composer.text).rstrip(), sections


class _Composer:
    def __init__(self, language: str) -> None:
        self.language = language
        self.text: list[str] = []
        self.length = 0

    def sections(self, parts: Sequence[Any], depth: int) -> tuple[Section, ...]:
        if parts and depth > DEEPEST:
            raise DocumentError(f"Sections are nested more than {DEEPEST} deep: flatten some.")
        sections = (self.section(part, depth) for part in parts)
        return tuple(section for section in sections if section.paragraphs or section.sections)

    def section(self, part: Any, depth: int) -> Section:
        title, content, below = _parts(part)
        if title:
            self.write(title, "\n\n")
        if isinstance(content, str):
            paragraphs = [self.prose(text) for text in content.split("\n\n")]
        else:
            paragraphs = [self.given(content)]
        kept = tuple(paragraph for paragraph in paragraphs if paragraph.sentences)
        return Section(title, kept, self.sections(below, depth + 1))

    def prose(self, text: str) -> Paragraph:
        """A paragraph whose sentences are still to be found."""
        text = collapse(text)
        return self.given([text[start:end] for start, end in split(text, self.language)])

    def given(self, sentences: Sequence[str]) -> Paragraph:
        """A paragraph whose sentences are known."""
        shown = [text for text in map(collapse, sentences) if text]
        placed = tuple(self.write(text, " ") for text in shown[:-1])
        return Paragraph(placed + tuple(self.write(text, "\n\n") for text in shown[-1:]))

    def write(self, text: str, then: str) -> Sentence:
        sentence = Sentence(text, self.length, self.length + len(text))
        self.text += text, then
        self.length = sentence.end + len(then)
        return sentence


def _parts(part: Any) -> tuple[str, str | Sequence[str], Sequence[Any]]:
    """Heading, content and subsections of either form."""
    if isinstance(part, Mapping):
        title = part.get("title") or part.get("heading") or ""
        below = part.get("sections") or ()
        content = part["text"] if "text" in part else part.get("sentences", ())
    elif isinstance(part, Sequence) and not isinstance(part, str) and len(part) in (2, 3):
        title, content, below = part[0] or "", part[1], part[2] if len(part) == 3 else ()
    else:
        raise DocumentError(f"A section is {part!r:.60}: {_SHAPE}.")
    if not (isinstance(title, str) and _are_strings(content) and isinstance(below, Sequence)):
        raise DocumentError(f"The section {title!r:.60} has parts of the wrong type: {_SHAPE}.")
    return collapse(title), content, below


def _are_strings(content: Any) -> bool:
    return isinstance(content, str) or (
        isinstance(content, Sequence) and all(isinstance(item, str) for item in content)
    )
