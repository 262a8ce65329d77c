"""Headings of documents without styles or elements for headings: recognized by their looks."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from foveate.documents.blocks import Block, Heading, collapse
from foveate.documents.headings import is_bare_part, is_part

_MAX_HEADING = 120  # characters
_MAX_SHARE = 0.5  # of the paragraphs; if more look like headings, none is
_LARGE = 1.15  # times the usual size
_NUMBER = re.compile(r"(\d{1,3}(?:\.\d{1,3})*)[.)]?\s+")
_DATED = re.compile(r"\b(?:19|20)\d\d\b|^dated\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_].*[^\W\d_].*[^\W\d_]", re.DOTALL)


class Look(NamedTuple):
    """How a paragraph looks.

    Attributes:
        is_bold: Whether all of it is bold.
        is_centred: Whether it is in the middle of the line.
        is_upper: Whether it is in capitals.
        size: The font size of its first words in any unit; None if the document does not say.
    """

    is_bold: bool
    is_centred: bool
    is_upper: bool
    size: float | None


def headings_by_look(
    blocks: Sequence[Block], known: Mapping[int, Look]
) -> tuple[str | None, list[Block]]:
    """Find the title and the headings of a document.

    Headings are short paragraphs, set in bold, in capitals or in a larger font, that do not end
    like a sentence and are followed by text. On a title page, whose lines are centred, only the
    title counts.

    Args:
        blocks: Paragraphs, none of them marked as a heading.
        known: The looks of those that may be headings, by their identities.

    Returns:
        The title, or None; and the blocks that remain, with headings. If more than half of the
        paragraphs look like headings, the blocks are as they were.
    """
    looks = {i: known[id(block)] for i, block in enumerate(blocks) if id(block) in known}
    usual = _usual_size(blocks, looks)
    marked = {i: look for i, look in looks.items() if _stands_out(_text(blocks[i]), look, usual)}
    if not marked or len(marked) > _MAX_SHARE * len(blocks):
        return None, list(blocks)
    title, begin = _title(blocks, looks, marked)
    last = max(i for i in range(len(blocks)) if i not in marked)
    levels = _levels(blocks, {i: look for i, look in marked.items() if begin <= i < last})
    found: list[Block] = []
    bare: Heading | None = None  # the last block, if it is a heading such as "Schedule 1"
    for i, block in enumerate(blocks):
        if i == title:
            continue
        text = _text(block)
        if i not in levels:
            found.append(block)
            bare = None
        elif bare is not None and not is_part(text):
            bare.text += f" {text}"
            bare = None
        else:
            heading = Heading(levels[i], text)
            found.append(heading)
            bare = heading if is_bare_part(text) else None
    return (None if title is None else _text(blocks[title])), found


def _text(block: Block) -> str:
    return collapse(block.text)


def _usual_size(blocks: Sequence[Block], looks: Mapping[int, Look]) -> float | None:
    sizes: Counter[float | None] = Counter()
    for i, look in looks.items():
        sizes[look.size] += len(str(blocks[i].text))
    return sizes.most_common(1)[0][0] if sizes else None


def _stands_out(text: str, look: Look, usual: float | None) -> bool:
    """Return whether a paragraph looks like a heading."""
    if len(text) > _MAX_HEADING or not _LETTERS.search(text) or text[0].islower():
        return False
    is_large = usual is not None and look.size is not None and look.size >= _LARGE * usual
    if not (look.is_bold or look.is_upper or is_large):
        return False
    return text[-1] not in ",;:!…" and (text[-1] != "." or _NUMBER.match(text) is not None)


def _title(
    blocks: Sequence[Block], looks: Mapping[int, Look], marked: Mapping[int, Look]
) -> tuple[int | None, int]:
    """Return the index of the title, and where the title page ends."""
    end = next(
        (i for i in range(len(blocks)) if i not in looks or not looks[i].is_centred), len(blocks)
    )
    zone = [i for i in marked if i < max(end, 1)]
    if not zone or is_part(_text(blocks[zone[0]])) or _NUMBER.match(_text(blocks[zone[0]])):
        return None, 0
    undated = [i for i in zone if not _DATED.search(_text(blocks[i]))] or zone
    return max(undated, key=lambda i: (marked[i].size or 0, -i)), end


def _levels(blocks: Sequence[Block], marked: Mapping[int, Look]) -> dict[int, int]:
    """Return the level of each heading: parts first, then by size, capitals and number."""
    kinds: dict[int, tuple[bool, float, bool, int]] = {}
    for i, look in marked.items():
        text = _text(blocks[i])
        number = _NUMBER.match(text)
        depth = number[1].count(".") + 1 if number else 0
        if is_part(text):
            kinds[i] = (False, 0.0, False, 0)
        else:
            kinds[i] = (True, -(look.size or 0), not look.is_upper, depth)
    order = {kind: level for level, kind in enumerate(sorted(set(kinds.values())), 1)}
    return {i: order[kind] for i, kind in kinds.items()}
