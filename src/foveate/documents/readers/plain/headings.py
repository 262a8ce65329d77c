"""Headings of plain text, recognized by their words, numbers and typography."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise

from foveate.documents.headings import (
    CHINESE_NUMBER,
    END_OF_SENTENCE,
    PART_WORDS_PATTERN,
    SMALL_WORDS,
    heading_kind,
    is_bare_part,
    is_part,
    is_title_case,
)
from foveate.documents.numerals import number_values
from foveate.documents.readers.plain.lines import Chunk, prevailing_indent, text_indents

_NUMBERED = re.compile(
    r"(\d{1,3}(?:\.\d{1,3})*|[A-Z](?=\.)(?:\.\d{1,3})*|[IVXLC]{2,7}(?=\.))\.?\s+(?=[^\W\d_]|[/\"“„«「])"
)
_NUMBER_BEFORE = re.compile(
    rf"\W*(?:(?:(?:{PART_WORDS_PATTERN})\s+)?(?:\d{{1,3}}(?:\.\d{{1,3}})*|[A-Z](?:\.\d{{1,3}})+|[A-Z](?=[.:])|"
    r"[IVXLCivxlc]{1,7}(?=[.:]))[.:)]?\s+"
    rf"|{CHINESE_NUMBER}\w[\s　：:、.．]+)(?=\S)",
    re.IGNORECASE,
)
_NUMBERED_LINE = re.compile(r"(?:\W\s+)?(?:\d{1,3}(?:\.\d{1,3})*\.?|[A-Z]\.(?:\d{1,3}\.?)*+)\s+\S")
_PAGE = re.compile(
    r"(?:\s*\.\s*\.[\s.]*|\s*…[\s…]*|\s{2,}|\t)\d+$"
    r"|(?:(?:\s*\.){3,}\s*|\s*…[\s…]*|\s{4,}|\t)[ivxlc]{1,7}$",
    re.IGNORECASE,
)
_MOST = 0.6  # of the headings of parts
_MAX_GAP = 200  # characters between an entry and its page
_NOT_WORD = re.compile(r"[\W_]+")
_WITH_NUMBER = "#"  # before the words of headings that have a number
_MAX_WRAPPED = 4  # lines of a heading that the table of contents lists
_IMPRINT = re.compile(r"^v(?:ersion\b|\d)|©|copyright|https?:|\b(?:19|20)\d\d$", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"[IVXLC]{1,7}|[A-Z]")  # whose depth follows from the other numbers

# Levels of the kinds. Other parts of a book come above these, in the order in which they appear.
_PART_LEVELS = {"chapter": 10, "letter": 10, "annex": 10, "section": 12, "scene": 12}
_NESTING_PARTS = ("part", "title", "article")
_BOOK_PARTS = ("volume", "book", "chapter", "letter", "act", "scene", "canto")
_PARAGRAPHS, _NUMBERS, _UNDERLINED, _CAPITALS, _INDENTED = 15, 20, 40, 50, 60


def mark_parts(chunks: Iterable[Chunk]) -> None:
    """Mark the headings that can be recognized without their neighbours."""
    for chunk in chunks:
        is_short = len(chunk.lines) <= 2 and len(chunk.parts) == 1 and len(chunk.shown) <= 120
        if not chunk.heading and is_short and not chunk.shown[0].islower():
            chunk.heading = heading_kind(chunk.shown, is_line=chunk.is_line)


def mark_listed(chunks: Sequence[Chunk], listed: set[str]) -> None:
    """Mark the lines that the table of contents lists, unless they recur, such as "Note"."""
    candidates = [
        (chunk, heading_key(chunk.shown))
        for chunk in chunks
        if not chunk.heading and len(chunk.parts) == 1 and len(chunk.parts[0]) <= _MAX_WRAPPED
    ]
    counts = Counter(key for chunk, key in candidates if not has_number(chunk.shown))
    for chunk, key in candidates:
        number = _NUMBERED.match(chunk.shown)
        is_item = chunk.is_list and not number  # which has the name of a section
        if listed_key(chunk.shown) in listed and not is_item and chunk.shown[-1] not in ",;":
            if number:
                chunk.heading = f"numbered {number[1].count('.') + 1}"
            elif counts[key] < 3:
                chunk.heading = "named"


def mark_numbered(chunks: Sequence[Chunk]) -> None:
    """Mark the numbered headings, whose numbers follow from each other, unless they are a list."""
    for chunk in chunks:
        if len(chunk.heading) == 1 and (match := _NUMBERED.match(chunk.shown)):  # underlined
            chunk.heading = f"numbered {match[1].count('.') + 1}"
    last: dict[str, tuple[int, ...]] = {}  # number by its script
    accepted: dict[str, list[tuple[int, int]]] = {}  # indices of chunks, with depths
    numbers = [_numbers(chunk) for chunk in chunks]
    in_list: dict[str, int] = {}  # index of the last item of a list
    for index, chunk in enumerate(chunks):
        if chunk.heading and not chunk.heading.startswith("numbered"):
            if chunk.heading not in ("named", "capitals"):
                last.pop("arabic", None)  # numbers begin again in each chapter
                if (match := re.search(r"\d+", chunk.shown)) and len(match[0]) < 4:
                    last["arabic"] = (int(match[0]),)  # or they continue the chapter's: 3.1
            continue
        if not numbers[index]:
            continue
        following = numbers[index + 1] if index + 1 < len(chunks) else {}
        for script, number in numbers[index].items():
            then = following.get(script, ())
            is_item = bool(then) and len(then) <= len(number)
            if (is_item or in_list.get(script) == index - 1) and not chunk.heading:
                in_list[script] = index
                continue
            if chunk.heading or _follows(number, last.get(script, ())):
                last[script] = number
                first = next((one for one in accepted if one != "roman"), "")
                if script == "roman" or (script == first == "letter"):
                    last.pop("arabic", None)
                if script == "roman" or (script == "arabic" and first != "letter"):
                    last.pop("letter", None)
                accepted.setdefault(script, []).append((index, len(number)))
                break
    accepted = {script: found for script, found in accepted.items() if len(found) > 1}
    for script, found in accepted.items():
        below = int("roman" in accepted and script != "roman")
        other = {"letter": "arabic", "arabic": "letter"}.get(script, "")
        if other in accepted:
            below += _depth_around(found, accepted[other])
        for index, depth in found:
            chunks[index].heading = f"numbered {depth + below}"


def _depth_around(inner: Sequence[tuple[int, int]], outer: Sequence[tuple[int, int]]) -> int:
    """Return the depth of the headings that others divide: 1, 2, A, B, 3, A or A, 1, 2, B, 1.

    It is 0 if the others come first, or after all of them, as those of appendices do. Each heading
    is given by its index and depth.
    """
    first, _ = inner[0]
    if not any(index > first and depth == 1 for index, depth in outer):
        return 0
    before = [bisect_left(outer, (index, 0)) for index, _ in inner]
    return max(outer[count - 1][1] for count in before) if before[0] else 0


def _numbers(chunk: Chunk) -> dict[str, tuple[int, ...]]:
    """Return the number before a line that may be a heading, as it reads in each script.

    "2.3 Results" has the number (2, 3), and "C. Results" either 3 or 100.
    """
    shown = chunk.shown
    listed = chunk.heading.startswith("numbered")
    match = _NUMBERED.match(shown) if listed or (chunk.is_line and not chunk.heading) else None
    if not match or not (listed or _is_numbered_title(shown, match)):
        return {}
    first, *rest = match[1].split(".")
    below = tuple(map(int, rest))
    return {
        script: (value, *below)
        for script, value in number_values(first).items()
        if not (below and script == "roman")
    }


def _is_numbered_title(shown: str, number: re.Match[str]) -> bool:
    """Return whether a line reads like a numbered title rather than a numbered sentence."""
    title = shown[number.end() :]
    if title[0].islower():
        return False
    if title[-1] == "?":
        return "." in number[1]
    if title[-1] == "." and shown[number.end(1)] == ".":  # 3. Rights of Others.
        long_words = (word for word in title.split() if len(word) > 3)
        words = [word for word in long_words if not SMALL_WORDS.fullmatch(word)]
        return len(title) <= 80 and bool(words) and all(word[0].isupper() for word in words)
    return title[-1] not in END_OF_SENTENCE


def _follows(number: tuple[int, ...], last: tuple[int, ...]) -> bool:
    *enclosing, final = number
    if not last and set(number) <= {0, 1}:  # 1.1 may be the first
        return True
    if tuple(enclosing) == last:  # the first heading, or the first one below the previous one
        return final in (0, 1)
    if tuple(enclosing) != last[: len(enclosing)] or len(number) > len(last):
        return False
    # A section may be missed or left out, but a lone number is followed only by the next one.
    return 0 < final - last[len(enclosing)] <= (2 if enclosing else 1)


def mark_apart(chunks: Iterable[Chunk], starts: Container[int]) -> None:
    """Mark the lines that start there, which stand apart in a text without blank lines."""
    for chunk in chunks:
        if not chunk.heading and chunk.is_line and chunk.lines[0].start in starts:
            chunk.heading = "named"


def mark_by_typography(chunks: Sequence[Chunk], listed: set[str]) -> None:
    """Mark lines that stand out by their position: less indented than the text.

    Lines in capitals are headings if the contents list them, or if there are no other headings or
    at least half of them are in capitals, too, as long as it is no book.
    """
    base = prevailing_indent(chunks)
    for chunk in chunks:
        if chunk.heading == "label":
            chunk.heading = "capitals" if base >= 3 else ""  # else the term of a definition
    first = next((index for index, chunk in enumerate(chunks) if chunk.heading), 0)
    _mark_indented(chunks[first:], base)  # what comes before other headings is a title page
    capitals = [chunk for chunk in chunks if not chunk.heading and _is_capitals(chunk)]
    counts = Counter(heading_key(chunk.shown) for chunk in capitals)
    kinds = {chunk.heading for chunk in chunks}
    others = [
        chunk.shown.isupper() for chunk in chunks if chunk.heading.startswith(("num", "named"))
    ]
    in_capitals = 2 * sum(others) >= len(others) > 0 and kinds.isdisjoint(_BOOK_PARTS)
    alone = kinds == {""} and len(counts) > 1
    entries = sorted(entry.removeprefix(_WITH_NUMBER) for entry in listed)
    for chunk in capitals:
        key = heading_key(chunk.shown)
        first = bisect_left(entries, key)  # which may be shortened in the text
        if first < len(entries) and entries[first].startswith(key):
            chunk.heading = "named"
        elif (in_capitals or alone) and counts[key] == 1:  # not a running title
            chunk.heading = "capitals"


def join_titles(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Join the headings of parts with the titles below them: "CHAPTER I" and "The Roman Shore".

    A title that is not marked as a heading is one if most of these headings have one.
    """
    bare = [
        index
        for index, chunk in enumerate(chunks[:-2])
        if chunk.heading and is_bare_part(chunk.shown)
    ]
    plain = [
        index
        for index in bare
        if not chunks[index + 1].heading
        and _is_title_like(chunks[index + 1])
        and is_title_case(chunks[index + 1].shown)
    ]
    titled = {
        index
        for index in bare
        if chunks[index + 1].heading in ("named", "capitals")
        and not is_part(chunks[index + 1].shown)
    }
    if len(plain) > 1 and len(plain) + len(titled) > _MOST * len(bare):
        titled.update(plain)
    joined: list[Chunk] = []
    for index, chunk in enumerate(chunks):
        if index in titled:
            title = chunks[index + 1]
            shown = f"{chunk.shown}\n{title.shown}"
            joined.append(Chunk([[*chunk.lines, *title.lines]], shown, heading=chunk.heading))
        elif index - 1 not in titled:
            joined.append(chunk)
    return joined


