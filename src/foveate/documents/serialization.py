"""Documents as plain dicts and lists, and back."""

import json
from collections.abc import Mapping
from typing import Any

from foveate.documents.blocks import collapse
from foveate.documents.layout import Layout, pack_layout, unpack_layout
from foveate.documents.structure import (
    KINDS,
    MAX_DEPTH,
    DocumentError,
    Landmark,
    Paragraph,
    Section,
    Sentence,
    check_sentences,
    sentences_in,
)


def pack(
    *,
    title: str,
    sections: tuple[Section, ...],
    text: str,
    source: str | None,
    language: str | None,
    layout: Layout | None,
    landmarks: tuple[Landmark, ...],
    authors: tuple[str, ...],
    date: str | None,
) -> dict[str, Any]:
    """Return the constructor arguments of a document as values that JSON can hold."""
    return {
        "title": title,
        "authors": list(authors),
        "date": date,
        "source": source,
        "language": language,
        "sections": [_pack_section(section) for section in sections],
        "text": text,
        "layout": None if layout is None else pack_layout(layout),
        "landmarks": [list(landmark) for landmark in landmarks],
    }


def _pack_section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "paragraphs": [
            {
                "speaker": paragraph.speaker,
                "kind": paragraph.kind,
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
        layout = data.get("layout")
        sections = _unpack_sections(data["sections"], depth=1)
        check_sentences(sentences_in(sections), len(text))
        return {
            "title": _expect(str, data["title"]),
            "source": _expect(str | None, data.get("source")),
            "language": _expect(str | None, data.get("language")),
            "sections": sections,
            "text": text,
            "layout": None if layout is None else unpack_layout(layout, len(text)),
            "landmarks": tuple(
                Landmark(_expect(int, start), _expect(str, name))
                for start, name in data.get("landmarks", ())
            ),
            "authors": tuple(
                _expect(str, name) for name in _expect(list | tuple, data.get("authors", ()))
            ),
            "date": _expect(str | None, data.get("date")),
        }
    except DocumentError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DocumentError(
            f"is not a packed document ({reason}): give the result of to_dict()."
        ) from error


def _unpack_sections(items: Any, depth: int) -> tuple[Section, ...]:
    if items and depth > MAX_DEPTH:
        raise DocumentError(f"nests sections more than {MAX_DEPTH} deep: flatten some.")
    return tuple(_unpack_section(item, depth) for item in items)


def _unpack_section(item: Any, depth: int) -> Section:
    section = Section(
        _expect(str, item["title"]),
        tuple(_unpack_paragraph(paragraph) for paragraph in item["paragraphs"]),
        _unpack_sections(item.get("sections", ()), depth + 1),
    )
    if not section.paragraphs and not section.sections:
        raise DocumentError(f"has an empty section ({section.title!r:.60}): leave it out.")
    return section


def _unpack_paragraph(item: Any) -> Paragraph:
    sentences = tuple(
        Sentence(
            collapse(_expect(str, sentence["text"])),
            _expect(int, sentence["start"]),
            _expect(int, sentence["end"]),
        )
        for sentence in item["sentences"]
    )
    if not sentences:
        raise DocumentError("has a paragraph without sentences: leave it out.")
    kind = item.get("kind", "prose")
    if kind not in KINDS:
        raise DocumentError(f"has a paragraph of kind {kind!r:.40}: use one of {', '.join(KINDS)}.")
    return Paragraph(sentences, _expect(str | None, item.get("speaker")), kind)


def _expect(kind: Any, value: Any) -> Any:
    """Return the value if it has the type."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} is not {getattr(kind, '__name__', kind)}")
    return value
