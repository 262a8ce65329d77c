"""Running text: paragraphs joined across columns, pages and interruptions."""

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from foveate.documents.headings import is_references
from foveate.documents.readers.pdf.headings import key_of
from foveate.documents.readers.pdf.lines import Line
from foveate.documents.readers.pdf.paragraphs import TextBlock
from foveate.documents.readers.pdf.tables import continues

_ENTRY = re.compile(r"^(\[[^\]]{1,12}\]|\d{1,3}\.)(?=\s|$)")
_ENDED = tuple(".!?。！？:：")
_INTERRUPTING = ("table", "caption", "footnote", "formula")
_CONTINUED = re.compile(
    r"\b(continued|cont|fortsetzung|fortgesetzt|suite|continuación|segue)\b", re.I
)


def join_flow(blocks: Sequence[TextBlock]) -> list[TextBlock]:
    """Join paragraphs that a column, a page, a formula or a float interrupts, and tables.

    What interrupts a paragraph follows it.
    """
    joined: list[TextBlock] = []
    for block in blocks:
        if block.kind == "table":
            _join_table(joined, block)
            continue
        earlier = _continued(joined, block)
        if earlier is None:
            joined.append(block)
        else:
            joined[earlier] = TextBlock(
                joined[earlier].lines + block.lines,
                joined[earlier].kind,
                skipped=joined[earlier].skipped,
            )
    return joined


def _join_table(blocks: list[TextBlock], block: TextBlock) -> None:
    """Append a table, or its rows to the table that it continues; heads are not repeated."""
    for earlier in reversed(blocks):
        if earlier.kind == "table":
            if earlier.lines[-1].frame is not block.lines[0].frame and continues(
                earlier.lines, block.lines[0]
            ):
                heads = takewhile(
                    lambda pair: pair[0].text == pair[1].text,
                    zip(earlier.lines, block.lines, strict=False),
                )
                earlier.lines += block.lines[len(list(heads)) :]
                return
            break
        is_continued = earlier.kind == "caption" and _CONTINUED.search(earlier.text)
        if earlier.level or not (earlier.kind == "footnote" or is_continued):
            break
    blocks.append(block)


def _continued(blocks: Sequence[TextBlock], block: TextBlock) -> int | None:
    """Return the index of the paragraph that a block continues."""
    if block.level or block.kind != "prose":
        return None
    crossed = False
    formula = False
    for index in range(len(blocks) - 1, max(len(blocks) - 12, -1), -1):
        earlier = blocks[index]
        if earlier.kind in _INTERRUPTING and not earlier.level:
            formula = formula or earlier.kind == "formula"
            continue
        if earlier.level or earlier.kind not in ("prose", "item"):
            return None
        last, first = earlier.lines[-1], block.lines[0]
        crossed = last.frame is not first.frame
        if not (crossed or formula):
            return None
        return index if _runs_on(last, first, crossed) else None
    return None


def _runs_on(last: Line, first: Line, crossed: bool) -> bool:
    """Return whether a sentence runs on from one line to the other."""
    if abs(last.size - first.size) > 0.1 * last.size or first.page - last.page > 2:
        return False
    text = last.text
    start = first.text.lstrip("“\"'(‘[")[:1]
    if text.endswith("-") and start.islower():
        return True
    if text.endswith(_ENDED):
        return False
    if start.islower():
        return True
    full = last.right > last.frame.right - 3 * last.size
    flush = first.left < first.frame.left + 0.6 * first.size
    return crossed and full and flush and not (last.bold > 0.9 and first.bold < 0.5)


def mark_references(blocks: Sequence[TextBlock]) -> list[TextBlock]:
    """Divide bibliographies into their entries."""
    marked: list[TextBlock] = []
    pending: list[Line] = []
    level = 0
    for block in blocks:
        if block.level:
            marked += _entries(pending)
            pending = []
            if is_references(key_of(block.text)):
                level = block.level
            elif block.level <= level or level:
                level = 0
            marked.append(block)
        elif level and block.kind in ("prose", "item", "formula", "table"):
            pending += block.lines
        else:
            marked.append(block)
    return marked + _entries(pending)


def _entries(lines: Sequence[Line]) -> list[TextBlock]:
    """Divide the lines of a bibliography into entries, by their marks or hanging indentation."""
    if not lines:
        return []
    marked = [bool(_ENTRY.match(line.text)) for line in lines]
    edges: dict[int, float] = {}
    for line in lines:
        frame = id(line.frame)
        edges[frame] = min(edges.get(frame, line.left), line.left)
    hanging = [line.left < edges[id(line.frame)] + 0.4 * line.size for line in lines]
    if marked[0] and sum(marked) > 1:
        starts = marked
    elif hanging[0] and 1 < sum(hanging) < 0.9 * len(lines):
        starts = hanging
    else:
        starts = [False] + [
            other.baseline - one.baseline > 1.5 * one.size
            or (one.text.endswith(".") and one.right < one.frame.right - 2 * one.size)
            for one, other in pairwise(lines)
        ]
    entries: list[list[Line]] = []
    for line, starts_entry in zip(lines, starts, strict=True):
        if starts_entry or not entries:
            entries.append([])
        entries[-1].append(line)
    return [TextBlock(entry, "reference") for entry in entries]
