"""Transcripts: lines such as `Speaker: text`, with or without a time."""

import re
from collections import Counter

from foveate.documents.blocks import Block, MappedText, ParsedText, Prose
from foveate.documents.readers.plain.lines import line_blocks
from foveate.documents.readers.speech.fillers import clean

_TURN = re.compile(
    r"(?:[\[(]?\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?[\])]?\s*[-–]?\s*)?"  # the time
    r"([^\W_a-z][^\s:]*(?: [^\s:]+){0,4})"  # the speaker
    r"(?: ?[\[(]\d{1,2}:\d\d(?::\d\d)?[\])])?\s*:(?:\s+|\Z)"
)
_MAX_NAME_LENGTH = 40
_MIN_TURNS = 4
_MAJORITY = 0.8


def read(text: str) -> ParsedText:
    """Read each turn as a paragraph; a line without a speaker continues the turn before it.

    What `speech.clean` finds to be without content is left out.
    """
    paragraphs: list[Block] = []
    speaker = None
    for lines in line_blocks(text):
        start: int | None = None
        end = 0
        for line_start, line_end, _ in lines:
            turn = match_turn(text[line_start:line_end])
            if turn:
                if start is not None:
                    paragraphs.append(Prose(MappedText.from_source(text, start, end), speaker))
                speaker, start = turn[1], line_start + turn.end()
            elif start is None:
                start = line_start
            end = line_end
        if start is not None:
            paragraphs.append(Prose(MappedText.from_source(text, start, end), speaker))
    return ParsedText(None, clean(paragraphs))


def looks_like_transcript(text: str) -> bool:
    """Return whether most lines, or most blocks, start with one of a few recurring names."""
    openings = [
        [match_turn(text[start:end]) for start, end, _ in lines] for lines in line_blocks(text)
    ]
    by_line = [turn for turns in openings for turn in turns]
    by_block = [turns[0] for turns in openings]
    speakers = Counter(turn[1] for turn in by_line if turn)
    turns = speakers.total()
    return (
        turns >= _MIN_TURNS
        and 2 <= len(speakers) <= turns / 2
        and max(_share(by_line), _share(by_block)) >= _MAJORITY
    )


def _share(turns: list[re.Match[str] | None]) -> float:
    return sum(turn is not None for turn in turns) / max(len(turns), 1)


def match_turn(line: str) -> re.Match[str] | None:
    """Match the time and speaker that begin a line; group 1 is the speaker."""
    match = _TURN.match(line[:200])
    return match if match and len(match[1]) <= _MAX_NAME_LENGTH else None