def _mark_indented(chunks: Sequence[Chunk], base: int) -> None:
    indents = text_indents(chunks)
    outdented: list[Chunk] = []
    for chunk, following in pairwise(chunks):
        if chunk.heading or not _is_title_like(chunk):
            continue
        # Else text is indented like this, too.
        is_rare = 10 * indents[chunk.indent] < indents[base]
        if chunk.indent < base and following.indent > chunk.indent and is_rare:
            outdented.append(chunk)
    if len(outdented) > 1:
        for chunk in outdented:
            chunk.heading = f"indented {chunk.indent}"


def _is_title_like(chunk: Chunk) -> bool:
    shown = chunk.shown
    return (
        chunk.is_line
        and not chunk.is_list
        and len(shown) <= 80
        and (shown[0].isupper() or shown[0] in '"“„«「' or not shown[0].isascii())
        and not shown[0].islower()
        and shown[-1] not in END_OF_SENTENCE[:5] + "。，；：！"
        and any(character.isalpha() for character in shown)
        and _BARE_NUMBER.fullmatch(shown) is None
        and _IMPRINT.search(shown) is None
    )


def _is_capitals(chunk: Chunk) -> bool:
    return (
        chunk.is_line
        and chunk.shown.isupper()
        and sum(map(str.isalpha, chunk.shown)) < 2 * sum(map(str.isupper, chunk.shown))
        and sum(map(str.isupper, chunk.shown)) > 3
        and chunk.shown[0].isalnum()
        and chunk.shown[-1] not in ",;:!?"
    )


