"""Page numbers and running heads of printed pages, which filings and scanned books keep as text."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

from foveate.documents.blocks import Block, Prose, collapse
from foveate.documents.numerals import roman_number

_NUMBER = re.compile(
    r"[\s–—-]*(?:(?i:page)\s+)?(?:(?P<prefix>[A-Za-z]{1,2})-)?"
    r"(?:(?P<digits>\d{1,4})|(?P<roman>[ivxlcIVXLC]{1,7}))(?:\s+(?i:of)\s+\d{1,4})?[\s.–—-]*"
)
_NEAR = 2  # blocks between a page number and the break of its page
_FEWEST = 2  # numbered pages
_FEWEST_HEADS = 3  # pages with the same head
_STARTS = 8  # numbers of which one is that of the first page


def without_page_numbers(blocks: Sequence[Block], breaks: Collection[int]) -> list[Block]:
    """Leave out the numbers and the recurring heads of pages; join paragraphs that cross pages.

    The numbers are at the feet of the pages: what follows a rule may be the number of a chapter.

    Args:
        blocks: The blocks of a page of the web.
        breaks: Indices of the blocks before which a printed page, or a rule, ends.
    """
    near = {index + shift for index in breaks for shift in range(-_NEAR, _NEAR)}
    texts = {index: _text(blocks[index]) for index in near if 0 <= index < len(blocks)}
    counts = Counter(texts.values())
    recurring = {index for index, text in texts.items() if counts[text] >= _FEWEST_HEADS}
    feet = {index - 1 for index in breaks}
    feet |= {index - 1 for index in feet & recurring}
    numbers = _counting(blocks, sorted(feet))
    if len(numbers) < _FEWEST:
        return list(blocks)
    heads = recurring & {index + shift for index in numbers for shift in (-1, 1)}
    left_out = {*numbers, *heads}
    kept: list[list[Block]] = []  # the parts of each block
    for index, block in enumerate(blocks):
        if index in left_out:
            continue
        last = kept[-1][-1] if kept and index - 1 in left_out else None
        if isinstance(last, Prose) and isinstance(block, Prose) and _continues(last, block):
            kept[-1].append(block)
        else:
            kept.append([block])
    return [parts[0] if len(parts) == 1 else _joined(parts) for parts in kept]


def _counting(blocks: Sequence[Block], feet: Sequence[int]) -> list[int]:
    """Return the indices of the numbers that count pages: each follows from the one before."""
    numbers: list[tuple[int, str, int]] = []
    for index in feet:
        block = blocks[index] if 0 <= index < len(blocks) else None
        is_paragraph = isinstance(block, Prose) and block.kind == "prose"
        match = _NUMBER.fullmatch(_text(block)) if block and is_paragraph else None
        if match:
            roman = match["roman"]
            value = roman_number(roman.upper()) if roman else int(match["digits"])
            numbers.append((index, match["prefix"] or ("i" if roman else "1"), value))
    return max(
        (_chain(numbers[start:]) for start in range(min(len(numbers), _STARTS))),
        key=len,
        default=[],
    )


def _chain(numbers: Sequence[tuple[int, str, int]]) -> list[int]:
    """Return the indices of the first number and those that continue it, also in other series."""
    found: list[int] = []
    last = ("", 0)
    for index, series, value in numbers:
        if series != last[0] or 0 < value - last[1] <= _NEAR:
            last = series, value
            found.append(index)
    return found


def _text(block: Block) -> str:
    return collapse(block.text)


def _continues(block: Prose, following: Prose) -> bool:
    """Return whether a paragraph runs on after the end of the page."""
    end, start = _text(block)[-1], _text(following)[0]
    return (
        block.kind == following.kind == "prose"
        and (end.isalpha() or end == ",")
        and start.islower()
    )


def _joined(parts: Sequence[Block]) -> Prose:
    first, *others = (part.text.stripped() for part in parts if isinstance(part, Prose))
    for other in others:
        first.extend_with_space(other)
    return Prose(first)
