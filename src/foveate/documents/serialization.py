"""Documents as plain dicts and lists, and back."""

import json
from collections.abc import Mapping
from typing import Any

from foveate.documents.blocks import collapse
from foveate.documents.layout import pack_layout, unpack_layout
from foveate.documents.structure import (
    DocumentError,
    Landmark,
    Paragraph,
    Section,
    Sentence,
    check_depth,
)

_KEYS = frozenset({"title", "sections", "text"})  # by which a packed document is recognized


def pack(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document as values that JSON can hold."""
    layout = document["layout"]
    return dict(document) | {
        "authors": list(document["authors"]),
        "left_out": list(document["left_out"]),
        "sections": [_pack(section) for section in document["sections"]],
        "layout": None if layout is None else pack_layout(layout),
        "landmarks": [list(landmark) for landmark in document["landmarks"]],
    }


def _pack(part: Any) -> Any:
    """Return a section, a paragraph or a sentence as a dict, and tuples of them as lists."""
    if isinstance(part, tuple):
        return [_pack(inner) for inner in part]
    if not isinstance(part, (Section, Paragraph, Sentence)):
        return part
    return {name: _pack(getattr(part, name)) for name in part.__slots__}


def parse_packed(text: str) -> Mapping[str, Any] | None:
    """Parse a text as JSON, and return it if it is a packed document."""
    if not all(f'"{key}"' in text for key in _KEYS):
        return None  # without parsing it, which its reader does
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None  # the reader of records says what is wrong
    return data if isinstance(data, dict) and set(data) >= _KEYS else None


def unpack(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of a packed document; the constructor checks them further.

    Raises:
        DocumentError: A part is missing or of the wrong type, sections are nested too deep,
            or the layout does not fit the text. The message lacks a subject.
    """
    try:
        text = _expect(str, data["text"])
        layout = data.get("layout")
        return {
            "title": _expect(str, data["title"]),
            "source": _expect(str | None, data.get("source")),
            "language": _expect(str | None, data.get("language")),
            "sections": _unpack_sections(data["sections"], depth=1),
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
            "left_out": tuple(_expect(str, line) for line in data.get("left_out", ())),
        }
    except DocumentError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DocumentError(
            f"is not a saved document ({reason}): give the result of Document.to_dict."
        ) from error


def _unpack_sections(items: Any, depth: int) -> tuple[Section, ...]:
    return tuple(_unpack_section(item, depth) for item in items)


def _unpack_section(item: Any, depth: int) -> Section:
    title = _expect(str, item["title"])
    check_depth(title, depth)
    return Section(
        title,
        tuple(_unpack_paragraph(paragraph) for paragraph in item["paragraphs"]),
        _unpack_sections(item.get("sections", ()), depth + 1),
    )


def _unpack_paragraph(item: Any) -> Paragraph:
    kind = item.get("kind", "prose")
    shown = str if kind == "code" else collapse
    sentences = tuple(
        Sentence(
            shown(_expect(str, sentence["text"])),
            _expect(int, sentence["start"]),
            _expect(int, sentence["end"]),
        )
        for sentence in item["sentences"]
    )
    return Paragraph(sentences, item.get("speaker"), kind)


def _expect(kind: Any, value: Any) -> Any:
    """Return the value if it has the type."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} is not {getattr(kind, '__name__', kind)}")
    return value
