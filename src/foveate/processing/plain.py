"""A document as the text that a model without structure reads."""

from collections.abc import Iterator

from foveate.documents import Document


def plain_text(document: Document) -> str:
    """Titles and paragraphs, one a line."""
    return "\n".join(line for line in (document.title, *_lines(document)) if line)


def _lines(document: Document) -> Iterator[str]:
    for _, section in document.walk():
        yield section.title
        for paragraph in section.paragraphs:
            yield " ".join(sentence.text for sentence in paragraph.sentences)
