"""Plain text: paragraphs between blank lines, and headings recognized by their typography.

A heading is short and has blank lines around it. Five kinds are recognized, and it is better to
miss a heading than to invent one:

- parts of a book: `BOOK ONE: 1805`, `PART II`, `CHAPTER 1. Loomings.`
- by name: `Abstract`, `SECOND EPILOGUE`
- numbered: `1 Introduction`, `2.3.1 Results`, where each number follows from the previous one
- underlined with `===` or `---`
- in CAPITALS, if there are no other headings or a table of contents lists it

A table of contents is left out.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose, lift_title

Line: TypeAlias = tuple[int, int]
"""Start and end of a line in the text, without the whitespace around it."""

_MAX_HEADING = 120  # characters
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
_NUMBER = (
    r"(?:\d{1,3}|[ivxlcdm]{1,9}|(?:the )?(?:" + _ORDINALS + r"|last)|one|two|three|four|five|six|"
    r"seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    r"nineteen|(?:twenty|thirty|forty|fifty)(?:[- ](?:one|two|three|four|five|six|seven|eight|"
    r"nine))?)"
)
_PART = re.compile(
    rf"(volume|book|part|chapter|section|act|scene|canto|letter|article)\s+{_NUMBER}\s*"
    r"(?:[.:–—-]\s*.*|\n.*)?",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    rf"(?:(?:{_ORDINALS}|author['’]s|translator['’]s)\s+)?"
    r"(?:abstract|summary|introduction|introductory|preface|foreword|prologue|epilogue|afterword|"
    r"postscript|dedication|conclusions?|acknowledge?ments|references|bibliography|"
    r"appendix(?: [a-z0-9]{1,3})?)(?:[.:](?: .*)?)?",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3})*)\.?\s+(?=[^\W\d_])")
_CONTENTS = re.compile(r"(?:table of )?contents[.:]?", re.IGNORECASE)
_RULE = re.compile(r"([=~*#-])\1{2,}")
_PAGE = re.compile(r"(?:\s*\.\s*\.[\s.]*|\s{2,}|\t)\d+$")
_NOT_WORD = re.compile(r"[\W_]+")

# Levels of the kinds. Other parts of a book come above these, in the order in which they appear.
_PART_LEVELS = {"chapter": 10, "letter": 10, "section": 11, "scene": 11}
_NUMBERS, _UNDERLINED, _CAPITALS = 20, 40, 50


@dataclass(slots=True)
class _Chunk:
    """The lines between two blank lines, and the kind of heading that they are, if any."""

    lines: list[Line]
    shown: str
    kind: str = ""

    @property
    def is_line(self) -> bool:
        return len(self.lines) == 1 and len(self.shown) <= _MAX_HEADING

    @property
    def key(self) -> str:
        """The words alone, by which headings are compared with a table of contents."""
        return _key(self.shown) if len(self.shown) <= _MAX_HEADING else ""


def read(text: str) -> ParsedText:
    """Read headings and paragraphs."""
    chunks = list(_split(text))
    for chunk in chunks:
        chunk.kind = _kind(chunk)
    _number(chunks)
    contents = _contents(chunks)
    listed = {_key(line) for index in contents for line in chunks[index].shown.split("\n")}
    body = [chunk for index, chunk in enumerate(chunks) if index not in contents]
    _admit_capitals(body, listed)
    return lift_title(list(_ranked(text, body)))


def line_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the lines of each block between blank lines."""
    lines: list[Line] = []
    offset = 0
    for line in text.split("\n"):
        visible = line.strip()
        if visible:
            start = offset + line.find(visible)
            lines.append((start, start + len(visible)))
        elif lines:
            yield lines
            lines = []
        offset += len(line) + 1
    if lines:
        yield lines


def _split(text: str) -> Iterator[_Chunk]:
    """Yield the blocks of the text, with underlined headings as blocks of their own."""
    for lines in line_blocks(text):
        shown = [text[start:end] for start, end in lines]
        if len(lines) > 1 and _underlines(shown[1], shown[0]):
            yield _Chunk(lines[:1], shown[0], kind=shown[1][0])
            lines, shown = lines[2:], shown[2:]
        if any(not _RULE.fullmatch(line.replace(" ", "")) for line in shown):
            yield _Chunk(lines, "\n".join(shown))


def _underlines(rule: str, title: str) -> bool:
    return (
        _RULE.fullmatch(rule) is not None
        and len(title) <= _MAX_HEADING
        and len(title) / 2 <= len(rule)
        and any(character.isalpha() for character in title)
    )


def _kind(chunk: _Chunk) -> str:
    """Return the kind of a heading that can be recognized without its neighbours."""
    shown = chunk.shown
    if len(chunk.lines) > 2 or len(shown) > _MAX_HEADING or not shown[0].isupper():
        return chunk.kind
    if part := _PART.fullmatch(shown):
        return part[1].lower()
    if chunk.is_line and _NAMED.fullmatch(shown):
        return "named"
    return chunk.kind