def levels_of(kinds: Iterable[str]) -> dict[str, int]:
    """Return the level of each kind of heading that a text has, in the order of its headings."""
    found = list(kinds)
    levels: dict[str, int] = {}
    for kind in found:
        if kind in levels or kind == "named":
            continue
        name, _, number = kind.partition(" ")
        if name == "numbered":
            level = _NUMBERS + int(number)
        elif name == "indented":
            level = _INDENTED + int(number)
        elif kind in ("=", "~", "*", "#", "_", "-"):
            level = _UNDERLINED + sum(len(other) == 1 and other != "§" for other in levels)
        else:
            fixed = {"§": _PARAGRAPHS, "capitals": _CAPITALS}
            level = (_PART_LEVELS | fixed).get(kind, len(levels))
            if kind == "part" and "annex" in levels:  # schedules may have parts
                level = levels["annex"] + 1
            elif kind in _NESTING_PARTS:
                level = _level_below(kind, found, levels) or level
        levels[kind] = level
    annex = levels.pop("annex", None)
    is_inside = annex is not None and levels.get("part") == annex + 1
    outer = [level for kind, level in levels.items() if not (is_inside and kind == "part")]
    levels["named"] = min(outer, default=annex or 0)
    if annex is not None:  # an appendix is on the level of what it follows
        levels["annex"] = levels["named"]
        if is_inside:
            levels["part"] = levels["named"] + 1
    return levels


