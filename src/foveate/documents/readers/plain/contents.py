"""Tables of contents in plain text, which are left out."""

from collections.abc import Sequence
from itertools import islice
from operator import add

from foveate.documents.headings import is_contents
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
    """Find the tables of contents, which a heading announces.

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
        end = start + 1
        if is_contents(chunks[start].shown.partition("\n")[0]):
            end, keys = _run(chunks, start, last_seen)
            if keys is not None:
                found.update(range(start, end))
                listed.update(keys)
        start = end
    return found, listed


def _run(
    chunks: Sequence[Chunk], start: int, last_seen: dict[str, int]
) -> tuple[int, list[str] | None]:
    """Return where the run of entries at `start` ends, and their keys; None if not contents.

    A single other line among the entries is tolerated.
    """
    end = start + 1
    listed = _entries(chunks[start], skipped=1)
    pending: list[str] = []
    for index in range(start + 1, len(chunks)):
        chunk = chunks[index]
        numbered = (one for one in listed if heading_key(one) != numbered_key(one))
        if any(_is_same(chunk.shown, first) for first in (*listed[:1], *islice(numbered, 1))):
            break  # the text itself begins
        if is_contents(chunk.shown) or len(chunk.heading) == 1:
            break  # another one, or an underlined heading
        entries = _entries(chunk)
        known = sum(last_seen.get(heading_key(one), 0) > index or has_page(one) for one in entries)
        if chunk.heading or 2 * known > len(entries):
            listed += [*pending, *entries]
            pending, end = [], index + 1
        elif pending or not chunk.is_line:
            break
        else:
            pending = entries
    repeated = sum(last_seen.get(heading_key(entry), 0) >= end for entry in listed)
    # Entries may be wrapped or shortened, so some do not occur again.
    if listed and repeated >= 0.5 * len(listed):
        return end, [listed_key(entry) for entry in listed]
    marked = max(sum(map(has_page, listed)), sum(map(has_number, listed)))
    return end, [] if listed and marked >= 0.7 * len(listed) else None


def _is_same(heading: str, entry: str) -> bool:
    """Return whether a heading is that of an entry, with its number: 1. X or Chapter 1. X."""
    return heading_key(heading) == heading_key(entry) and numbered_key(heading).endswith(
        numbered_key(entry)
    )


def _entries(chunk: Chunk, skipped: int = 0) -> list[str]:
    """Return the entries that a chunk would hold in a table of contents, joining wrapped ones."""
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
