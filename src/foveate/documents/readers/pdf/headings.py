"""Headings and the title: from the outline, or from size, weight, numbering and position."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from foveate.documents.headings import (
    NUMBER_WORDS,
    PART_BEFORE,
    is_bare_part,
    is_contents,
    is_section_key,
    is_title_case,
    letters,
    part_kind,
)
from foveate.documents.readers.pdf.extraction import Bookmark
from foveate.documents.readers.pdf.paragraphs import (
    NUMBERING,
    SECTION_NUMBER,
    TextBlock,
    Typography,
    has_note_mark,
    is_centred,
)
from foveate.documents.words import alternatives, load_words

_WORDS = load_words("headings")
_ADMONITIONS = frozenset(_WORDS["admonitions"])
_THEOREM = re.compile(
    rf"(?:(?:{alternatives(_WORDS['theorems'])})"
    r" (?:[A-Z]|(?:[A-Z]\.)?\d+(?:\.\d+)*)(?: \([^()]*\))?"
    rf"|{alternatives(_WORDS['proofs'])})[.:]?",
    re.I,
)
_RUN_IN = re.compile(rf"^({alternatives(_WORDS['run_in'])})\s*(—|–|-|\.|:|：)\s*(?=\S)", re.I)
_NUMBERED_RUN_IN = re.compile(r"^(?:\d{1,2}|[a-z])\) [^:：]{3,120}[:：]\s*")
_FILE_NAME = re.compile(r"\.\w{2,4}$|^untitled|^microsoft word|^\w+://|^no title", re.I)
_LONE_NUMBER = re.compile(rf"\d{{1,3}}|[IVXLC]{{1,6}}|[A-Z]|{NUMBER_WORDS}", re.I)
_LABELS = ("chapter", "part", "annex")
_LONGEST = 150  # characters of a heading
_TITLE_LENGTH = 250
_PARAGRAPH = 300  # characters
_FIRST_ITEM = re.compile(r"1\.\s.{100,}[.;:]", re.DOTALL)
_CLAUSE = 80  # characters of the title of a clause
_FEWEST_CLAUSES = 5
_SIGNIFICANT = 1.12  # times the usual size


class Style(NamedTuple):
    """How a heading looks."""

    size: float
    is_bold: bool
    is_capital: bool
    is_italic: bool


def style_of(block: TextBlock) -> Style:
    """Return how a block looks."""
    first = block.lines[0]
    lines = block.lines
    if len(lines) > 1 and lines[-1].text[:1] == "(" and lines[-1].text[-1] == ")":
        lines = lines[:-1]  # SECOND CAUSE OF ACTION, and below it: (Negligence)
    letters = [character for line in lines for character in line.text if character.isalpha()]
    cased = [character for character in letters if character.isupper() or character.islower()]
    capital = len(cased) > 3 and sum(map(str.isupper, cased)) > 0.9 * len(cased)
    return Style(block.size, first.bold > 0.6, capital, first.italic > 0.6)


def key_of(title: str) -> str:
    """Return the letters and digits of a title without its numbering, for comparisons."""
    title = title.strip()
    plain = NUMBERING.sub("", title)
    part = PART_BEFORE.match(plain)
    plain = (plain[part.end() :] if part else "") or plain
    return letters(plain) or letters(title)


def mark_headings(
    blocks: list[TextBlock],
    bookmarks: Sequence[Bookmark],
    typography: Typography,
    authors: Sequence[str] = (),
    has_title: bool = True,
) -> None:
    """Set the levels of the blocks that are headings, which the authors' names are not."""
    names = set(map(key_of, authors))
    matched = _match_outline(blocks, bookmarks)
    for block in blocks:
        if id(block) in matched:
            block.level = matched[id(block)]
            block.kind = "prose"
    styles = {style_of(block) for block in blocks if block.level}
    known = sum(1 for bookmark in bookmarks if bookmark.page)
    trusted = known >= 4 and len(matched) > 0.6 * known
    deepest = max((bookmark.level for bookmark in bookmarks), default=0)
    candidates: list[TextBlock] = []
    front = front_matter(blocks, typography) if has_title else 0
    clauses = _find_clauses(blocks)
    for number, block in enumerate(blocks):
        if block.level or block.kind not in ("prose", "item"):
            continue
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        score = _score(block, blocks[number - 1] if number else None, following, typography)
        score += 2.0 if id(block) in clauses else 0.0
        if score < 3.0 or number < front or key_of(block.text) in names:
            continue
        if trusted and (style_of(block) not in styles or block.size < 1.05 * typography.size):
            continue
        candidates.append(block)
    _set_levels(blocks, candidates, trusted, deepest)


