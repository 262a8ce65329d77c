"""A document as the text that a model without structure reads."""

from collections.abc import Iterator

from foveate.documents import Document


def plain_text(document: Document) -> str:
    """Titles and paragraphs, one a line."""
    return located_text(document)[0]


def located_text(document: Document) -> tuple[str, list[tuple[int, int]]]:
    """Titles and paragraphs, one a line; and where in it each paragraph begins and ends."""
    lines: list[str] = []
    spans: list[tuple[int, int]] = []
    begin = 0
    for line, is_paragraph in _lines(document):
        if is_paragraph:
            spans.append((begin, begin + len(line)))
        if line:
            lines.append(line)
            begin += len(line) + 1
    return "\n".join(lines), spans


def _lines(document: Document) -> Iterator[tuple[str, bool]]:
    """Titles, which may be empty, and paragraphs, and whether it is a paragraph."""
    yield document.title, False
    for _, section in document.walk():
        yield section.title, False
        for paragraph in section.paragraphs:
            yield " ".join(sentence.text for sentence in paragraph.sentences), True
