"""Transcripts: turns that begin with their speaker, with or without a time."""

from collections.abc import Iterator

from foveate.documents.blocks import Block, ParsedText, Prose
from foveate.documents.readers.plain.lines import TextLine, line_blocks, mapped
from foveate.documents.readers.speech.fillers import clean
from foveate.documents.readers.speech.turns import TIME, Turns, find_turns, labelled_turns


def read(text: str) -> ParsedText:
    """Read each turn as a paragraph; a line without a speaker continues the turn before it.

    What `speech.clean` finds to be without content is left out, and so are times that stand alone.
    """
    blocks = list(line_blocks(text))
    turns = find_turns(text, blocks) or labelled_turns(text, blocks)
    said, language = clean(list(_blocks(text, turns)))
    return ParsedText(None, said, language=language)


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
        part.append(TextLine(start, line.end, line.indent))
    if part:
        yield Prose(mapped(text, part), speaker)