def front_matter(blocks: Sequence[TextBlock], typography: Typography) -> int:
    """Return the number of blocks between the title and the text: authors, dates, affiliations."""
    for number, block in enumerate(blocks):
        if block.page != blocks[0].page:
            return number
        text = block.text
        if block.level or is_section_key(key_of(text)) or split_run_in(text):
            return number
        first = block.lines[0]
        is_numbered = _begins_count(text) and text[0] in "1AI§" and not has_note_mark(first)
        if block.kind == "prose" and first.bold > 0.6 and is_numbered:
            return number
        if block.kind == "item" and _FIRST_ITEM.fullmatch(text):  # a numbered paragraph
            return max(number - 1, 0)
        is_long = block.kind == "prose" and len(text) > _PARAGRAPH
        if is_long and block.size > 0.93 * typography.size:
            return max(number - 1, 0)
    return 0


def _match_outline(blocks: Sequence[TextBlock], bookmarks: Sequence[Bookmark]) -> dict[int, int]:
    """Find the blocks that the outline names, and their levels, by identity."""
    by_page: defaultdict[int, list[TextBlock]] = defaultdict(list)
    for block in blocks:
        by_page[block.page].append(block)
    matched: dict[int, int] = {}
    for bookmark in bookmarks:
        key = key_of(bookmark.title)
        if not key or not bookmark.page:
            continue
        best: tuple[float, TextBlock] | None = None
        for page in (bookmark.page, bookmark.page + 1, bookmark.page - 1):
            for block in by_page[page]:
                if id(block) in matched or block.kind in ("table", "footnote", "code"):
                    continue
                found = key_of(block.text) if len(block.text) < 2 * len(bookmark.title) + 40 else ""
                whole = letters(block.text) if found else ""
                if found == key or (whole and whole == letters(bookmark.title)):
                    distance = abs(page - bookmark.page) * 1000.0
                    if bookmark.top is not None:
                        distance += abs(block.lines[0].top - bookmark.top)
                    distance -= 20 * block.size
                    if best is None or distance < best[0]:
                        best = distance, block
            if best:
                break
        if best:
            matched[id(best[1])] = bookmark.level
    return matched


def _find_clauses(blocks: Sequence[TextBlock]) -> set[int]:
    """Return the identities of short numbered lines that count the clauses of a text, as in laws.

    They look alike, are written like titles, and paragraphs are between them.
    """
    chains: dict[Style, list[tuple[int, TextBlock]]] = {}  # that number, after the last
    found: set[int] = set()
    for block, below in pairwise(blocks):
        numbering = NUMBERING.match(block.text)
        if not (numbering and (numbering["numbers"] or "").isdigit()) or len(block.lines) > 2:
            continue
        style = style_of(block)._replace(is_capital=False)
        title = block.text[numbering.end() :].rstrip(".")
        if len(title) > _CLAUSE or not is_title_case(title) or below.kind == "item":
            continue
        number, chain = int(numbering["numbers"]), chains.get(style, [])
        if chain and number == chain[-1][0] + 1:
            chain.append((number, block))
        elif number <= 1:
            chain = chains[style] = [(number, block)]
        if len(chain) >= _FEWEST_CLAUSES:
            found.update(id(member) for _, member in chain)
    return found


def _is_something_else(block: TextBlock) -> bool:
    """Return whether a block cannot be a heading: long, an admonition, a theorem, code, a row."""
    text, first = block.text, block.lines[0]
    return (
        len(text) > _LONGEST
        or len(block.lines) > 4
        or block.skipped > 0
        or len(first.cells) > 1
        or (len(first.cells) == 1 and not NUMBERING.match(text))
        or text.strip(" :!.").casefold() in _ADMONITIONS
        or has_note_mark(first)
        or _THEOREM.fullmatch(text) is not None
        or first.mono > 0.8
        or not any(map(str.isalpha, text))
    )


