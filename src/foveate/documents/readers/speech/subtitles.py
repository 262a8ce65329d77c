"""Subtitles in WebVTT and SubRip: cues with their times, joined into turns."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from foveate.documents.blocks import Block, MappedText, ParsedText, Prose
from foveate.documents.readers.speech.fillers import clean
from foveate.documents.readers.speech.turns import match_turn
from foveate.documents.structure import DocumentError, Landmark

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\n]*")
# A reading; a voice; a tag, a time within a cue, or a command of SubStation; a character reference.
_MARKUP = re.compile(
    r"<rt>[^<\n]*(?:</rt>|\Z)|<v(?:\.[^\s>]{1,99})?[ \t]([^>\n]{1,99})>|"
    r"</?[a-zA-Z][^>\n]{0,199}>|<[\d:.]{1,20}>|"
    r"\{\\[^}\n]{1,99}\}|(&#?\w{1,32};)"
)
_SPEAKER = re.compile(r"\s*[\[(]([^\[\]()\n]{1,40})[\])]:[ \t]*")  # [SPEAKER_00]:
_CONTIGUOUS = 0.2  # seconds between captions that grow word by word
_SOUND = re.compile(r"\[[^\]\n]{0,199}\]")  # subtitles put in brackets what is heard but not said
_DASH = re.compile(r"[♪♫♬ ]{0,3}(?:[-–—]|>>+)[ \t]*(?=[^\W\d_])")
_SENTENCE_END = re.compile(r"[.?!…。？！][\"'”’»)]*\s*\Z")
_PAUSE = 2.0  # seconds of silence after a sentence that begin a new paragraph
_MAX_LINES = 40  # of a paragraph, where nothing else ends it


@dataclass(slots=True)
class _Line:
    """A line of a cue, without markup."""

    text: MappedText
    start: float  # of the cue, in seconds
    end: float
    speaker: str | None = None  # if the cue names somebody
    is_turn: bool = False  # whether somebody else begins to speak


def read(text: str) -> ParsedText:
    """Read what is said.

    Cues with the same speaker are joined; without speakers, a pause after a sentence begins a new
    paragraph. The place of a sentence is the time of the cue in which it begins. Sounds are left
    out as in a transcript, and what a cue repeats from the cue before it.
    """
    if "-->" not in text:
        raise DocumentError("has no subtitles: check that it is WebVTT or SRT.")
    lines = [line for line in _lines(text) if line.text]
    _name_speakers(lines)
    turns: list[Block] = [Prose(_joined(turn), turn[0].speaker) for turn in _turns(lines)]
    marks = tuple(
        Landmark(line.text.source_span(0, 1)[0], _clock(line.start)) for line in lines if line.text
    )
    blocks, language = clean(turns)
    return ParsedText(None, blocks, landmarks=marks, language=language)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines of the cues; other blocks, such as styles and notes, have no times."""
    previous: list[str] = []
    shown: list[str] = []
    timing: re.Match[str] | None = None
    offset = 0
    voice: str | None = None
    end = 0.0  # of the cue before
    is_webvtt = text.startswith("WEBVTT")
    numbers = _numbers(text.split("\n"))
    for index, written in enumerate(text.split("\n")):
        start, offset = offset, offset + len(written) + 1
        if match := _TIMING.match(written):
            end = _seconds(timing, 5) if timing else end
            timing, previous, shown, voice = match, shown, [], None
            continue
        # In SubRip, empty lines may be anywhere in a cue; in WebVTT, a line of blanks may begin it.
        if timing and is_webvtt and not written.strip() and (shown or not written):
            end, timing = _seconds(timing, 5), None
        if timing is None or index in numbers or not written.strip():
            continue
        said, named = _unmarked(text, start, start + len(written))
        voice = named or voice
        words = str(said).strip()
        shown.append(words)
        begin = _seconds(timing, 1)
        before = previous[-1] if previous and begin - end <= _CONTIGUOUS else ""
        if before and words.startswith(f"{before} "):  # captions that grow word by word
            said = said.part(str(said).index(words) + len(before), len(str(said))).stripped()
        if words not in previous:  # captions that roll up show each line twice
            yield _Line(said, begin, _seconds(timing, 5), voice, bool(named))


def _numbers(lines: list[str]) -> set[int]:
    """Return where the numbers of cues are: above their times, and again above blank lines."""
    found: set[int] = set()
    number = ""
    for index in range(len(lines) - 1, 0, -1):
        if _TIMING.match(lines[index]):
            above = lines[index - 1].strip()
            number = above if above.isdecimal() else ""
        elif number and lines[index].strip() == number:
            found.add(index)
        elif lines[index].strip():
            number = ""
    return found


def _unmarked(text: str, start: int, end: int) -> tuple[MappedText, str | None]:
    """Return a line without its markup, and the voice that it names."""
    shown = MappedText()
    voice: str | None = None
    for match in _MARKUP.finditer(text, start, end):
        shown.add(text[start : match.start()], start, match.start())
        start = match.end()
        if match[2]:
            shown.add(unescape(match[2]).replace("\0", "\ufffd"), *match.span())
        voice = match[1] or voice
    shown.add(text[start:end], start, end)
    spoken = MappedText()
    visible = str(shown)
    speaker = _SPEAKER.match(visible)
    voice = voice or (speaker[1] if speaker else None)
    last = speaker.end() if speaker else 0
    for sound in _SOUND.finditer(visible, last):
        spoken.extend(shown.part(last, sound.start()))
        last = sound.end()
    spoken.extend(shown.part(last, len(visible)))
    return spoken, voice and unescape(voice).strip()


def _name_speakers(lines: list[_Line]) -> None:
    """Find speakers that are written in front of what they say, and dashes that stand for one."""
    openings: list[tuple[_Line, int, bool, re.Match[str] | None]] = []
    for line in lines:
        shown = str(line.text)
        start = len(shown) - len(shown.lstrip())
        dash = _DASH.match(shown, start)
        start = dash.end() if dash else start
        openings.append((line, start, dash is not None, match_turn(shown[start:])))
    counts = Counter(match[1] for *_, match in openings if match)
    for line, start, has_dash, match in openings:
        if match and line.speaker is None and (counts[match[1]] > 1 or match[1].isupper()):
            line.speaker, line.is_turn = match[1], True
            line.text = line.text.part(start + match.end(), len(str(line.text)))
        elif has_dash:
            line.is_turn = True
            line.text = line.text.part(start, len(str(line.text)))


def _turns(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Yield the lines that somebody says without a pause."""
    turn: list[_Line] = []
    for line in lines:
        if turn and line.text and _begins_turn(turn, line):
            yield turn
            turn = []
        turn += [line] if line.text else []
    if turn:
        yield turn


def _joined(lines: list[_Line]) -> MappedText:
    joined = MappedText()
    for line in lines:
        start, _ = line.text.source_span(0, 1)
        joined.add(" " if joined else "", start, start)
        joined.extend(line.text)
    return joined


def _begins_turn(turn: list[_Line], line: _Line) -> bool:
    if line.is_turn and (line.speaker is None or line.speaker != turn[0].speaker):  # None: a dash
        return True
    last = turn[-1]
    is_sentence_end = _SENTENCE_END.search(str(last.text)) is not None
    has_paused = is_sentence_end and line.start - last.end >= _PAUSE
    return has_paused or len(turn) >= _MAX_LINES


def _seconds(timing: re.Match[str], group: int) -> float:
    hours, minutes, seconds, fraction = timing.group(group, group + 1, group + 2, group + 3)
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction or 0) / 1000


def _clock(seconds: float) -> str:
    """Write a time as players show it: "0:12:05"."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}"
