"""Meetings in JSON: QMSum as published, or an object with "turns" and "topics"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose, compose_text
from foveate.documents.readers.speech.fillers import clean
from foveate.documents.structure import DocumentError


def read(data: Mapping[str, Any]) -> ParsedText:
    """Read each turn as a paragraph and each topic as a section.

    What `speech.clean` finds to be without content is left out. Turns without a topic form untitled
    sections. A turn that belongs to two topics goes to the first. The place of a turn is its
    number, from 1.
    """
    try:
        blocks, language = clean(list(_blocks(data)))
        return replace(compose_text(None, blocks), language=language)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DocumentError(
            'is JSON, but not a meeting ("turns" with "speaker" and "text", and "topics"): convert '
            "it to this form."
        ) from error


def _blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    turns = data["turns"] if "turns" in data else data["meeting_transcripts"]
    topics = data.get("topics") or data.get("topic_list") or []
    current = None
    for index, (turn, topic) in enumerate(zip(turns, _topics(topics, len(turns)), strict=True)):
        if topic != current or (index == 0 and topics):
            yield Heading(1, "" if topic is None else str(topics[topic]["topic"]))
            current = topic
        text = turn["text"] if "text" in turn else turn["content"]
        shown = MappedText.from_text(text)
        yield Prose(shown, str(turn["speaker"]).strip() or None, place=f"turn {index + 1}")


def _topics(topics: Sequence[Mapping[str, Any]], num_turns: int) -> list[int | None]:
    """Return the number of the topic of each turn, the first of several; None without one."""
    found: list[int | None] = [None] * num_turns
    for number, topic in reversed(list(enumerate(topics))):
        for first, last in topic["relevant_text_span"]:
            turns = range(num_turns)[max(int(first), 0) : max(int(last) + 1, 0)]
            found[turns.start : turns.stop] = [number] * len(turns)
    return found