def _score_style(block: TextBlock, style: Style, typography: Typography) -> float:
    """Return how much the look of a block speaks for a heading."""
    ratio = style.size / typography.size
    score = 0.0
    if ratio >= _SIGNIFICANT:
        score += 3.0 if ratio >= 1.18 else 2.5
    elif ratio >= 1.05:
        score += 1.0
    elif ratio < 0.93:
        score -= 1.0 if style.is_capital or style.is_bold else 2.5
    if style.is_bold and not typography.is_bold:
        score += 2.0
    if style.is_capital:
        score += 1.5
    if style.is_italic:
        score += 0.75
    return score


def _score(
    block: TextBlock, above: TextBlock | None, below: TextBlock | None, typography: Typography
) -> float:
    """Return how strong the evidence is that a block is a heading; 3 is enough."""
    if _is_something_else(block):
        return 0.0
    text, lines = block.text, block.lines
    style = style_of(block)
    score = _score_style(block, style, typography)
    section = SECTION_NUMBER.match(text)
    numbering = section or NUMBERING.match(text)
    if numbering or PART_BEFORE.match(text):
        score += 1.25
        score += 0.75 if is_centred(lines[0]) else 0.0
    if is_section_key(key_of(text)):
        score += 3.0 if is_centred(lines[0]) else 2.0
    apart = above is None or above.lines[-1].frame is not lines[0].frame
    if above is not None and not apart:
        step = lines[0].baseline - above.lines[-1].baseline
        heads = len(above.lines) == 1 and len(above.text) < 80 and NUMBERING.match(above.text)
        apart = step > 1.3 * typography.pitch(lines[0]) or bool(heads)
    score += 1.0 if apart else 0.0
    is_small = style.size < 1.05 * typography.size
    is_plain = is_small and not (style.is_bold or style.is_capital)  # an item of a theorem
    ends = text.endswith((".", ";", ",", ":", "。", "；", "，"))
    if ends and (not numbering or (style.is_italic and is_plain)):
        score -= 2.0
    if text.endswith((",", ";", "-", ":", "：")):
        score -= 1.5
    first = next(character for character in text if character.isalpha())
    if first.islower() and not numbering:
        score -= 2.0
    if below is not None and below.lines[0].frame is lines[0].frame and is_small:
        hang = below.lines[0].left - lines[0].left  # of the text below a term that it explains
        is_outdented = lines[0].left < lines[0].frame.left - 1 and not style.size < typography.size
        score -= 2.0 if hang > 2 * style.size and not is_outdented else 0.0
    if below is None or (block.kind == "item" and not numbering):
        score -= 2.0
    if len(text) > 90:
        score -= 1.0
    words = text[section.end() :] if section else text
    if lines[-1].math > 0.3 or sum(map(str.isalpha, words)) < 0.4 * len(words):
        score -= 2.0
    return score


def tidy_headings(blocks: Sequence[TextBlock]) -> list[TextBlock]:
    """Unite the label of a chapter with its title, and leave out headings of tables of contents."""
    tidied: list[TextBlock] = []
    for number, block in enumerate(blocks):
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        is_label = block.kind == "prose" and _is_label(block.text)
        if is_label and following and following.level and following.page == block.page:
            if not block.text.isalpha():  # not a number in words alone
                following.lines = block.lines + following.lines
                following.text = f"{block.text} {following.text}"
            continue
        if block.level and is_contents(key_of(block.text)):
            continue
        tidied.append(block)
    return tidied


def _is_label(text: str) -> bool:
    """Return whether a text is the number of a chapter: "Chapter 3", "3", "Three"."""
    if _LONE_NUMBER.fullmatch(text):
        return True
    return is_bare_part(text) and part_kind(text) in _LABELS


def _set_levels(
    blocks: Sequence[TextBlock], candidates: Sequence[TextBlock], trusted: bool, deepest: int
) -> None:
    """Set the levels of headings that the outline does not name, by numbering and by style."""
    votes: defaultdict[Style, Counter[int]] = defaultdict(Counter)
    for block in blocks:
        if block.level:
            votes[style_of(block)][block.level] += 1
    if not trusted:
        for block in candidates:
            depth = _depth(block.text)
            if depth:
                votes[style_of(block)][depth] += 1
    styles = sorted(
        {style_of(block) for block in candidates} | set(votes),
        key=lambda style: (-style.size, not style.is_bold, not style.is_capital, style.is_italic),
    )
    has_numbers = any(_depth(block.text) for block in candidates)
    levels: dict[Style, int] = {}
    previous = 0
    for style in styles:
        if votes[style]:
            levels[style] = votes[style].most_common(1)[0][0]
        else:
            levels[style] = deepest + 1 if trusted else previous + 1
        previous = max(levels[style], previous if trusted else 0)
    schemes = [] if trusted else [_scheme(block.text) for block in candidates]
    order = [one for one in ("roman", "letter", "number") if schemes.count(one) > 1]
    is_nested = order[:2] == ["roman", "letter"] and schemes.index("roman") < schemes.index(
        "letter"
    )
    depths = {name: depth for depth, name in enumerate(order, 1)} if is_nested else {}
    part = 0  # the level of the part that sections with the sign § are in
    for block in candidates:
        block.kind = "prose"
        depth = 0 if trusted else depths.get(_scheme(block.text), 0) or _depth(block.text)
        block.level = depth or levels[style_of(block)]
        if not trusted and PART_BEFORE.match(block.text):
            part = block.level
        elif not trusted and block.text.startswith("§"):
            block.level = max(block.level, part + 1)
        if is_section_key(key_of(block.text)) and not (has_numbers or trusted):
            block.level = 1


