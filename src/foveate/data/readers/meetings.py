"""Meetings of AMI and ICSI, in NXT's XML, in which words, segments and summaries stand apart."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from foveate.data.example import Example
from foveate.data.records import Record
from foveate.documents import Document

_ID = "{http://nite.sourceforge.net/}id"
_CHILD = "{http://nite.sourceforge.net/}child"
_RANGE = re.compile(r"([^#]+)#id\(([^)]+)\)(?:\.\.id\(([^)]+)\))?")


def read_meetings(folder: Path) -> Iterator[tuple[str, Record]]:
    """Read the meetings that have a summary: a folder with the corpus's folders, as published.

    Raises:
        FileNotFoundError: The folder holds no summary.
        ValueError: A file is not well-formed XML.
    """
    summaries = sorted(folder.rglob("*.abssumm.xml"))
    if not summaries:
        raise FileNotFoundError(
            f"{folder} holds no summaries (*.abssumm.xml): name the folder of the annotations"
        )
    segments = sorted([*folder.rglob("*.segments.xml"), *folder.rglob("*.segs.xml")])
    words = {path.name: path for path in folder.rglob("*.words.xml")}
    for summary in summaries:
        meeting = summary.name.removesuffix(".abssumm.xml")
        own = [path for path in segments if path.name.startswith(f"{meeting}.")]
        turns = [turn for path in own for turn in _turns(path, words)]
        sentences = (" ".join("".join(x.itertext()).split()) for x in _parse(summary, "sentence"))
        yield (
            str(summary),
            {
                "id": meeting,
                "turns": [turn for _, turn in sorted(turns, key=lambda turn: turn[0])],
                "summary": " ".join(filter(None, sentences)),
            },
        )


def meeting_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a meeting of AMI (McCowan et al., 2005) or ICSI (Janin et al., 2003).

    Turns are the segments of all speakers by the time at which they begin. The summary is all of
    the abstractive one: abstract, actions or progress, decisions and problems.
    """
    turns = json.dumps({"turns": record["turns"]})
    yield Example(
        id=record["id"],
        document=Document.from_text(turns, format="json"),
        references=(record["summary"],),
    )


def _turns(path: Path, words: dict[str, Path]) -> Iterator[tuple[float, dict[str, str]]]:
    """Yield the segments of one speaker that have words, each with the time of its beginning."""
    spoken: dict[str, dict[str, str]] = {}
    for segment in _parse(path, "segment"):
        text = ""
        for child in segment.iter(_CHILD):
            if (found := _RANGE.fullmatch(child.get("href", ""))) and found[1] in words:
                if found[1] not in spoken:
                    spoken[found[1]] = _tokens(words[found[1]])
                tokens = spoken[found[1]]
                ids = list(tokens)
                end = ids.index(found[3] or found[2]) + 1
                text += "".join(tokens[token] for token in ids[ids.index(found[2]) : end])
        if text.strip():
            start = segment.get("transcriber_start") or segment.get("starttime") or "0"
            speaker = segment.get("participant") or path.name.split(".")[1]
            yield float(start), {"speaker": speaker, "text": text.strip()}


def _tokens(path: Path) -> dict[str, str]:
    """Return what is said by the id of its element, with the space before it."""
    tokens = {}
    for element in _parse(path):
        text = (element.text or "").strip() if element.tag == "w" else ""
        joined = text.startswith("'") or not any(map(str.isalnum, text))  # as a comma, and 's
        tokens[element.get(_ID, "")] = text if joined else f" {text}"
    return tokens


def _parse(path: Path, tag: str | None = None) -> Iterator[ElementTree.Element]:
    content = path.read_bytes()
    if b"<!ENTITY" in content:
        raise ValueError(f"{path} declares its own entities")
    try:
        return ElementTree.fromstring(content).iter(tag)
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is not well-formed XML: {error}") from error
