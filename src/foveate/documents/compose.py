"""The text and sections of a document, from parts that are already separate."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.documents.blocks import TextComposer, collapse
from foveate.documents.sentences import split_sentences
from foveate.documents.structure import DocumentError, Paragraph, Section, Sentence, check_depth

_SHAPE = (
    'give (heading, text or list of sentences[, subsections]) or a mapping with "title" or '
    '"heading", "text" or "sentences", and "sections"'
)


def compose(parts: Sequence[Any], language: str) -> tuple[str, tuple[Section, ...]]:
    """Join the parts into one text, and locate each sentence in it.

    Raises:
        DocumentError: A part has an invalid form. The message lacks a subject.
    """
    composer = _SectionComposer(language)
    sections = composer.sections(parts, depth=1)
    return composer.text, sections


class _SectionComposer(TextComposer):
    """Writes sections one after another."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language

    def sections(self, parts: Sequence[Any], depth: int) -> tuple[Section, ...]:
        sections = (self.section(part, depth) for part in parts)
        return tuple(section for section in sections if section.paragraphs or section.sections)

    def section(self, part: Any, depth: int) -> Section:
        title, content, subsections = split_section(part)
        check_depth(title, depth)
        if title:
            self.add(title)
        if isinstance(content, str):
            paragraphs = [self.split_paragraph(text) for text in content.split("\n\n")]
        else:
            paragraphs = [self.paragraph(content)]
        visible = tuple(paragraph for paragraph in paragraphs if paragraph.sentences)
        return Section(title, visible, self.sections(subsections, depth + 1))

    def split_paragraph(self, text: str) -> Paragraph:
        """Write a paragraph after splitting it into sentences."""
        text = collapse(text)
        return self.paragraph(
            [text[start:end] for start, end in split_sentences(text, self.language)]
        )

    def paragraph(self, sentences: Sequence[str]) -> Paragraph:
        """Write a paragraph of sentences."""
        texts = [text for text in map(collapse, sentences) if text]
        located = tuple(self.write(text, " ") for text in texts[:-1])
        return Paragraph(located + tuple(self.write(text, "\n\n") for text in texts[-1:]))

    def write(self, text: str, separator: str) -> Sentence:
        """Append a text and what separates it from the next one."""
        return Sentence(text, *self.add(text, separator).source_span(0, len(text)))


def split_section(part: Any) -> tuple[str, str | Sequence[str], Sequence[Any]]:
    """Return the heading, content and subsections of a part in either form.

    Raises:
        DocumentError: It has another form. The message lacks a subject.
    """
    if isinstance(part, Mapping):
        title = part.get("title") or part.get("heading") or ""
        subsections = part.get("sections") or ()
        content = part["text"] if "text" in part else part.get("sentences", ())
    elif isinstance(part, Sequence) and not isinstance(part, str) and len(part) in (2, 3):
        title, content = part[0] or "", part[1]
        subsections = part[2] if len(part) == 3 else ()
    else:
        raise DocumentError(f"has a section in an unknown form ({part!r:.60}): {_SHAPE}.")
    if not (isinstance(title, str) and _are_strings(content) and isinstance(subsections, Sequence)):
        raise DocumentError(
            f"has a section with parts of the wrong type ({title!r:.60}): {_SHAPE}."
        )
    return collapse(title), content, subsections


def _are_strings(content: Any) -> bool:
    return isinstance(content, str) or (
        isinstance(content, Sequence) and all(isinstance(item, str) for item in content)
    )