def _number(chunks: list[_Chunk]) -> None:
    """Mark the numbered headings, whose numbers follow from each other, unless they are a list."""
    numbers = [_numbers(chunk) for chunk in chunks]
    accepted: list[int] = []
    keys: set[str] = set()
    for index, number in enumerate(numbers):
        following = numbers[index + 1] if index + 1 < len(numbers) else ()
        if not number or (following and len(following) <= len(number)):
            continue  # one item of a list, or of a table of contents
        if chunks[index].key in keys:
            accepted, keys = [], set()  # what came before was a table of contents
        if _follows(number, numbers[accepted[-1]] if accepted else ()):
            accepted.append(index)
            keys.add(chunks[index].key)
    if len(accepted) > 1:
        for index in accepted:
            chunks[index].kind = f"numbered {len(numbers[index])}"


def _numbers(chunk: _Chunk) -> tuple[int, ...]:
    """Return the number before a line that may be a heading: (2, 3) for "2.3 Results"."""
    match = _NUMBERED.match(chunk.shown) if chunk.is_line and not chunk.kind else None
    if not match or not chunk.shown[match.end()].isupper() or chunk.shown[-1] in ".,;:!?":
        return ()
    return tuple(int(part) for part in match[1].split("."))


def _follows(number: tuple[int, ...], last: tuple[int, ...]) -> bool:
    *enclosing, final = number
    if tuple(enclosing) == last:  # the first heading, or the first one below the previous one
        return final in (0, 1)
    return tuple(enclosing) == last[: len(enclosing)] and final == last[len(enclosing)] + 1


def _contents(chunks: list[_Chunk]) -> range:
    """Return which chunks are the table of contents: a run of headings that occur again."""
    last_seen = {chunk.key: index for index, chunk in enumerate(chunks) if chunk.key}
    start = 0
    while start < len(chunks):
        announced = _CONTENTS.fullmatch(chunks[start].shown) is not None
        end = start + 1
        if announced or chunks[start].kind:
            end = max(end, _end_of_contents(chunks, start + announced, last_seen))
            entries = chunks[start + announced : end]
            lines = [_key(line) for entry in entries for line in entry.shown.split("\n")]
            num_repeated = sum(last_seen.get(line, 0) >= end for line in lines)
            # Entries may be wrapped or shortened, so some do not occur again.
            min_repeated = len(lines) * (0.5 if announced else 0.8)
            if len(lines) > 2 and num_repeated >= min_repeated:
                return range(start, end)
        start = end
    return range(0)


def _end_of_contents(chunks: list[_Chunk], start: int, last_seen: dict[str, int]) -> int:
    """Return where the run of entries ends; a single other line among them is tolerated."""
    end = start
    first = _key(chunks[start].shown.split("\n")[0][:_MAX_HEADING]) if start < len(chunks) else ""
    for index in range(start, len(chunks)):
        if index > start and first and chunks[index].key == first:
            return index  # the text itself begins
        if _is_entry(chunks[index], index, last_seen):
            end = index + 1
        elif index > end or not chunks[index].is_line:
            return end
    return end


def _is_entry(chunk: _Chunk, index: int, last_seen: dict[str, int]) -> bool:
    if chunk.kind or last_seen.get(chunk.key, 0) > index:
        return True
    lines = chunk.shown.split("\n")
    listed = [
        line for line in lines if len(line) <= _MAX_HEADING and _is_listed(line, index, last_seen)
    ]
    return len(lines) > 1 and len(listed) > len(lines) / 2


def _is_listed(line: str, index: int, last_seen: dict[str, int]) -> bool:
    return last_seen.get(_key(line), 0) > index or _PAGE.search(line) is not None


def _admit_capitals(chunks: list[_Chunk], listed: set[str]) -> None:
    """Mark lines in capitals that the contents list or, if there are no other headings, all."""
    capitals = [chunk for chunk in chunks if not chunk.kind and _is_capitals(chunk)]
    counts = Counter(chunk.key for chunk in capitals)
    has_headings = any(chunk.kind for chunk in chunks)
    for chunk in capitals:
        if any(entry.startswith(chunk.key) for entry in listed):
            chunk.kind = "named"
        elif not has_headings and len(counts) > 1 and counts[chunk.key] == 1:  # not a running title
            chunk.kind = "capitals"


def _is_capitals(chunk: _Chunk) -> bool:
    return (
        chunk.is_line
        and chunk.shown.isupper()
        and sum(character.isalpha() for character in chunk.shown) > 3
        and chunk.shown[0].isalnum()
        and chunk.shown[-1] not in ",;:!?"
    )


def _ranked(text: str, chunks: list[_Chunk]) -> Iterator[Block]:
    """Yield paragraphs, and headings with the level that their kind has in this text."""
    levels = _levels([chunk.kind for chunk in chunks if chunk.kind])
    for chunk in chunks:
        if chunk.kind:
            yield Heading(levels[chunk.kind], chunk.shown)
        else:
            yield Prose(MappedText.from_source(text, chunk.lines[0][0], chunk.lines[-1][1]))


def _levels(kinds: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for kind in kinds:
        if kind == "capitals":
            level = _CAPITALS
        elif kind.startswith("numbered"):
            level = _NUMBERS + int(kind.split()[1])
        elif len(kind) == 1:
            level = _UNDERLINED + sum(len(other) == 1 for other in levels)
        else:
            level = _PART_LEVELS.get(kind, len(levels))
        if kind != "named":
            levels.setdefault(kind, level)
    levels["named"] = min(levels.values(), default=0)
    return levels


def _key(line: str) -> str:
    return _NOT_WORD.sub("", _PAGE.sub("", line)).casefold() or _NOT_WORD.sub("", line)
