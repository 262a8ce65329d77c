"""The visible lines of a plain text, grouped into the blocks between blank lines."""

from collections.abc import Iterator
from typing import TypeAlias

Line: TypeAlias = tuple[int, int]
"""Start and end of a line in the text, without the whitespace around it."""


def line_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the lines of each block."""
    lines: list[Line] = []
    offset = 0
    for line in text.split("\n"):
        visible = line.strip()
        if visible:
            start = offset + line.find(visible)
            lines.append((start, start + len(visible)))
        elif lines:
            yield lines
            lines = []
        offset += len(line) + 1
    if lines:
        yield lines
