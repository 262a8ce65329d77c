"""Lines of plain text, and the blocks between blank lines: paragraphs and lists."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import NamedTuple

from foveate.documents.blocks import MappedText
from foveate.documents.words import alternatives, load_words

MAX_HEADING = 120  # characters

ENTRY = re.compile(r"\[[^\]\n]{1,20}\]\s|\d{1,3}\.\s")
"""The mark with which an entry of a bibliography may begin."""

RULE = re.compile(r"([=~*#_-])(?: *\1){2,}")

# Bullets need a space after them. A letter o is a bullet of RFCs only before two spaces.
_MARKER = re.compile(
    r"(?:(?P<bullet>[*•‣◦▪●○■□➢✓–+-]|o(?=  ))"
    r"|\(?(?P<number>\d{1,3}|[a-z]|[ivxlc]{2,6})[.)]|\((?P<letter>[A-Z])\))\s+(?=\S)"
    r"|(?P<chinese>[（(][一二三四五六七八九十]{1,3}[)）]|[一二三四五六七八九十]{1,3}、|[①-⑳])"
)
_COUNT = re.compile(r"\(\d{1,3}\)\s+[a-z]")  # of what was just said: five (5) years
_WIDE = re.compile("[\u3000-\u9fff\uf900-\ufaff\uff00-\uffef]")  # scripts without spaces
_END = ".;,!?。；，！？"
_ENDS_LINE = ".;!?。；！？:{}()=|"  # a line of code or the last one of a paragraph
_PAGE, _OF = (alternatives(load_words("headings")[kind]) for kind in ("page", "of"))
_PAGE_NUMBER = re.compile(  # alone, in a column of its own, or after a word for page
    rf"(?:^|\s{{2}}|\t|[|\[(·•–—-] ?|(?P<word>\b(?:{_PAGE})\s*))"
    rf"(?P<number>\d{{1,6}})(?=$|\s{{2}}|\t| ?[|\])·•–—-]|(?(word)\s*(?:{_OF}|页|頁)|\s?/))",
    re.IGNORECASE,
)
_MIN_LONG = 40  # characters of a line that is likely text rather than a heading
_MIN_WRAPPED, _MAX_WRAPPED = 30, 130  # columns of lines that were wrapped
_MAX_EDGE = 2  # lines of a running head or foot
_MIN_PAGES = 3  # on which a running head recurs


class TextLine(NamedTuple):
    """A line that is not blank: where it is in the text, without the whitespace around it."""

    start: int
    end: int
    indent: int  # columns before it


@dataclass(slots=True)
class Chunk:
    """A paragraph, a list without blank lines between its items, or a line that is a heading.

    Attributes:
        parts: The lines of each item; a single part if it is not a list.
        shown: Its text, line by line.
        is_list: Whether each part begins with a bullet or a number.
        heading: The kind of heading that it is; empty if it is not a heading.
    """

    parts: list[list[TextLine]]
    shown: str
    is_list: bool = False
    heading: str = ""

    @property
    def lines(self) -> list[TextLine]:
        """All its lines."""
        return list(chain.from_iterable(self.parts))

    @property
    def indent(self) -> int:
        """Columns before its first line."""
        return self.parts[0][0].indent

    @property
    def is_line(self) -> bool:
        """Whether it is a single line, short enough for a heading."""
        return len(self.parts) == 1 and len(self.parts[0]) == 1 and len(self.shown) <= MAX_HEADING


def line_blocks(text: str) -> Iterator[list[TextLine]]:
    """Yield the lines of each block between blank lines, without page headers and footers."""
    block: list[TextLine] = []
    for line in _body_lines(text):
        if line is not None:
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def chunks_of(text: str, blocks: Iterable[list[TextLine]]) -> Iterator[Chunk]:
    """Yield the chunks of blocks of lines, in order; lines that only rule them off are left out."""
    for lines in blocks:
        shown = [text[start:end] for start, end, _ in lines]
        rules = [index for index, line in enumerate(shown) if RULE.fullmatch(line)]
        start = 0
        for rule in (*rules, len(lines)):
            if rule - start == 1 and rule < len(lines) and _underlines(shown[rule], shown[start]):
                yield Chunk([lines[start:rule]], shown[start], heading=shown[rule][0])
            elif start < rule:
                yield from _lists_apart(text, lines[start:rule], shown[start:rule])
            start = rule + 1


def mapped(text: str, lines: Sequence[TextLine]) -> MappedText:
    """Return the text of lines; what is between pages is left out.

    Where a line breaks between two characters of a script without spaces or within a word that is
    divided by the hyphen of manual pages, nothing is displayed.
    """
    start = lines[0].start
    shown = MappedText()
    for line, following in pairwise(lines):
        end, then = line.end, following.start
        if text[end - 1] == "‐" and text[then].islower():  # a word divided by a manual page
            end, separator = end - 1, ""
        elif _WIDE.match(text, end - 1) and _WIDE.match(text, then):
            separator = ""
        elif text[end:then].isspace():
            continue
        else:
            separator = " "
        shown.add(text[start:end], start, end)
        shown.add(separator, line.end, then)
        start = then
    shown.add(text[start : lines[-1].end], start, lines[-1].end)
    return shown


def text_indents(chunks: Iterable[Chunk]) -> Counter[int]:
    """Count the long lines by their indentation."""
    return Counter(
        line.indent
        for chunk in chunks
        for part in chunk.parts
        for line in part
        if line.end - line.start >= _MIN_LONG
    )


def prevailing_indent(chunks: Iterable[Chunk]) -> int:
    """Return the indentation of most long lines."""
    indents = text_indents(chunks)
    return indents.most_common(1)[0][0] if indents else 0


def breaks_on_purpose(line: str, following: str, width: int) -> bool:
    """Return whether the next word would have fit on the line, so its author broke it there.

    Args:
        line: A line.
        following: The line after it.
        width: Columns that lines may fill.
    """
    word = following[0] if _WIDE.match(following) else following.split(maxsplit=1)[0]
    return columns(line) + 1 + columns(word) < width


def is_wrapped(lines: Sequence[str]) -> bool:
    """Return whether most sentences run on from line to line, which are of about one width.

    Lines count by their lengths, so that labels of figures and lone numbers weigh little.
    """
    width = usual_width(lines)
    running = wide = 0
    for line, following in pairwise(lines):
        if following[0].islower() and line[-1] not in _ENDS_LINE:
            running += columns(line)
            wide += columns(line) if columns(line) > 0.7 * width else 0
    return (
        _MIN_WRAPPED <= width <= _MAX_WRAPPED
        and running > 0.35 * sum(map(columns, lines))
        and wide > 0.6 * running
    )


def usual_width(lines: Iterable[str]) -> int:
    """Return the width that a tenth of the lines exceed, or at least 1."""
    widths = sorted(map(columns, lines))
    return max(widths[len(widths) * 9 // 10], 1) if widths else 1


def begins_item(line: str) -> bool:
    """Return whether a line begins with a bullet or a number, as items of lists do."""
    return _MARKER.match(line) is not None


def columns(line: str) -> int:
    """Return the displayed width of a line: characters of scripts without spaces are wide."""
    return len(line) if line.isascii() else len(line) + len(_WIDE.findall(line))


def _body_lines(text: str) -> list[TextLine | None]:
    """Return all lines without page headers and footers; None stands for a blank line."""
    lines: list[TextLine | None] = []
    page_starts: list[int] = []
    offset = 0
    for raw in text.split("\n"):
        visible = raw.strip()
        if "\f" in raw:
            page_starts.append(len(lines))
        if visible:
            before = raw.find(visible)
            indent = before
            if "\t" in raw or "\f" in raw:
                indent = len(raw[:before].replace("\f", "").expandtabs())
            lines.append(TextLine(offset + before, offset + before + len(visible), indent))
        else:
            lines.append(None)
        offset += len(raw) + 1
    return _without_running_heads(text, lines, page_starts) if page_starts else lines


def _without_running_heads(
    text: str, lines: list[TextLine | None], page_starts: list[int]
) -> list[TextLine | None]:
    """Leave out running heads and feet, and join the paragraphs that they separated.

    They stand apart from the text of three pages or more, at the same edge, and nothing but the
    number of the page differs.
    """
    pages = [lines[start:end] for start, end in pairwise(sorted({0, *page_starts, len(lines)}))]
    turned = [page[::-1] for page in pages]
    dropped = _furniture(text, pages) | _furniture(text, turned)
    if not dropped:
        return lines
    starts = set(page_starts)
    kept: list[TextLine | None] = []
    last: TextLine | None = None  # the last line kept
    crosses_page = False
    for index, line in enumerate(lines):
        crosses_page = crosses_page or index in starts
        if line is None or line in dropped:
            kept.append(None)
            continue
        if crosses_page and last and _continues(text, last, line):
            while kept and kept[-1] is None:
                kept.pop()
        kept.append(line)
        last, crosses_page = line, False
    return kept


def _furniture(text: str, pages: Sequence[Sequence[TextLine | None]]) -> set[TextLine]:
    """Return the running heads of pages or, of pages turned upside down, the running feet."""
    forms: dict[TextLine, set[str]] = {}
    counts: Counter[str] = Counter()
    for number, page in enumerate(pages, 1):
        edge = list(islice(filter(None, page), _MAX_EDGE))
        found = {line: _forms(text[line.start : line.end], number, len(pages)) for line in edge}
        counts.update(set().union(*found.values()))
        forms |= found
    dropped: set[TextLine] = set()
    for page in pages:
        run: list[TextLine] = []
        apart = 0  # lines of the run that are not in a block with text
        for line in page:
            if line is None:
                apart = len(run)
            elif any(counts[form] >= _MIN_PAGES for form in forms.get(line, ())):
                run.append(line)
            else:
                break
        else:
            apart = len(run)
        dropped.update(run[:apart])
    return dropped


def _forms(line: str, page: int, num_pages: int) -> set[str]:
    """Return a line as it is, and with each number that may be of the page relative to it."""
    forms = {" ".join(line.split())}
    for match in _PAGE_NUMBER.finditer(line):
        number = int(match["number"])
        if match["word"] or match.span() == (0, len(line)) or number <= num_pages:
            rest = f"{line[: match.start('number')]} {line[match.end('number') :]}"
            forms.add(f"{number - page} {' '.join(rest.split())}")
    return forms


def _continues(text: str, line: TextLine, following: TextLine) -> bool:
    """Return whether a paragraph runs on from the last line of a page to the first of the next."""
    return (
        text[line.end - 1] not in ".!?:;。！？：；"
        and line.indent <= following.indent
        and (text[following.start].islower() or text[line.end - 1] in ",-")
    )


def _underlines(rule: str, title: str) -> bool:
    return (
        RULE.fullmatch(rule) is not None
        and len(title) <= MAX_HEADING
        and len(title) / 2 <= len(rule)
        and any(character.isalpha() for character in title)
    )


def _labels(title: str, lines: list[TextLine]) -> bool:
    """Return whether the first line is the heading of a manual page: NAME, over indented text."""
    first, second, *_ = lines
    return (
        first.indent == 0
        and second.indent >= 3
        and title.isupper()
        and title[0].isalpha()
        and title[-1].isalpha()
        and len(title) <= 40
    )


def _lists_apart(text: str, lines: list[TextLine], shown: list[str]) -> Iterator[Chunk]:
    """Yield a block as one chunk or, if it contains lists, the lists and what is around them."""
    if len(lines) > 1 and _labels(shown[0], lines):
        yield Chunk([lines[:1]], shown[0], heading="label")
        lines, shown = lines[1:], shown[1:]
    is_marked = _markers(lines, shown)
    runs: list[tuple[bool, list[list[TextLine]]]] = []
    marker = 0  # indentation of the marker of the current item
    for n, (line, starts_item) in enumerate(zip(lines, is_marked, strict=True)):
        in_list, parts = runs[-1] if runs else (False, [])
        if starts_item:
            if not in_list:
                runs.append((True, []))
            runs[-1][1].append([line])
            marker = line.indent
        elif in_list and (
            (line.indent < marker and shown[n - 1][-1] in _ENDS_LINE)
            or (line.indent == marker and parts[-1][1:] and parts[-1][1].indent > marker)
        ):
            runs.append((False, [[line]]))
        elif runs:
            parts[-1].append(line)
        else:
            runs.append((False, [[line]]))
    for is_list, parts in runs:
        inside = [text[line.start : line.end] for part in parts for line in part]
        yield Chunk(parts, "\n".join(inside), is_list)


def _markers(lines: list[TextLine], shown: list[str]) -> list[bool]:
    """Return which lines begin an item, rather than happen to begin like one."""
    matches = [_MARKER.match(line) for line in shown]
    alike = Counter(
        (line.indent, match.lastgroup) for line, match in zip(lines, matches, strict=True) if match
    )
    marked: list[bool] = []
    numbers: dict[int, str] = {}  # of the last item, by indentation
    for index, (line, match) in enumerate(zip(lines, matches, strict=True)):
        previous = shown[index - 1]
        marked.append(
            match is not None
            and (
                index == 0
                or (line.indent > lines[index - 1].indent and not _COUNT.match(shown[index]))
                or previous[-1] in ":："
                or (marked[-1] and line.indent == lines[index - 1].indent)
                or (alike[line.indent, match.lastgroup] > 1 and (previous[-1] in _END))
                or (
                    match["bullet"] is not None
                    and (alike[line.indent, "bullet"] > 1 or line.indent in numbers)
                )
                or any(
                    _is_next(numbers.get(line.indent + shift), match["number"])
                    for shift in (0, 1, 2)  # numbers may be aligned on the right
                )
            )
        )
        if match and marked[-1]:
            numbers[line.indent] = match["number"] or ""
    return marked


def _is_next(last: str | None, number: str | None) -> bool:
    """Return whether a number or letter follows another: 9 and 10, b and c."""
    if not last or not number:
        return False
    if last.isdigit() and number.isdigit():
        return int(number) == int(last) + 1
    return len(last) == len(number) == 1 and ord(number) == ord(last) + 1