def _scheme(text: str) -> str:
    """Return what counts a heading: "roman" for II., "letter" for A., "number" for 1.; or ""."""
    found = NUMBERING.match(text)
    if not found or (found["numbers"] and "." in found["numbers"]):
        return ""
    kinds = (("number", "numbers"), ("roman", "roman"), ("letter", "letter"))
    return next((kind for kind, group in kinds if found[group]), "")


def _depth(text: str) -> int:
    """Return the level that a heading's numbering indicates; 0 if it indicates none."""
    found = NUMBERING.match(text)
    if not found:
        return 1 if PART_BEFORE.match(text) else 0
    if numbers := found["numbers"] or found["lettered"]:
        return int(numbers.count(".")) + 1
    return int(found["roman"] is not None)


def split_run_in(text: str, *, is_set_off: bool = False) -> int:
    """Return the length of a heading that a paragraph begins with, such as "Abstract—"; else 0.

    Those with a number, such as "1) Voting: ", have to be set off in italics.
    """
    found = _RUN_IN.match(text) or (_NUMBERED_RUN_IN.match(text) if is_set_off else None)
    return found.end() if found else 0


def find_title(blocks: Sequence[TextBlock], stated: str, typography: Typography) -> list[TextBlock]:
    """Find the blocks of the title: the one that the metadata states, or the largest type.

    They are on the first page, and none if there is no title.
    """
    start = blocks[0].page if blocks else 1
    first = [block for block in blocks if block.page == start and block.kind in ("prose", "item")]
    first = [b for b in first if sum(map(str.isalpha, b.text)) > max(2, 0.4 * len(b.text))]
    first = [
        block
        for block in first
        if not is_section_key(key_of(block.text)) and not is_contents(key_of(block.text))
    ]
    if not first:
        return []
    key = letters(stated)
    for block in first:
        if len(key) > 4 and letters(block.text) == key:
            return [block]
    return _largest(first, typography) or _emphasized(first, typography)


def _largest(first: Sequence[TextBlock], typography: Typography) -> list[TextBlock]:
    """Return the blocks in the largest type, if it is larger than the text and they are short."""
    size = max((block.size for block in first), default=0.0)
    if size < _SIGNIFICANT * typography.size:
        return []
    found: list[TextBlock] = []
    for block in first:
        if block.size > size - 0.6 and (not found or len(found[-1].text) < _TITLE_LENGTH):
            found.append(block)
        elif found:
            break
    if sum(len(block.text) for block in found) > _TITLE_LENGTH or _begins_count(found[0].text):
        return []
    return found


def _emphasized(first: Sequence[TextBlock], typography: Typography) -> list[TextBlock]:
    """Return the first block in bold type above all paragraphs that is as large as their text."""
    above = takewhile(lambda block: len(block.text) <= _TITLE_LENGTH, first)
    return [
        block
        for block in above
        if style_of(block).is_bold
        and block.size > 0.98 * typography.size
        and (len(block.text.split()) > 2 or not block.text.isascii())
        and not _begins_count(block.text)
    ][:1]


def _begins_count(text: str) -> bool:
    """Return whether a text has the number of a section, not a letter as in "R Internals"."""
    found = NUMBERING.match(text)
    return found is not None and not (found["letter"] and text[1] != ".")


def is_title(stated: str) -> bool:
    """Return whether the title in the metadata is one, not the name of a file."""
    return len(stated) > 3 and not _FILE_NAME.search(stated) and any(map(str.isspace, stated))
