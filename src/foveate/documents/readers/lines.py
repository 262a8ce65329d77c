"""Plain text as spans: visible lines, and the blocks that blank lines part."""

from collections.abc import Iterator

Span = tuple[int, int]


def blocks(text: str) -> Iterator[list[Span]]:
    """The lines of each block, without the white space around them."""
    lines: list[Span] = []
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
