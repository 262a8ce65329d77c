"""Markdown: CommonMark with tables, footnotes, definition lists, admonitions and front matter.

markdown-it knows the lines of a block but not the offsets within a line. Two steps recover them. A
block's content is its lines without indentation and quotation marks, so that each of its lines is
found at the end of a source line. And a rule that runs before all others records where in the
content each inline token starts.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import dropwhile, groupby
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    definition_blocks,
    lift_title,
)
from foveate.documents.metadata import first_date, names_in
from foveate.documents.readers.html import read_fragment
from foveate.documents.structure import Kind
from foveate.documents.tables import Cell, table_blocks

_FRONT_MATTER = re.compile(  # that of YAML begins with a field: a rule may begin a text, too
    r"(?:---[ \t]*\r?\n(?=\s*(?:---|\.\.\.)|(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*[^\s#:][^:\n]*:\s)"
    r"(?:.*?\n)?(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?\n\+\+\+)[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
_TITLE = re.compile(r"^title[ \t]*+[:=][ \t]*+(\S.*)$", re.MULTILINE)
_FIELD = re.compile(r"^[\"']?(?:authors?|date|created|publi|pubdate)", re.MULTILINE | re.IGNORECASE)
_AUTHORS = ("authors", "author")
_DATES = ("date", "published", "publishdate", "pubdate", "created")
_MAX_FRONT_MATTER = 20_000  # characters in which authors and a date are looked for
_MAX_NESTED = 500  # lists in brackets and the like, for which YAML may take quadratic time
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_ALERT = re.compile(r"\[![A-Za-z]+\][+-]?[ \t]*(?:\n|\Z)")  # "> [!NOTE]" of GitHub
_ATTRIBUTES = re.compile(r"\{:?\s*[#.]\w[^{}]*\}\s*$")  # of a heading: {#install .wide}
_LINE_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_MAX_NESTING = 100  # quotations and lists; deeper ones are skipped
_MIN_ENTRIES = 3  # of a table of contents
_CONTENTS_MARKS = ("[TOC]", "[[TOC]]", "[[_TOC_]]")  # where a table of contents is inserted
_KINDS: dict[str, Kind] = {"list_item": "item", "footnote_reference": "footnote"}
_UNNUMBERED = ("table_open", "fence", "code_block", "html_block")  # tokens


def read(text: str) -> ParsedText:
    """Read headings and paragraphs; code, images and tables of contents are skipped."""
    front = _FRONT_MATTER.match(text)
    walk = _MarkdownBlocks(text, front.end() if front else 0)
    blocks = list(walk.blocks())
    parsed = lift_title(
        [
            block
            for is_entry, run in groupby(blocks, lambda block: id(block) in walk.entries)
            for block in _unless_contents(list(run), is_entry)
        ]
    )
    if not parsed.title and front and (title := _TITLE.search(front[0])):
        parsed.title = title[1].rstrip().strip("\"'")
    parsed.authors, parsed.date = find_metadata(text)
    return parsed


def _unless_contents(blocks: list[Block], are_entries: bool) -> list[Block]:
    return [] if are_entries and len(blocks) >= _MIN_ENTRIES else blocks


def find_metadata(text: str) -> tuple[tuple[str, ...], str | None]:
    """Return the authors and the date that the front matter of a text states."""
    front = _FRONT_MATTER.match(text)
    if not front or not _FIELD.search(front[0]):
        return (), None
    num_nested = front[0].count("[") + front[0].count("{")
    if len(front[0]) > _MAX_FRONT_MATTER or num_nested > _MAX_NESTED:
        return (), None
    lines = "\n".join(front[0].splitlines()[1:-1])
    fields: Any
    try:
        # The base loader makes nothing but strings, lists and dicts.
        is_toml = text.startswith("+")
        fields = tomllib.loads(lines) if is_toml else yaml.load(lines, yaml.BaseLoader)
    except (ValueError, RecursionError, yaml.YAMLError):
        return (), None
    if not isinstance(fields, dict):
        return (), None
    fields = {str(name).lower(): value for name, value in fields.items()}
    authors = (names_in(fields.get(name)) for name in _AUTHORS)
    return next(filter(None, authors), ()), first_date(map(fields.get, _DATES))


def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")
    markdown.use(footnote_plugin, inline=False).use(deflist_plugin).use(admon_plugin)
    markdown.disable("footnote_tail")  # it would move the notes to the end
    markdown.disable(["text_join", "fragments_join"])  # they would renumber the tokens
    markdown.inline.ruler.before("text", "mark", _mark)
    return markdown


class _MarkdownBlocks:
    """Turns the tokens of a text into blocks."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.marks: dict[int, list[tuple[int, int]]] = {}
        self.lines = list(_LINE.finditer(text, start))
        self.tokens = _parser().parse(text[start:], {"marks": self.marks})
        self.kinds: list[Kind] = ["prose"]
        self.marker: Token | None = None  # of the list item that begins, if it is numbered
        self.terms: list[MappedText] = []  # that the next paragraph defines
        self.entries: set[int] = set()  # identities of items that only link to a heading
        self.at = start  # where the last cell of the current row ends

    def blocks(self) -> Iterator[Block]:
        rows: list[list[Cell]] = []
        around = level = ""  # type and tag of the token before: what an inline token belongs to
        for token in self.tokens:
            if token.type in _UNNUMBERED:
                self.marker = None  # it belongs before these, not before the text after them
            name, _, end = token.type.rpartition("_")
            if name in _KINDS:
                self.change_kind(token, end)
            elif token.type in ("dl_close", "dt_open") and around != "dt_close":
                yield from self.lone_terms()
            elif token.type == "tr_open":
                rows.append([])
                self.at = self.line(token).start()
            elif token.type == "table_close":
                yield from table_blocks(rows, num_head_rows=1)
                rows = []
            elif token.type == "html_block":
                yield from self.html(token)
            elif token.type != "inline":
                pass
            elif around in ("th_open", "td_open"):
                rows[-1].append(Cell(self.cell(token), is_head=around == "th_open"))
            elif around == "heading_open":
                shown = str(self.numbered(self.display(token)))
                yield Heading(int(level[1:]), _ATTRIBUTES.sub("", shown).rstrip() or shown)
            elif around == "dt_open":
                self.terms.append(self.display(token))
            elif around != "admonition_title_open" or self.is_written(token):
                yield from self.paragraph(token)
            around, level = token.type, token.tag

    def change_kind(self, token: Token, end: str) -> None:
        """Record that a list item or footnote begins or ends."""
        if end == "close":
            self.kinds.pop()
            self.marker = None  # of an item without a paragraph
            return
        kind = _KINDS[token.type.removesuffix("_open")]
        self.kinds.append("footnote" if self.kinds[-1] == "footnote" else kind)
        self.marker = token if token.info and kind == "item" else None

    def paragraph(self, token: Token) -> Iterator[Prose]:
        is_entry = self.kinds[-1] == "item" and _is_entry(token)
        if token.content in _CONTENTS_MARKS:
            return
        shown = self.numbered(self.display(token))
        terms, self.terms = self.terms, []
        blocks = definition_blocks(terms, shown, self.kinds[-1])
        if is_entry:
            self.entries.add(id(blocks[-1]))
        yield from blocks

    def lone_terms(self) -> Iterator[Prose]:
        """Yield terms without a definition, or with a long name, as paragraphs of their own."""
        yield from (Prose(term, kind=self.kinds[-1]) for term in self.terms)
        self.terms = []

    def numbered(self, shown: MappedText) -> MappedText:
        """Put the number of the list item that begins, if any, before its text."""
        marker, self.marker = self.marker, None
        if marker is None or marker.map is None or not shown:
            return shown
        number = marker.info + marker.markup
        first, _ = shown.source_span(0, 1)
        line = self.lines[marker.map[0]]
        at = self.text.rfind(number, line.start(), first)
        if at < 0:
            return shown
        joined = MappedText()
        joined.add(number, at, at + len(number))
        joined.add(" ", at + len(number), at + len(number))
        joined.extend(shown)
        return joined

    def display(self, token: Token) -> MappedText:
        assert token.map is not None
        first, last = token.map
        lines = [(line.start(), line[0]) for line in self.lines[first : max(last, first + 1)]]
        content = _Content(token)
        content.find_lines(lines)
        return content.display(self.marks.get(id(token.children), []))

    def cell(self, token: Token) -> MappedText:
        content = _Content(token)
        self.at = content.find_cell(self.text, self.at, self.line(token).end())
        return content.display(self.marks.get(id(token.children), []))

    def is_written(self, title: Token) -> bool:
        """Return whether the title of an admonition is in the source: its type is the default."""
        return f'"{title.content}"' in self.line(title)[0]

    def html(self, token: Token) -> Iterator[Block]:
        """Yield the blocks of HTML, with blanks for the marks of lists and quotations around it."""
        assert token.map is not None
        lines = self.lines[slice(*token.map)]
        blanked = ""
        for line, content in zip(lines, token.content.split("\n"), strict=False):
            written = line[0].rstrip()
            if not written.endswith(content.rstrip()):
                return  # such as a tab of which a part belongs to a list
            before = len(written) - len(content.rstrip())
            blanked += " " * before + line[0][before:]
        yield from read_fragment(blanked, lines[0].start())

    def line(self, token: Token) -> re.Match[str]:
        assert token.map is not None
        return self.lines[token.map[0]]


