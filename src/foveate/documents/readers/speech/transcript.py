"""Transcripts: turns that begin with their speaker, with or without a time."""

import re
from collections.abc import Iterator
from dataclasses import replace

from foveate.documents.blocks import Block, Heading, ParsedText, Prose, lift_title
from foveate.documents.readers.plain.lines import TextLine, line_blocks, mapped
from foveate.documents.readers.speech.fillers import clean
from foveate.documents.readers.speech.turns import TIME, Turns, find_turns, labelled_turns

_LONG_WORD = re.compile(r"[^\W\d_]{4}")
_MAX_HEADING = 80


def read(text: str) -> ParsedText:
    """Read each turn as a paragraph; a line without a speaker continues the turn before it.

    What `speech.clean` finds to be without content is left out, and so are times that stand alone.
    """
    blocks = list(line_blocks(text))
    turns = find_turns(text, blocks) or labelled_turns(text, blocks)
    said, language = clean(list(_blocks(text, turns)))
    return replace(lift_title(said), language=language)


def looks_like_transcript(text: str) -> bool:
    """Return whether the turns of recurring speakers make up most of a text."""
    return find_turns(text, list(line_blocks(text))) is not None


def _blocks(text: str, turns: Turns) -> Iterator[Block]:
    part: list[TextLine] = []
    speaker: str | None = None
    said_from = 0  # index of the first line below a header
    for index, line in enumerate(turns.lines):
        opening = turns.openings.get(index)
        if part and (opening or index in turns.paragraphs):
            yield Prose(mapped(text, part), speaker)
            part = []
        start = line.start
        if opening:
            speaker = opening.speaker
            said_from = index + opening.num_lines
            start += opening.length
        shown = text[start : line.end]
        if index < said_from or not shown.strip() or TIME.fullmatch(shown):
            continue
        if not opening and _is_heading(text, turns, index):
            if part:
                yield Prose(mapped(text, part), speaker)
                part = []
            yield Heading(1, shown)
        else:
            part.append(TextLine(start, line.end, line.indent))
    if part:
        yield Prose(mapped(text, part), speaker)


def _is_heading(text: str, turns: Turns, index: int) -> bool:
    """Return whether a line in capitals stands alone above a turn: DREDGING."""
    if not turns.may_have_headings or index + 1 not in turns.openings:
        return False
    line = turns.lines[index]
    shown = text[line.start : line.end]
    return (
        shown.isupper()
        and len(shown) <= _MAX_HEADING
        and shown[0].isalnum()
        and shown[-1].isalnum()
        and _LONG_WORD.search(shown) is not None
        and index in turns.paragraphs
    )
