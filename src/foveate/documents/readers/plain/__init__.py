"""Plain text: paragraphs between blank lines, lists, and headings recognized by their typography.

A heading is short and has blank lines around it. It is better to miss a heading than to invent one.
These kinds are recognized:

- parts of a book or a law: `BOOK ONE: 1805`, `CHAPTER 1. Loomings.`, `Kapitel 3: Rechte`,
  `Chapitre IV`, `第一章`, `Annex B`, `§ 3`
- of clauses, whose text may begin on the same line: `Section 1.02 Notice. Notice is given …`
- by name: `Abstract`, `SECOND EPILOGUE`, `Zusammenfassung`
- numbered: `1 Introduction`, `2.3.1 Results`, `A.1. Discussion`, where each number follows from the
  previous one
- listed in a table of contents
- underlined with `===` or `---`
- less indented than the text around them
- in CAPITALS, if a table of contents lists it, or the others are, too, or if there are no others

A text without blank lines is divided by the lengths and the ends of its lines.
Tables of contents and page headers and footers are left out. Each item of a list is a paragraph.
Drawn tables, logs and other records are cut by line; code keeps its lines.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    lift_title,
)
from foveate.documents.headings import is_contents, is_references
from foveate.documents.metadata import parse_date, split_names
from foveate.documents.numbering import find_numbered
from foveate.documents.readers.plain.contents import find_contents
from foveate.documents.readers.plain.headings import (
    join_titles,
    levels_of,
    mark_apart,
    mark_by_typography,
    mark_listed,
    mark_numbered,
    mark_parts,
)
from foveate.documents.readers.plain.lines import (
    ENTRY,
    Chunk,
    TextLine,
    chunks_of,
    line_blocks,
    mapped,
    prevailing_indent,
)
from foveate.documents.readers.plain.preformatted import (
    are_records,
    is_code,
    is_drawing,
    is_drawn_table,
    table_rows,
)
from foveate.documents.readers.plain.undivided import divide
from foveate.documents.words import alternatives, load_words

_WORD = re.compile(r"[^\W\d_]{2,}")  # not the number of a chapter or page
_NOTE = re.compile(r"\[\d{1,3}\]\s")
_CAPTION = re.compile(
    rf"(?:{alternatives(load_words('headings')['captions'])})"
    r"\s*(?:\d{1,3}(?:\.\d{1,3})*|[A-Z]\.\d{1,3})[.:：]?\s+\S.*",
    re.IGNORECASE,
)
_ILLUSTRATION = re.compile(r"\[Illustration\b[^\[\]]*\]")
_TITLE_FIELD = re.compile(r"^Title:[ \t]+(\S.{0,200})$", re.MULTILINE)
_AUTHOR_FIELD = re.compile(r"^Authors?:[ \t]+(\S.{0,400})$", re.MULTILINE)
_DATE_FIELD = re.compile(r"^Date:[ \t]+(\S.{0,60})$", re.MULTILINE)
_LICENCE = re.compile(  # around the books of Project Gutenberg
    r"^\*\*\* ?(START|END) OF (?:THE|THIS) PROJECT GUTENBERG EBOOK\b.*",
    re.MULTILINE | re.IGNORECASE,
)
_MANUAL = re.compile(r"(\S+\(\d\w*\)).*\1")
_HEADER = 2000  # characters that hold the fields of a header
_MAX_TITLE = 100
_MAX_TITLE_CHUNKS = 4


def read(text: str) -> ParsedText:
    """Read headings and paragraphs."""
    return find_numbered(read_lines(text))


def read_lines(text: str) -> ParsedText:
    """Read paragraphs and the headings that have a line of their own."""
    blocks = _without_licence(text, list(line_blocks(text)))
    blocks, apart = divide(text, blocks)
    chunks = list(chunks_of(text, blocks))
    mark_parts(chunks)
    contents, listed = find_contents(chunks)
    said = _words(chunk for index, chunk in enumerate(chunks) if index not in contents)
    body = [
        replace(chunk, is_list=index in contents or chunk.is_list)
        for index, chunk in enumerate(chunks)
        if index not in contents or not _words([chunk]) <= said
    ]
    mark_listed(body, listed)
    mark_numbered(body)
    mark_apart(body, apart)
    title = _lift_title(text, body)
    mark_by_typography(body, listed)
    body = join_titles(body)
    parsed = lift_title(list(_blocks(text, body))) if not title else None
    parsed = parsed or ParsedText(title, list(_blocks(text, body)))
    header = text[:_HEADER]
    if _TITLE_FIELD.search(header):
        if author := _AUTHOR_FIELD.search(header):
            parsed.authors = split_names(author[1])
        if date := _DATE_FIELD.search(header):
            parsed.date = parse_date(date[1])
    return parsed


def _words(chunks: Iterable[Chunk]) -> set[str]:
    """Return the words of chunks but the names that announce a table of contents."""
    lines = chain.from_iterable(chunk.shown.split("\n") for chunk in chunks)
    return {
        word for line in lines if not is_contents(line) for word in _WORD.findall(line.casefold())
    }


def _without_licence(text: str, blocks: list[list[TextLine]]) -> list[list[TextLine]]:
    """Leave out what Project Gutenberg puts before and after a book."""
    start, end = 0, len(text)
    for mark in _LICENCE.finditer(text):
        if mark[1].upper() == "END":
            end = mark.start()
        elif not start:
            start = mark.end()
    inside = ([line for line in block if start <= line.start < end] for block in blocks)
    return list(filter(None, inside)) or blocks


def _lift_title(text: str, chunks: list[Chunk]) -> str | None:
    """Take the title out of the first chunks, if one of them is plainly a title."""
    if field := _TITLE_FIELD.search(text[:_HEADER]):
        return collapse(field[1])
    base = prevailing_indent(chunks)
    has_headings = any(chunk.heading for chunk in chunks)
    for index, chunk in enumerate(chunks[:_MAX_TITLE_CHUNKS]):
        if len(chunk.heading) == 1 or chunk.heading.startswith("numbered") or chunk.is_list:
            return None
        first = chunk.shown.split("\n")[0]
        is_centred = chunk.indent >= base + 8
        if chunk.heading or not _is_title(first):
            continue
        if is_centred or (index == 0 and chunk.is_line and has_headings):
            lines = chunk.lines
            if len(lines) == 1:
                del chunks[index]
            else:
                chunks[index] = Chunk([lines[1:]], chunk.shown.partition("\n")[2])
            manual = _MANUAL.fullmatch(first)
            return manual[1] if manual else collapse(first)
    return None


def _is_title(line: str) -> bool:
    return (
        len(line) <= _MAX_TITLE
        and not line[0].islower()
        and line[-1] not in ".,;:!。，；：！"
        and sum(character.isalpha() for character in line) > 2
        and "http" not in line
        and "©" not in line
        and not is_contents(line)
    )


def _blocks(text: str, chunks: Sequence[Chunk]) -> Iterator[Block]:
    """Yield paragraphs, and headings with the level that their kind has in this text."""
    levels = levels_of(chunk.heading for chunk in chunks if chunk.heading)
    base = prevailing_indent(chunks)
    in_references = False
    for chunk in chunks:
        if chunk.heading:
            yield Heading(levels[chunk.heading], chunk.shown)
            in_references = is_references(chunk.shown)
        elif in_references:
            yield from _references(text, chunk)
        else:
            yield from _paragraphs(text, chunk, base)


def _paragraphs(text: str, chunk: Chunk, base: int) -> Iterator[Prose]:
    lines = chunk.lines
    if len(lines) > 1 and is_drawing(chunk.shown) and not is_drawn_table(chunk):
        yield Prose(_listing(text, lines), kind="code")
    elif chunk.is_list:
        yield from (Prose(mapped(text, part), kind="item") for part in chunk.parts)
    elif is_drawn_table(chunk):
        yield from table_rows(text, lines)
    elif is_code(chunk, base):
        yield Prose(_listing(text, lines), kind="code")
    elif are_records(chunk):
        for start, end, _ in lines:
            yield Prose(MappedText.from_text(text[start:end], start), kind="item")
    elif _NOTE.match(chunk.shown):
        yield Prose(mapped(text, lines), kind="footnote")
    elif _ILLUSTRATION.fullmatch(chunk.shown) or (
        len(lines) < 3 and _CAPTION.fullmatch(chunk.shown.replace("\n", " "))
    ):
        yield Prose(mapped(text, lines), kind="caption")
    else:
        yield Prose(mapped(text, lines))


def _references(text: str, chunk: Chunk) -> Iterator[Prose]:
    """Yield the entries of a bibliography, one a paragraph unless they begin with marks."""
    entry: list[TextLine] = []
    lines = chunk.lines
    marked = ENTRY.match(text, lines[0].start) is not None
    for line in lines:
        if entry and marked and ENTRY.match(text, line.start):
            yield Prose(mapped(text, entry), kind="reference")
            entry = []
        entry.append(line)
    yield Prose(mapped(text, entry), kind="reference")


def _listing(text: str, lines: Sequence[TextLine]) -> MappedText:
    """Return lines as they are written, with their indentation."""
    listing = MappedText()
    for line in lines:
        start = text.rfind("\n", 0, line.start) + 1
        listing.add("\n" if listing else "", start, start)
        listing.add(text[start : line.end], start, line.end)
    return listing