def _is_entry(token: Token) -> bool:
    """Return whether an item only links to a place in the same text."""
    children = token.children or []
    links = [child for child in children if child.type == "link_open"]
    if len(links) != 1 or not str(links[0].attrs.get("href", "")).startswith("#"):
        return False
    start = children.index(links[0])
    end = next((i for i, child in enumerate(children) if child.type == "link_close"), start)
    return not any(child.content.strip() for child in (*children[:start], *children[end:]))


def _mark(state: StateInline, silent: bool) -> bool:
    """Record where the tokens of the next rule start; this rule itself never applies."""
    if not silent:
        if state.pending:
            state.pushPending()
        state.env["marks"].setdefault(id(state.tokens), []).append((len(state.tokens), state.pos))
    return False


class _Content:
    """The content of a block, with the source offsets of its lines."""

    def __init__(self, token: Token) -> None:
        self.text = token.content
        self.tokens = token.children or []
        self.offsets: list[int] = []  # of each piece that is written as it is
        self.sources: list[int] = []
        alert = _ALERT.match(self.text)
        self.start = alert.end() if alert else 0  # what is before is not displayed

    def find_lines(self, lines: list[tuple[int, str]]) -> None:
        """Find the lines of the content at the ends of source lines."""
        offset = 0
        shown = self.text.split("\n")
        first = shown[0].strip()  # lines of no-break spaces are not displayed before it
        lines = list(dropwhile(lambda line: first not in line[1], lines)) or lines
        for line, (start, source) in zip(shown, lines, strict=False):
            visible = line.strip()
            self.offsets.append(offset + line.find(visible))
            self.sources.append(start + source.rfind(visible))
            offset += len(line) + 1

    def find_cell(self, source: str, at: int, end: int) -> int:
        """Find the content of a table's cell in its line; return where it ends."""
        start = source.find(self.text.replace("|", "\\|"), at, end)
        start = at if start < 0 else start
        self.offsets, self.sources = [0], [start]
        for number, pipe in enumerate(re.finditer(r"\|", self.text), 1):  # written as "\|"
            self.offsets.append(pipe.start())
            self.sources.append(start + pipe.start() + number)
        return min(start + len(self.text) + self.text.count("|"), end)

    def display(self, marks: list[tuple[int, int]]) -> MappedText:
        """Return the displayed text."""
        shown = MappedText()
        firsts = [first for first, _ in marks]
        for index, token in enumerate(self.tokens):
            rule = bisect_right(firsts, index) - 1
            start = marks[rule][1] + index - firsts[rule]
            if start < self.start:
                continue
            if token.type in ("softbreak", "hardbreak"):
                self.add(shown, " ", start, start + 1)
            elif token.type == "html_inline" and _LINE_BREAK.match(token.content):
                self.add(shown, " ", start, start + len(token.content))
            elif token.type == "text_special":  # an escape or entity; its markup is what is written
                self.add(shown, token.content, start, start + len(token.markup))
            elif token.type == "code_inline":
                start += len(token.markup)
                if not self.text.replace("\n", " ").startswith(token.content, start):
                    start += 1  # a space on either side is not displayed
                self.add(shown, token.content, start, start + len(token.content))
            elif token.type == "text":
                end = start + len(token.content)
                if not self.text.startswith(token.content, start):  # a link, displayed decoded
                    end = self.text.index(">", start)
                self.add(shown, token.content, start, end)
        return shown

    def add(self, shown: MappedText, text: str, start: int, end: int) -> None:
        if text:
            shown.add(text, self.source_offset(start), self.source_offset(end - 1) + 1)

    def source_offset(self, offset: int) -> int:
        piece = max(bisect_right(self.offsets, offset) - 1, 0)
        return self.sources[piece] + offset - self.offsets[piece]
