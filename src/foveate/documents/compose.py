"""The blocks of parts that are already separate."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from foveate.documents.blocks import Block, Heading, MappedText, Prose, collapse
from foveate.documents.structure import DocumentError, check_depth

_SHAPE = (
    'give (heading, text or list of sentences[, subsections]) or a mapping with "title" or '
    '"heading", "text" or "sentences", and "sections"'
)


def section_blocks(parts: Sequence[Any], level: int = 1) -> Iterator[Block]:
    """Yield the headings and paragraphs of sections, in the forms that `from_sections` takes.

    Raises:
        DocumentError: A part has an invalid form, or is nested too deep. The message lacks a
            subject.
    """
    for part in parts:
        title, content, subsections = _split(part)
        check_depth(title, level)
        yield Heading(level, title)
        if isinstance(content, str):
            yield from (Prose(MappedText.from_text(text)) for text in content.split("\n\n"))
        else:
            texts = [text for text in map(collapse, content) if text]
            starts = accumulate((len(text) + 1 for text in texts[:-1]), initial=0)
            yield Prose(MappedText.from_text(" ".join(texts)), starts=tuple(starts))
        yield from section_blocks(subsections, level + 1)


def _split(part: Any) -> tuple[str, str | Sequence[str], Sequence[Any]]:
    """Return the heading, content and subsections of a part in either form."""
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
