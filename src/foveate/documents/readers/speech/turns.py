"""Where the turns of transcripts begin.

These kinds are recognized, each by openings that recur; a few of them make no transcript:

- `Ann Lee: text`, `[00:01:02] Ann Lee: text`, `MR. SPEAKER: text`, `Ms. Lee (Leeds): text`
- a line with a name and a time, above the text: `Ann Lee  0:12`, `[Ann Lee] 14:05:12`,
  `00:01:02 Ann Lee`; or the name on one line and the time on the next
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from foveate.documents.readers.plain.lines import TextLine
from foveate.documents.words import load_words, name_set

_MERIDIEM = r"(?:[ \u00a0\u202f]?[AaPp]\.?[Mm]\.?)?"
_DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\.?"
_HH_MM = r"\d{1,2}:\d\d(?::\d\d)?"
_AT = rf"{_HH_MM}(?:\.\d{{1,3}})?{_MERIDIEM}"
TIME = re.compile(rf"[\[(]?{_AT}[\])]?")
"""A time that stands alone on a line."""

_TURN = re.compile(
    rf"(?:[\[(]?{_HH_MM}(?:[.,]\d+)?(?:\s?[AaPp][Mm])?[\])]?\s*[-–]?\s*)?"  # the time
    r"([^\W_a-z][^\s:]*(?: [^\s:]+){0,4}(?: \([^():]{2,60}\)){0,2})"  # the speaker
    rf"(?: ?[\[(]{_HH_MM}[\])])?\s*:(?:\s+|\Z)"
)
_NAME = (
    r"(?![AaPp]\.?[Mm]\b)[^\W_a-z][^\s:,;()\[\]]*(?: [^\s:,;()\[\]]+){0,4}?(?: \([^():]{2,40}\))?"
)
_STAMP = rf"(?:[\[(](?:{_DATE},? )?{_AT}[\])]|(?:(?:[Tt]oday|[Yy]esterday) at )?{_AT})"
_HEADER = re.compile(
    rf"{_STAMP}\s*[-–—]?\s*({_NAME}):?|(?:\[({_NAME})\]|({_NAME}),?)\s*[-–—|]?\s*{_STAMP}:?"
)
_PARTS = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s?([Pp])?")
_LONE_NAME = re.compile(_NAME)
_NOT_SPEAKERS = name_set(load_words("speech")["not_speakers"])
_MAX_OPENING = 200  # characters of a line in which a turn may open
_MAX_HEADER = 100  # characters of a line with a name and a time
_MAX_NAME = 40  # characters
_MIN_TURNS = 4
_MAJORITY = 0.8
_MAX_FRONT, _MAX_FRONT_LINES = 0.3, 10  # of the lines, above the first turn
_MIN_CHANGES = 0.1  # of the names in headers, from one to the next


class Opening(NamedTuple):
    """What begins a turn."""

    speaker: str
    length: int  # characters before what is said
    num_lines: int = 0  # before the one with what is said


class Turns(NamedTuple):
    """The lines of a text, and where turns begin."""

    lines: Sequence[TextLine]
    openings: Mapping[int, Opening]  # by the index of the line that they begin
    paragraphs: frozenset[int]  # indices of lines that begin a paragraph


def match_turn(line: str) -> re.Match[str] | None:
    """Match the time and speaker that begin a line; group 1 is the speaker."""
    line = line[:_MAX_OPENING]
    match = _TURN.match(line)
    if match and len(match[1].split(" (")[0]) > _MAX_NAME:
        return None
    return match


def find_turns(text: str, blocks: Sequence[Sequence[TextLine]]) -> Turns | None:
    """Find the turns of a text that is a transcript.

    Args:
        text: The text.
        blocks: The lines between blank lines.

    Returns:
        The turns; None if the text does not look like a transcript.
    """
    lines = [line for block in blocks for line in block]
    if not lines:
        return None
    starts = list(accumulate((len(block) for block in blocks), initial=0))[:-1]
    shown = [text[line.start : line.end] for line in lines]
    found = _headers(shown) or _labels(shown, starts)
    return Turns(lines, found, frozenset(starts)) if found else None


def labelled_turns(text: str, blocks: Sequence[Sequence[TextLine]]) -> Turns:
    """Take each line with a name before a colon as a turn, of whatever kind the text is."""
    lines = [line for block in blocks for line in block]
    openings = _openings([text[line.start : line.end] for line in lines])
    starts = accumulate((len(block) for block in blocks), initial=0)
    return Turns(lines, openings, frozenset(starts))


def _openings(shown: Sequence[str]) -> dict[int, Opening]:
    """Return what begins the lines that have a name before a colon, by their indices."""
    matches = enumerate(map(match_turn, shown))
    return {n: Opening(match[1], match.end()) for n, match in matches if match}


def _recur(speakers: Sequence[str]) -> bool:
    """Return whether at least two speak, each of them twice on average."""
    return len(speakers) >= _MIN_TURNS and 2 <= len(set(speakers)) <= len(speakers) / 2


def _has_keys(labels: Sequence[str]) -> bool:
    """Return whether many labels are words that stand before colons in records, or numbers."""
    keys = sum(
        label.rstrip(" 0123456789.#").casefold() in _NOT_SPEAKERS
        or not any(map(str.isalpha, label))
        for label in labels
    )
    return keys > 0.2 * len(labels)


def _headers(shown: Sequence[str]) -> dict[int, Opening]:
    """Find lines with a name and a time above what is said."""
    openings: dict[int, Opening] = {}
    for index, line in enumerate(shown[:-1]):
        if len(line) > _MAX_HEADER:
            continue
        if match := _HEADER.fullmatch(line):
            name = next(filter(None, match.groups()))
            openings[index] = Opening(name, 0, num_lines=1)
        elif (
            TIME.fullmatch(shown[index + 1])
            and _LONE_NAME.fullmatch(line)
            and line[-1] not in ".?!"
        ):
            openings[index] = Opening(line, 0, num_lines=2)
    names = [opening.speaker for opening in openings.values()]
    times = [_seconds("\n".join(shown[n : n + one.num_lines])) for n, one in openings.items()]
    num_changes = sum(first != second for first, second in pairwise(names))
    num_later = sum(first <= second for first, second in pairwise(times))
    if (
        not _recur(names)
        or num_changes < _MIN_CHANGES * (len(names) - 1)  # chapters and verses
        or num_later < _MAJORITY * (len(times) - 1)
        or all(time % 5 == 0 for time in times)  # a schedule
        or len(openings) < 0.1 * len(shown)
        or _has_keys(names)
    ):
        return {}
    return openings


def _seconds(header: str) -> int:
    """Return the time in a header, in the unit of its last part."""
    hour, minute, second, is_afternoon = _PARTS.findall(header)[-1]
    first = int(hour) % 12 + 12 if is_afternoon else int(hour)
    total = 60 * first + int(minute)
    return 60 * total + int(second) if second else total


def _labels(shown: Sequence[str], starts: Sequence[int]) -> dict[int, Opening]:
    """Find names before a colon: one of a few recurring names begins most lines or most blocks."""
    openings = _openings(shown)
    counts = Counter(opening.speaker for opening in openings.values())
    openings = {n: opening for n, opening in openings.items() if counts[opening.speaker] > 1}
    names = [opening.speaker for opening in openings.values()]
    if not _recur(names) or _has_keys(names):
        return {}
    first = min(openings)
    if first > max(_MAX_FRONT * len(shown), _MAX_FRONT_LINES):
        return {}
    num_lines = sum(TIME.fullmatch(line) is None for line in shown[first:])
    starts = [start for start in starts if start >= first and not TIME.fullmatch(shown[start])]
    by_line = len(openings) / num_lines
    by_block = sum(start in openings for start in starts) / max(len(starts), 1)
    are_records = len(set(pairwise(names))) == len(set(names)) > 2  # the same always follows
    return openings if max(by_line, by_block) >= _MAJORITY and not are_records else {}
