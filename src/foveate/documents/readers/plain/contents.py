"""Tables of contents in plain text, which are left out."""

from collections.abc import Sequence
from itertools import islice
from operator import add

from foveate.documents.headings import is_bare_part, is_contents, is_part
from foveate.documents.readers.plain.headings import (
    has_number,
    has_page,
    heading_key,
    listed_key,
    numbered_key,
)
from foveate.documents.readers.plain.lines import (
    Chunk,
    breaks_on_purpose,
    columns,
)

_MAX_HEADING = 250  # characters of a heading that fills several lines
_MIN_WIDTH = 40  # characters; shorter lines are not wrapped


def find_contents(chunks: Sequence[Chunk]) -> tuple[set[int], set[str]]:
    """Find the tables of contents: runs of headings that occur again, or that are announced.

    Returns:
        The indices of the chunks that belong to them, and the keys of the headings that they list.
    """
    last_seen = {
        heading_key(chunk.shown): index
        for index, chunk in enumerate(chunks)
        if len(chunk.shown) <= _MAX_HEADING
    }
    found: set[int] = set()
    listed: set[str] = set()
    start = 0
    while start < len(chunks):
        chunk = chunks[start]
        announced = is_contents(chunk.shown.partition("\n")[0])
        end = start + 1
        if announced or chunk.heading or _is_listed(chunk, start, last_seen):
            end, keys = _run(chunks, start, announced, last_seen)
            if keys is not None:
                found.update(range(start, end))
                listed.update(keys)
        start = end
    return found, listed


def _run(
    chunks: Sequence[Chunk], start: int, announced: bool, last_seen: dict[str, int]
) -> tuple[int, list[str] | None]:
    """Return where the run of entries at `start` ends, and their keys; None if not contents.

    A single other line among the entries is tolerated.
    """
    end = start + 1
    entries = _entries(chunks[start], skipped=int(announced))
    listed = list(entries)
    pages = sum(map(has_page, entries))
    numbers = sum(map(has_number, entries))
    pending: list[str] = []
    first_number = next(filter(has_number, entries), "")
    first_part = next(filter(_is_titled_part, entries), "")
    for index in range(start + 1, len(chunks)):
        chunk = chunks[index]
        if any(
            _is_same(chunk.shown, first)
            for first in (*listed[:1], first_number, first_part)
            if first
        ):
            break  # the text itself begins
        if is_contents(chunk.shown) or len(chunk.heading) == 1:
            break  # another one, or an underlined heading
        entries = _entries(chunk)
        may_be_new = announced and (len(entries) > 1 or index == start + 1)
        if chunk.heading or _is_entry(entries, index, last_seen, may_be_new):
            listed += [*pending, *entries]
            first_number = first_number or next(filter(has_number, entries), "")
            first_part = first_part or next(filter(_is_titled_part, entries), "")
            pages += sum(map(has_page, entries))
            numbers += sum(map(has_number, entries))
            pending, end = [], index + 1
        elif pending or not chunk.is_line:
            break
        else:
            pending = entries
    if len(listed) < (1 if announced else 3):
        return end, None
    repeated = sum(last_seen.get(heading_key(entry), 0) >= end for entry in listed)
    # Entries may be wrapped or shortened, so some do not occur again.
    if repeated >= len(listed) * (0.5 if announced else 0.8):
        return end, [listed_key(entry) for entry in listed]
    if announced and max(pages, numbers) >= len(listed) * 0.7:
        return end, []
    return end, None


def _is_titled_part(entry: str) -> bool:
    """Return whether an entry is that of a part with its title: Chapter 1: Loomings."""
    return is_part(entry) and not is_bare_part(entry) and has_page(entry)


def _is_same(heading: str, entry: str) -> bool:
    """Return whether a heading is that of an entry, with its number: 1. X or Chapter 1. X."""
    return heading_key(heading) == heading_key(entry) and numbered_key(heading).endswith(
        numbered_key(entry)
    )


def _is_entry(entries: list[str], index: int, last_seen: dict[str, int], may_be_new: bool) -> bool:
    """Return whether a chunk holds entries: headings that occur later, or numbers and pages.

    Args:
        entries: What the chunk holds.
        index: Index of the chunk.
        last_seen: Index of the last chunk with a key.
        may_be_new: Whether numbered entries count even if they do not occur later.
    """
    listed = sum(
        last_seen.get(heading_key(entry), 0) > index or has_page(entry) for entry in entries
    )
    if may_be_new and listed < len(entries):
        listed += sum(has_number(entry) for entry in entries)
    return listed > len(entries) / 2


def _is_listed(chunk: Chunk, index: int, last_seen: dict[str, int]) -> bool:
    """Return whether numbered or marked entries recur, so that contents may begin unannounced."""
    if not (len(chunk.parts) > 1 or has_number(chunk.shown)):
        return False
    return _is_entry(_entries(chunk), index, last_seen, may_be_new=False)


def _entries(chunk: Chunk, skipped: int = 0) -> list[str]:
    """Return the entries that a chunk would hold in a table of contents, joining wrapped ones."""
    if chunk.is_list and len(chunk.parts) > 1 and not has_number(chunk.shown):
        shown = iter(chunk.shown.split("\n"))
        return [" ".join(islice(shown, len(part))) for part in chunk.parts]
    lines = chunk.shown.split("\n")[skipped:]
    indents = [line.indent for line in chunk.lines[skipped:]]
    width = max((map(add, indents, map(columns, lines))), default=0)
    entries = lines[:1]
    for index in range(1, len(lines)):
        previous, line = lines[index - 1 : index + 1]
        if (
            width < _MIN_WIDTH
            or has_number(line)
            or has_page(previous)
            or breaks_on_purpose(previous, line, width - indents[index - 1])
        ):
            entries.append(line)
        else:
            entries[-1] += " " + line
    return entries
