"""Meetings in JSON: QMSum as published, or an object with "turns" and "topics"."""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined] # missing in typeshed
from json.scanner import py_make_scanner  # type: ignore[attr-defined] # missing in typeshed
from typing import Any

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose
from foveate.documents.readers.speech.fillers import clean
from foveate.documents.structure import DocumentError

_PIECE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]+", re.DOTALL)
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class _String(str):
    """A JSON string with the offsets of its content."""

    start: int
    end: int


class _Decoder(json.JSONDecoder):
    """A decoder that records the offsets of every string."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = _parse_string
        self.scan_once = py_make_scanner(self)  # the one in C would not call parse_string


def _parse_string(text: str, start: int, strict: bool = True) -> tuple[_String, int]:
    value, end = scanstring(text, start, strict)
    string = _String(value)
    string.start, string.end = start, end - 1
    return string, end


def read(text: str) -> ParsedText:
    """Read each turn as a paragraph and each topic as a section.

    What `speech.clean` finds to be without content is left out. Turns without a topic form untitled
    sections. A turn that belongs to two topics goes to the first.
    """
    try:
        data = _Decoder().decode(text)
        return ParsedText(None, clean(list(_blocks(text, data))))
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not valid JSON ({error}): correct it there.") from error
    except (
        *(KeyError, TypeError, ValueError, AttributeError),
        *(OverflowError, RecursionError),  # of an infinite number, and of deep nesting
    ) as error:
        raise DocumentError(
            'is JSON, but not a meeting ("turns" with "speaker" and "text", and "topics"): convert '
            "it to this form."
        ) from error


def _blocks(text: str, data: dict[str, Any]) -> Iterator[Block]:
    turns = data["turns"] if "turns" in data else data["meeting_transcripts"]
    topics = _topics(data.get("topics") or data.get("topic_list") or [], len(turns))
    current = None
    for index, turn in enumerate(turns):
        topic = topics.get(index)
        if topic != current or (index == 0 and topics):
            yield Heading(1, topic[1] if topic else "")
            current = topic
        content = turn["text"] if "text" in turn else turn["content"]
        yield Prose(_displayed(text, content), str(turn["speaker"]).strip() or None)


def _topics(topics: list[dict[str, Any]], num_turns: int) -> dict[int, tuple[int, str]]:
    """Return the number and name of the topic of each turn that has one."""
    topic_of_turn: dict[int, tuple[int, str]] = {}
    free = list(range(num_turns + 1))  # for each turn, one from there on without a topic, or nearer

    def first_free(turn: int) -> int:
        while free[turn] != turn:
            free[turn] = turn = free[free[turn]]
        return turn

    for number, topic in enumerate(topics):
        for first, last in topic["relevant_text_span"]:
            end = min(int(last) + 1, num_turns)
            turn = first_free(min(max(int(first), 0), num_turns))
            while turn < end:
                topic_of_turn[turn] = number, str(topic["topic"])
                free[turn] = turn + 1
                turn = first_free(turn)
    return topic_of_turn


def _displayed(text: str, string: _String) -> MappedText:
    """Return the characters of a string with their source offsets."""
    shown = MappedText()
    for piece in _PIECE.finditer(text, string.start, string.end):
        is_escaped = piece[0][0] == "\\"
        decoded = scanstring(f'{piece[0]}"', 0)[0] if is_escaped else piece[0]
        shown.add(_NOT_TEXT.sub("\ufffd", decoded), *piece.span())
    return shown
