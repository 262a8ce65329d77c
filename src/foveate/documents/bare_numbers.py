"""Headings that are numbers alone, as in court opinions: "I", with "A" and "B" below it."""

import re
from collections.abc import Mapping, Sequence

from foveate.documents.blocks import Block, Heading, Prose
from foveate.documents.numerals import roman_number

_NUMBER = re.compile(r"\s*([IVX]{1,7}|[A-Z]|\d{1,2})\.?\s*")
_TEXT = 15  # characters for each number, at least


def mark_bare_numbers(blocks: list[Block]) -> list[Block]:
    """Turn paragraphs that are numbers alone into headings, if they count the parts of a document.

    The outermost are Roman, follow from each other and seldom begin again. Each number has text.
    """
    levels: dict[int, int] = {}
    stack: list[tuple[str, int]] = []  # the open numbers, from the outside in, with their scripts
    base = above = 0  # the level of the heading above the outermost number, and of the last one
    num_first = num_later = 0  # of the outermost: "I", and all that follow it
    for index, block in enumerate(blocks):
        if isinstance(block, Heading):
            above = block.level
            stack = stack if above > base else []
            continue
        match = _NUMBER.fullmatch(str(block.text)) if block.kind in ("prose", "item") else None
        if match is None or block.speaker:
            continue
        following = _following(stack, _values(match[1]))
        if not following or (index - 1 in levels and len(following) <= len(stack)):
            continue
        if not stack:
            base = above
        stack = following
        if len(stack) == 1:
            num_first += stack[0][1] == 1
            num_later += stack[0][1] > 1
        levels[index] = base + len(stack)
    if not 0 < num_first <= num_later or not _have_text(blocks, levels):
        return blocks
    return [
        Heading(levels[index], str(block.text).strip()) if index in levels else block
        for index, block in enumerate(blocks)
    ]


def _values(number: str) -> dict[str, int]:
    """Return a number as it reads in each script: "C" is the third letter."""
    if number.isdigit():
        return {"arabic": int(number)}
    values = {"letter": ord(number) - ord("A") + 1} if len(number) == 1 else {}
    return values | ({"roman": roman_number(number)} if set(number) <= set("IVX") else {})


def _following(
    stack: Sequence[tuple[str, int]], values: Mapping[str, int]
) -> list[tuple[str, int]]:
    """Return the open numbers after another one; empty if it does not follow from them."""
    for depth in range(len(stack), 0, -1):
        script, last = stack[depth - 1]
        if values.get(script) == last + 1:
            return [*stack[: depth - 1], (script, last + 1)]
    scripts = [script for script, _ in stack]
    for script in ("roman", "letter", "arabic") if stack else ("roman",):
        if values.get(script) == 1:  # the first below the last, or of another opinion
            depth = scripts.index(script) if script in scripts else len(stack)
            return [*stack[:depth], (script, 1)]
    return []


def _have_text(blocks: Sequence[Block], levels: Mapping[int, int]) -> bool:
    """Return whether there is enough text below the numbers, also below the last one."""
    first = min(levels)
    texts = {
        index: len(str(block.text))
        for index, block in enumerate(blocks)
        if isinstance(block, Prose) and index not in levels and index > first
    }
    return max(texts, default=0) > max(levels) and sum(texts.values()) > _TEXT * len(levels)
