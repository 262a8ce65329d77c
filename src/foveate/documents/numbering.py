"""Headings that share a paragraph with their text, or are numbers alone, told by their numbers.

They are those of contracts and court opinions: "2.1 Notices. Notices must be in writing.", and "I"
with "A" and "B" below it. Plain text, PDF, web pages and word processors' files have them, because
their authors number paragraphs by hand; other formats mark what is a heading.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from foveate.documents.blocks import Block, Heading, ParsedText, Prose, collapse
from foveate.documents.headings import (
    LAW_PARTS_PATTERN,
    SMALL_WORDS,
    is_name,
    is_part,
    long_words,
)
from foveate.documents.numerals import roman_number
from foveate.documents.sentences import split_sentences

_NUMBER = re.compile(
    rf"\s*(?:(?:(?P<word>(?i:{LAW_PARTS_PATTERN}))\s+|(?P<sign>§)\s*)(?:(?P<roman>[IVXLC]{{1,7}})\b|(?=\d)))?"
    r"(?(roman)|(?P<number>\d{1,3}(?:\.\d{1,3}){0,4}))(?P<stop>\.?)[\s:–—-]+(?=[^\W\d_]|[\"“„«(\[])"
)
_TITLE = re.compile(
    r"(\w[^.:!?]{2,90}?)\s?(?:[.:](?:\s*[–—-]{1,2})?\s+(?=[^\W\d_a-z]|[\"“„«(\[])|[.]\s*\Z)"
)
_KINDS = ("prose", "item")
_LINE = re.compile(  # above the text of a section or an article
    rf"((?i:{LAW_PARTS_PATTERN})\s+(?:\d{{1,4}}(?:\.\d{{1,3}})*|[IVXLC]{{1,7}})[.:–—-]{{0,2}}"
    r"(?:[ \t]+[^\W\d_a-z][^.:;!?\n]{2,80})?)\n(?=[^\W\d_a-z])"
)
_FEWEST = 3  # clauses with a title, or
_FEWEST_NAMED = 2  # sections and articles
_SHARE = 0.5  # of the clauses that have a title, and of the text that numbered clauses make up
_MAX_STEP = 2  # from one number to the next
_MAX_TITLE = 100  # characters


@dataclass(slots=True)
class _Clause:
    """A block that begins with a number."""

    index: int  # of the block
    word: str  # what the number counts, such as "section"; empty if the text does not say
    number: tuple[int, ...]  # from the outside in
    end: int  # where the heading ends in the block's text
    begin: int  # where the text begins; its length if the block is a heading alone
    is_titled: bool  # whether there is a title behind the number

    @property
    def kind(self) -> tuple[str, int]:
        """What clauses that are numbered together have in common."""
        return self.word, len(self.number)


def find_numbered(parsed: ParsedText) -> ParsedText:
    """Separate the headings of numbered clauses from their texts, if most of these have a title.

    A clause without a title, among others that have one, is headed by its number.
    """
    blocks: Sequence[Block] = parsed.blocks
    counted = _in_sequence(_numbered(blocks))
    found: list[_Clause] = []
    by_kind: defaultdict[tuple[str, int], list[_Clause]] = defaultdict(list)
    for clause in counted:
        by_kind[clause.kind].append(clause)
    is_found = False
    for (word, depth), clauses in by_kind.items():
        run_in = [one for one in clauses if isinstance(blocks[one.index], Prose)]
        titled = [one for one in run_in if one.is_titled]
        if not titled or len(titled) < _SHARE * len(run_in):
            continue
        if word or depth > 1 or _make_up_document(blocks, clauses):
            found += [_with_title(clause, blocks) for clause in run_in]
            is_found |= len(titled) >= (_FEWEST_NAMED if word else _FEWEST)
    if not is_found:
        return parsed
    title, blocks = parsed.title, _divided(blocks, [*found, *_enclosing(blocks, found)])
    if not title and _is_title(blocks):
        title, blocks = collapse(blocks[0].text), blocks[1:]
    return replace(parsed, title=title, blocks=blocks)


def _numbered(blocks: Sequence[Block]) -> Iterable[_Clause]:
    """Yield the blocks that begin with a number, headings included."""
    for index, block in enumerate(blocks):
        is_heading = isinstance(block, Heading)
        if isinstance(block, Prose) and (block.kind not in _KINDS or block.speaker):
            continue
        text = str(block.text)
        match = _NUMBER.match(text)
        if match is None:
            continue
        number = _value(match)
        word = _word(match)
        if len(number) == 1 and not word and not match["stop"] and not is_heading:
            continue  # 12 people came
        line = None if is_heading else _LINE.match(text)
        title = None if is_heading else _title(text, match.end())
        is_wrapped = title is not None and text[match.end() : title[0]].isupper()
        if line and not is_wrapped and text.rstrip().endswith((".", ";", ":", "؛")):
            title = line.end(1), line.end()
        before = text[: match.end()].rstrip(" \t\n\xa0.:–—-")
        end, begin = title or (len(before), match.end())
        yield _Clause(index, word, number, end, begin, title is not None)


def _word(match: re.Match[str]) -> str:
    """Return what the number of a block counts; empty if the text does not say."""
    return match["sign"] or (match["word"] or "").lower()


def _value(match: re.Match[str]) -> tuple[int, ...]:
    """Return the number that a block begins with, from the outside in."""
    if match["roman"]:
        return (roman_number(match["roman"]),)
    return tuple(map(int, match["number"].split(".")))


def _title(text: str, start: int) -> tuple[int, int] | None:
    """Return where the title that starts there ends and its text begins; None if there is none."""
    match = _TITLE.match(text, start)
    if match is None or not _reads_like_title(match[1]):
        return None
    if match.end() < len(text) and not _is_sentence(text, start, match):
        return None
    return match.end(1), match.end()


def _is_sentence(text: str, start: int, title: re.Match[str]) -> bool:
    """Return whether a title ends as sentences do, not like an abbreviation: Acme Inc. The."""
    if text[title.end(1)] != "." or text[title.end()] == "(":
        return True
    ends = {end for _, end in split_sentences(text[start : title.end() + _MAX_TITLE])}
    return title.end(1) + 1 - start in ends


def _reads_like_title(words: str) -> bool:
    """Return whether all words begin in capitals, except small ones."""
    capitals = [word for word in long_words(words) if not SMALL_WORDS.fullmatch(word)]
    return (
        words[:1].isupper()
        and len(words) <= _MAX_TITLE
        and words[-1] not in ",;:!?"
        and bool(capitals)
        and not any(word[0].islower() for word in capitals)
    )


def _in_sequence(clauses: Iterable[_Clause]) -> list[_Clause]:
    """Return the clauses whose numbers follow from those before them."""
    found: list[_Clause] = []
    last: dict[tuple[str, tuple[int, ...]], int] = {}  # by what encloses the number
    for clause in clauses:
        *enclosing, own = clause.number
        key = clause.word, tuple(enclosing)
        step = own - last.get(key, 0)
        # Sections and articles may have any numbers that increase.
        if own <= 1 or (step > 0 if clause.word else key in last and 0 < step <= _MAX_STEP):
            last[key] = own
            found.append(clause)
    return found


def _with_title(clause: _Clause, blocks: Sequence[Block]) -> _Clause:
    """Return a clause, all of which is a title if it reads like one and has no text."""
    text = str(blocks[clause.index].text)
    if clause.is_titled or not _reads_like_title(text[clause.begin :].strip()):
        return clause
    return replace(clause, end=len(text), begin=len(text))


def _enclosing(blocks: Sequence[Block], clauses: Iterable[_Clause]) -> Iterable[_Clause]:
    """Yield the lines that are the titles of the clauses that follow them: "2. NOTICES", 2.1."""
    for clause in clauses:
        above = blocks[clause.index - 1] if clause.index else None
        if not isinstance(above, Prose) or clause.number[1:] != (1,) or above.kind not in _KINDS:
            continue
        text = str(above.text).strip()
        match = _NUMBER.match(text)
        number, end = clause.number[:1], len(str(above.text))
        if match and _value(match) == number and _reads_like_title(text[match.end() :]):
            yield _Clause(clause.index - 1, clause.word, number, end, end, is_titled=True)


def _make_up_document(blocks: Sequence[Block], clauses: Sequence[_Clause]) -> bool:
    """Return whether clauses that are numbered 1, 2, 3 are the document rather than a list in it.

    Their numbers leave none out and begin again only in another part, all headings among them are
    parts or numbered, too, and with what follows up to the next heading they fill most of the
    document.
    """
    first, last = clauses[0].index, clauses[-1].index
    numbers = {one.index: one.number[0] for one in clauses}
    expected = {1}
    for index in range(first, last + 1):
        block = blocks[index]
        if index in numbers:
            if numbers[index] not in expected:
                return False
            expected = {numbers[index] + 1}
        elif isinstance(block, Heading) and _NUMBER.match(block.text) is None:
            if not is_part(block.text) and not is_name(block.text):
                return False
            expected.add(1)
    lengths = [len(str(block.text)) for block in blocks]
    after = range(last + 1, len(blocks))
    end = next((index for index in after if isinstance(blocks[index], Heading)), len(blocks))
    return sum(lengths[first:end]) > _SHARE * sum(lengths)


def _divided(blocks: Sequence[Block], clauses: Iterable[_Clause]) -> list[Block]:
    """Return the blocks with clauses divided into headings and texts."""
    known = {clause.index: clause for clause in clauses}
    outermost = min(len(clause.number) for clause in known.values())
    divided: list[Block] = []
    levels = _levels(blocks)
    above, depth, word = 0, outermost - 1, ""  # the level and the number of the last heading
    for index, block in enumerate(blocks):
        clause = known.get(index)
        if isinstance(block, Heading):
            number = _NUMBER.match(block.text)
            above = block.level
            depth = len(_value(number)) if number else outermost - 1
            word = _word(number) if number else ""
        if clause is None or not isinstance(block, Prose):
            divided.append(block)
            continue
        if clause.word != word:  # sections are below articles
            depth, word = outermost - 1, clause.word
        above = levels.get(clause.kind) or max(above + len(clause.number) - depth, 1)
        depth = len(clause.number)
        shown = str(block.text)
        divided.append(Heading(above, collapse(shown[: clause.end])))
        if shown[clause.begin :].strip():
            text = block.text.part(clause.begin, len(shown))
            divided.append(replace(block, text=text, kind="prose"))
    return divided


def _levels(blocks: Sequence[Block]) -> dict[tuple[str, int], int]:
    """Return the levels of the headings that have numbers, by their kinds as of clauses."""
    levels: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for block in blocks:
        if isinstance(block, Heading) and (number := _NUMBER.match(block.text)):
            levels[_word(number), len(_value(number))][block.level] += 1
    return {kind: counts.most_common(1)[0][0] for kind, counts in levels.items()}


def _is_title(blocks: Sequence[Block]) -> bool:
    """Return whether the first block reads like the title of what follows."""
    first = str(blocks[0].text).strip()
    return (
        isinstance(blocks[0], Prose)
        and blocks[0].kind == "prose"
        and len(blocks) > 1
        and len(first) <= _MAX_TITLE
        and first[:1].isupper()
        and first[-1] not in ".,;:!?"
        and (first.isupper() or first.istitle())
    )