def _level_below(kind: str, found: Sequence[str], levels: Mapping[str, int]) -> int | None:
    """Return the level below chapters or sections of parts that are more numerous than these.

    The articles of a statute are in its chapters and sections; those of a contract hold sections.
    """
    counts = Counter(found)
    for above in ("section", "chapter"):
        is_known = above in levels or kind == "article"
        if is_known and 0 < counts[above] < counts[kind]:
            return _PART_LEVELS[above] + 1
    return None


def heading_key(line: str) -> str:
    """Return the words alone, by which headings are compared with a table of contents."""
    line = _without_page(line)
    number = _NUMBER_BEFORE.match(line)
    title = _NOT_WORD.sub("", line[number.end() :] if number else line).casefold()
    return title or numbered_key(line)


def listed_key(line: str) -> str:
    """Return the words by which a line is looked up in a table of contents.

    A line without a number is not the heading that is listed with one.
    """
    key = heading_key(line)
    return key if key == numbered_key(line) else _WITH_NUMBER + key


def numbered_key(line: str) -> str:
    """Return the words of a heading and its number."""
    return _NOT_WORD.sub("", _without_page(line)).casefold()


def has_number(line: str) -> bool:
    """Return whether a line begins with a number, as headings and their entries do."""
    return _NUMBERED_LINE.match(line) is not None


def has_page(line: str) -> bool:
    """Return whether a line ends in a page number, after dots or a gap."""
    return _page(line) is not None


def _without_page(line: str) -> str:
    page = _page(line)
    return line[: page.start()] if page else line


def _page(line: str) -> re.Match[str] | None:
    """Find the page number that a line ends in, after a gap that fits on a line."""
    before = line.rstrip("0123456789") if line[-1:].isdigit() else line.rstrip("ivxlcIVXLC")
    if len(before) == len(line):
        return None
    gap = max(len(before.rstrip(" \t.…")), len(before) - _MAX_GAP)
    return _PAGE.search(line, gap)
