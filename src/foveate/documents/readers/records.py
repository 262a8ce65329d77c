"""Texts in JSON: an object, an array of objects, or JSON Lines.

An object is a meeting, or it has its text in a field with a usual name, or in "sections" as
`Document.from_sections` takes them. (`Document.to_dict` gives objects too, which need no reader.)
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foveate.documents.blocks import ParsedText, compose_text
from foveate.documents.compose import section_blocks
from foveate.documents.formats import FORMATS, Format, Member
from foveate.documents.metadata import names_in, parse_date
from foveate.documents.readers.speech import meeting
from foveate.documents.structure import DocumentError, NotADocumentError
from foveate.documents.words import load_words

TEXT_FIELDS, TITLE_FIELDS, AUTHOR_FIELDS, DATE_FIELDS = (
    load_words("fields")["records"][kind] for kind in ("text", "title", "author", "date")
)


def find_field(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the most preferred name, ignoring case."""
    found = [name.strip().lower() for name in names]
    return next((found.index(name) for name in wanted if name in found), None)


def read(text: str) -> ParsedText:
    """Read a meeting or a record with a text."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not valid JSON ({error}): correct it there.") from error
    except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
        data = None
    if isinstance(data, str):
        data = {"text": data}
    if not isinstance(data, dict):
        raise _unknown_form()
    if not {"turns", "meeting_transcripts"}.isdisjoint(data):
        return meeting.read(data)
    title = _field(data, TITLE_FIELDS)
    authors = names_in(_value(data, AUTHOR_FIELDS))
    date = parse_date(_value(data, DATE_FIELDS))
    if isinstance(data.get("sections"), list):
        composed = compose_text(title, section_blocks(data["sections"]))
        return replace(composed, authors=authors, date=date)
    body = _field(data, TEXT_FIELDS) or max(filter(_is_text, data.values()), key=len, default=None)
    if body is None:
        raise _unknown_form()
    if not body.strip():
        raise DocumentError("has an empty text: leave it out.")
    parsed: ParsedText = _text_format(data.get("format")).load_reader()(body)
    return replace(
        parsed,
        title=title or parsed.title,
        text=parsed.text or body,
        authors=authors or parsed.authors,
        date=date or parsed.date,
    )


def split(text: str) -> Iterator[Member]:
    """Yield the objects of an array, or those of the lines."""
    if text.lstrip().startswith("["):
        try:
            records = json.loads(text)
        except (ValueError, RecursionError) as error:  # numbers can have too many digits
            raise DocumentError(f"is not valid JSON ({error}): correct it there.") from error
        for number, record in enumerate(records, 1):
            yield Member(f":{number}", json.dumps(record).encode(), "json", f"record {number}")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Member(f":{number}", line.encode(), "json", f"line {number}")


def _field(data: Mapping[str, Any], wanted: Sequence[str]) -> str | None:
    """Return the value of the most preferred field, if it is a string or a number."""
    value = _value(data, wanted)
    return str(value) if isinstance(value, str | int | float) else None


def _value(data: Mapping[str, Any], wanted: Sequence[str]) -> Any:
    """Return the value of the most preferred field; None if there is none."""
    names = list(data)
    index = find_field(names, wanted)
    return None if index is None else data[names[index]]


def _is_text(value: object) -> bool:
    """Return whether a value may be a text: one word in ASCII is a name, a date or a setting."""
    return isinstance(value, str) and (not value.isascii() or len(value.split()) != 1)


def _text_format(name: object) -> Format:
    """Return the format of a record's text, which is plain if the record names none."""
    format = FORMATS.get(name) if isinstance(name, str) else None
    if format is None or format.is_binary or format.is_collection or name == "json":
        return FORMATS["text"]
    return format


def _unknown_form() -> NotADocumentError:
    return NotADocumentError(
        'is JSON, but neither a meeting ("turns" with "speaker" and "text", and "topics") nor a '
        'text ("text" or "sections", and "title") nor the result of Document.to_dict: convert it '
        "to one of these forms."
    )
