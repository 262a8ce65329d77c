"""Documents as plain dicts and lists, and back."""

import json
from collections.abc import Mapping
from typing import Any

from foveate.documents.structure import MAX_DEPTH, DocumentError, Paragraph, Section, Sentence


def pack(
    title: str, sections: tuple[Section, ...], text: str, source: str | None
) -> dict[str, Any]:
    """Return the parts of a document as values that JSON can hold."""
    return {
        "title": title,
        "source": source,
        "sections": [_pack_section(section) for section in sections],
        "text": text,
    }


def _pack_section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "paragraphs": [
            {
                "speaker": paragraph.speaker,
                "sentences": [
                    {"text": sentence.text, "start": sentence.start, "end": sentence.end}
                    for sentence in paragraph.sentences
                ],
            }
            for paragraph in section.paragraphs
        ],
        "sections": [_pack_section(subsection) for subsection in section.sections],
    }


def parse_packed(text: str) -> Mapping[str, Any] | None:
    """Parse a text as JSON, and return it if it is a packed document."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None  # the reader of meetings explains what is wrong
    return data if isinstance(data, dict) and {"title", "sections", "text"} <= set(data) else None


def unpack(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of a packed document.

    Raises:
        DocumentError: A part is missing, has the wrong type, or points outside the text.
    """
    try:
        text = _expect(str, data["text"])
        return {
            "title": _expect(str, data["title"]),
            "source": _expect(str | None, data.get("source")),
            "sections": _unpack_sections(data["sections"], len(text), depth=1),
            "text": text,
        }
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DocumentError(
            f"is not a packed document ({reason}): give the result of to_dict()."
        ) from error


def _unpack_sections(items: Any, length: int, depth: int) -> tuple[Section, ...]:
    if items and depth > MAX_DEPTH:
        raise DocumentError(f"nests sections more than {MAX_DEPTH} deep: flatten some.")
    return tuple(_unpack_section(item, length, depth) for item in items)


def _unpack_section(item: Any, length: int, depth: int) -> Section:
    section = Section(
        _expect(str, item["title"]),
        tuple(_unpack_paragraph(paragraph, length) for paragraph in item["paragraphs"]),
        _unpack_sections(item.get("sections", ()), length, depth + 1),
    )
    if not section.paragraphs and not section.sections:
        raise DocumentError(f"has an empty section ({section.title!r:.60}): leave it out.")
    return section


def _unpack_paragraph(item: Any, length: int) -> Paragraph:
    sentences = tuple(
        Sentence(
            _expect(str, sentence["text"]),
            _expect(int, sentence["start"]),
            _expect(int, sentence["end"]),
        )
        for sentence in item["sentences"]
    )
    if not sentences:
        raise DocumentError("has a paragraph without sentences: leave it out.")
    for sentence in sentences:
        if not sentence.text.strip():
            raise DocumentError(f"has an empty sentence at {sentence.start}: leave it out.")
        if not 0 <= sentence.start < sentence.end <= length:
            raise DocumentError(
                f"places a sentence at {sentence.start}-{sentence.end}, outside its text of "
                f"{length} characters: keep text and sections together."
            )
    return Paragraph(sentences, _expect(str | None, item.get("speaker")))


def _expect(kind: Any, value: Any) -> Any:
    """Return the value if it has the type."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} is not {getattr(kind, '__name__', kind)}")
    return value
