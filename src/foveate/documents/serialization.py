"""A document as plain dicts and lists, and back."""

import json
from collections.abc import Mapping
from typing import Any

from foveate.documents.errors import DocumentError
from foveate.documents.structure import DEEPEST, Paragraph, Section, Sentence


def pack(
    title: str, sections: tuple[Section, ...], text: str, source: str | None
) -> dict[str, Any]:
    """The parts of a document, fit for JSON."""
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
        "sections": [_pack_section(sub) for sub in section.sections],
    }


def find(text: str) -> Mapping[str, Any] | None:
    """The JSON in the text, if it is a packed document."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None  # the reader of other JSON explains
    return data if isinstance(data, dict) and {"title", "sections", "text"} <= set(data) else None


def unpack(data: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the document that was packed.

    Raises:
        DocumentError: Something is missing, of the wrong type, or points outside the text.
    """
    try:
        text = _of(str, data["text"])
        return {
            "title": _of(str, data["title"]),
            "source": _of(str | None, data.get("source")),
            "sections": _unpack_sections(data["sections"], len(text), depth=1),
            "text": text,
        }
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DocumentError(
            f"is not a packed document ({reason}): give what to_dict() returned."
        ) from error


def _unpack_sections(items: Any, length: int, depth: int) -> tuple[Section, ...]:
    if items and depth > DEEPEST:
        raise DocumentError(f"nests sections more than {DEEPEST} deep: flatten some.")
    return tuple(_unpack_section(item, length, depth) for item in items)


def _unpack_section(item: Any, length: int, depth: int) -> Section:
    section = Section(
        _of(str, item["title"]),
        tuple(_unpack_paragraph(paragraph, length) for paragraph in item["paragraphs"]),
        _unpack_sections(item.get("sections", ()), length, depth + 1),
    )
    if not section.paragraphs and not section.sections:
        raise DocumentError(f"has an empty section ({section.title!r:.60}): leave it out.")
    return section


def _unpack_paragraph(item: Any, length: int) -> Paragraph:
    sentences = tuple(
        Sentence(_of(str, one["text"]), _of(int, one["start"]), _of(int, one["end"]))
        for one in item["sentences"]
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
    return Paragraph(sentences, _of(str | None, item.get("speaker")))


def _of(kind: Any, value: Any) -> Any:
    """The value, if it is of that kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} is not {getattr(kind, '__name__', kind)}")
    return value
