"""Markdown: CommonMark, and what Pandoc, MyST, MkDocs, Docusaurus and GitHub add to it.

markdown-it knows the lines of a block but not the offsets within a line. Two steps recover them. A
block's content is its lines without indentation and quotation marks, so that each of its lines is
found at the end of a source line. And a rule that runs before all others records where in the
content each inline token starts. Lines that only mark what others are, such as the fences of
directives, are replaced before they are parsed.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import dropwhile, groupby, pairwise
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

from foveate.documents import formulas
from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    check_closed,
    definition_blocks,
    lift_title,
)
from foveate.documents.metadata import first_date, names_in, split_names
from foveate.documents.readers.html import read_fragment
from foveate.documents.readers.plain.lines import TextLine
from foveate.documents.readers.plain.preformatted import table_rows
from foveate.documents.scripts import add_script
from foveate.documents.structure import Kind
from foveate.documents.tables import Cell, table_blocks
from foveate.documents.words import load_words, name_set

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
_BRACKET, _BRACKET_END = re.compile(r"\["), re.compile(r"\]")
_LINE_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_SCRIPT = re.compile(r"<(/?)(su[pb])\s*>", re.IGNORECASE)
_TITLE_BLOCK = re.compile(r"%[ \t]*(.*)\n(?:%[ \t]*(.*)\n)?(?:%[ \t]*(.*)\n)?")  # of Pandoc
_IS_MARKED = re.compile(
    r"^[ \t>]*(?::{3}|`{3,}\s*\{|~{3,}\s*\{|\?{3}|===? \"|\([\w:.-]+\)=|import\b|export\b|\{/\*)",
    re.M,
)
_FENCE = re.compile(r"([ \t>]*)(`{3,}|~{3,}|:{3,})[ \t]*(.*)")
_DIRECTIVE = re.compile(r"\{([\w:-]+)\}[ \t]*(.*)")
_LABEL = re.compile(r"(?:\{[^{}]*\}|[\w-]+)?[ \t]*(.*?)[ \t]*(?:\{[^{}]*\})?[ \t:]*")
_ROLE_TARGET = re.compile(r"(?<=\S)\s*<[^<>]*>$")  # {ref}`Pumps <pumps>`
_TARGET = re.compile(r"\([\w:.-]+\)=\s*")  # of MyST, before what it names
_OPTION = re.compile(r"\s*:[\w-]+:")
_BOX = re.compile(
    r"([ \t]*)(?:\?{3}\+?|===[!+]?)(?=[ \t]+[\w\"])"
)  # of MkDocs: ??? note, === "Tab"
_COMMENT = re.compile(r"\s*\{/\*.*\*/\}\s*")  # of MDX
_MODULE = re.compile(
    r"import\s+(?:[\w*{][^\n]*\sfrom\s+)?[\"'][^\n]*[\"'];?\s*|export\s+(?:default|const|let|function)\b.*"
)
_FORMULA_SIGN = re.compile(r"[\\^_=<>+]|^\w$")
_GRID_BORDER = re.compile(r"\+(?:[-=:]+\+)+")
_DASHES = re.compile(r"-{2,}(?: +-{2,})+")
_DIRECTIVES, _SKIPPED = (  # those whose content is Markdown, and those that are left out
    name_set(load_words("directives")["markdown"][kind]) for kind in ("prose", "skipped")
)
_MAX_NESTING = 100  # quotations and lists; deeper ones are skipped
_MIN_ENTRIES = 3  # of a table of contents
_CONTENTS_MARKS = ("[TOC]", "[[TOC]]", "[[_TOC_]]")  # where a table of contents is inserted
_KINDS: dict[str, Kind] = {"list_item": "item", "footnote_reference": "footnote"}
_UNNUMBERED = name_set(  # tokens
    "table_open fence code_block html_block math_block math_block_label grid_table simple_table"
)


def read(text: str) -> ParsedText:
    """Read headings, paragraphs, code and formulas; images and tables of contents are skipped."""
    front = _FRONT_MATTER.match(text) or _TITLE_BLOCK.match(text)
    blocks = _blocks(text, front.end() if front else 0)
    if front and front.re is _TITLE_BLOCK:
        title, authors, date = front.groups(default="")
        return ParsedText(
            title.strip() or None, blocks, authors=split_names(authors), date=first_date([date])
        )
    parsed = lift_title(blocks)
    if not parsed.title and front and (named := _TITLE.search(front[0])):
        parsed.title = named[1].rstrip().strip("\"'")
    parsed.authors, parsed.date = find_metadata(text)
    return parsed


def read_part(text: str, place: str) -> Iterator[Block]:
    """Yield the blocks of a part of a larger text, such as a page, all at one place."""
    for block in _blocks(text, 0):
        yield replace(block, place=place) if isinstance(block, Prose) else block


def _blocks(text: str, start: int) -> list[Block]:
    """Return the blocks of the text from `start`, without tables of contents."""
    check_closed(text, _BRACKET, _BRACKET_END)
    walk = _MarkdownBlocks(text, start)
    blocks: list[Block] = []
    for is_entry, run in groupby(list(walk.blocks()), lambda block: id(block) in walk.entries):
        found = list(run)
        blocks += [] if is_entry and len(found) >= _MIN_ENTRIES else found
    return blocks


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
    markdown = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    markdown.enable(["table", "strikethrough"])
    markdown.use(footnote_plugin, inline=False).use(deflist_plugin).use(admon_plugin)
    markdown.use(superscript_plugin).use(sub_plugin).use(myst_role_plugin)
    markdown.use(attrs_plugin, spans=True)
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    around: Any = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    markdown.block.ruler.before("table", "grid_table", _grid_table, around)
    markdown.block.ruler.before("table", "simple_table", _simple_table, around)
    markdown.disable("footnote_tail")  # it would move the notes to the end
    markdown.disable(["text_join", "fragments_join"])  # they would renumber the tokens
    markdown.inline.ruler.before("text", "mark", _mark)
    return markdown


class _MarkdownBlocks:
    """Turns the tokens of a text into blocks."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.marks: dict[int, list[tuple[int, int]]] = {}
        self.lines: list[re.Match[str]] = []  # in which the parsed lines are written
        parsed: list[str] = []
        lines = _LINE.finditer(text, start)
        is_marked = _IS_MARKED.search(text, start)
        for line, shown in _prepared(lines) if is_marked else ((line, line[0]) for line in lines):
            self.lines.append(line)
            parsed.append(shown.rstrip("\r\n"))
        self.tokens = _parser().parse("\n".join(parsed), {"marks": self.marks})
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
                yield from self.lone_terms()
            name, _, end = token.type.rpartition("_")
            if name in _KINDS:
                self.change_kind(token, end)
            elif token.type in ("dl_close", "dt_open") and around != "dt_close":
                yield from self.lone_terms()
            elif token.type == "tr_open":
                rows.append([])
                self.at = self.line(token).start()
            elif token.type == "table_close":
                if len(rows) == 1:  # a row alone holds no heads
                    rows = [[Cell(cell.text) for cell in rows[0]]]
                yield from table_blocks(rows, num_head_rows=int(len(rows) > 1))
                rows = []
            elif token.type == "html_block":
                yield from self.html(token)
            elif token.type in ("fence", "code_block"):
                yield from self.code(token)
            elif token.type in ("math_block", "math_block_label"):
                first, last = self.spanned(token)
                shown = formulas.from_latex(token.content)
                yield Prose(MappedText.from_text(shown, first, last), kind="formula")
            elif token.type == "grid_table":
                yield from self.grid_table(token)
            elif token.type == "simple_table":
                yield from self.simple_table(token)
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

    def spanned(self, token: Token) -> tuple[int, int]:
        """Return where the lines of a block start and end in the source."""
        assert token.map is not None
        return self.line(token).start(), self.lines[token.map[1] - 1].end()

    def code(self, token: Token) -> Iterator[Block]:
        """Yield a listing."""
        assert token.map is not None
        first = token.map[0] + (token.type == "fence")
        listing = MappedText()
        lines = token.content.rstrip().split("\n")
        for line, shown in zip(self.lines[first:], lines, strict=False):
            visible = shown.strip()
            at = line.start() + line[0].rfind(visible)
            listing.add("\n" if listing else "", line.start(), line.start())
            listing.add(shown[: len(shown) - len(shown.lstrip())], at, at)
            listing.add(visible, at, at + len(visible))
        yield Prose(listing, kind="code")

    def grid_table(self, token: Token) -> Iterator[Block]:
        """Yield the rows of a table in a grid."""
        assert token.map is not None
        lines = [TextLine(*_visible(line), 0) for line in self.lines[slice(*token.map)]]
        yield from table_rows(self.text, lines)

    def simple_table(self, token: Token) -> Iterator[Block]:
        """Yield the rows of a table whose columns are below or between runs of dashes."""
        assert token.map is not None
        lines = self.lines[slice(*token.map)]
        dashes = next(line for line in lines if _DASHES.fullmatch(line[0].strip()))
        starts = [run.start() for run in re.finditer("-+", dashes[0])][1:]
        rows: list[list[Cell]] = []
        for line in lines:
            if _DASHES.fullmatch(line[0].strip()) or not line[0].strip(" -\r\n"):
                continue
            ends = [0, *starts, len(line[0])]
            cells = (
                MappedText.from_text(line[0][start:end], line.start() + start)
                for start, end in pairwise(ends)
            )
            rows.append([Cell(cell) for cell in cells])
        yield from table_blocks(rows, num_head_rows=int(lines[0] is not dashes))

    def line(self, token: Token) -> re.Match[str]:
        assert token.map is not None
        return self.lines[token.map[0]]


def _prepared(lines: Iterable[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the lines of a text and what is parsed in place of each.

    The fences of directives and boxes become blank lines, or their titles become paragraphs; the
    imports and exports of MDX, and the options of directives, are left out.
    """
    fences: list[
        tuple[str, str | None]
    ] = []  # that are open, and what closes each of them in Markdown
    is_option = is_module = False
    for line in lines:
        written = line[0]
        fence = _FENCE.match(written)
        inner, closing = fences[-1] if fences else ("", "")
        is_verbatim = inner and closing != ""
        if fence and inner and fence[2].startswith(inner) and not fence[3].strip():
            fences.pop()
            yield line, fence[1] + closing if closing else ""
        elif is_option and _OPTION.match(written):
            yield line, ""
        elif is_verbatim:
            is_option = False
            yield line, "" if closing is None else written
        elif fence:
            directive = _DIRECTIVE.match(fence[3])
            name = directive[1] if directive else ""
            is_option = bool(directive)
            if name == "math":
                fences.append((fence[2], "$$"))
                yield line, f"{fence[1]}$$"
            elif name in _SKIPPED:
                fences.append((fence[2], None))
                yield line, ""
            elif (fence[2][0] == ":" and not name.startswith("code")) or name in _DIRECTIVES:
                fences.append((fence[2], ""))
                label = _LABEL.fullmatch(fence[3].rstrip())
                title = "" if name == "figure" or label is None else label[1].strip("[]")
                yield line, fence[1] + title
                if title:
                    yield line, ""
            else:
                fences.append((fence[2], "`" * len(fence[2])))
                yield (
                    line,
                    f"{fence[1]}{'`' * len(fence[2])}{directive[2] if directive else fence[3]}",
                )
        elif is_module or _MODULE.fullmatch(written.rstrip()):
            is_module = bool(written.strip()) and not written.startswith("import")
            yield line, ""
        elif _TARGET.fullmatch(written) or _COMMENT.fullmatch(written):
            yield line, ""
        else:
            box = _BOX.match(written)
            is_tab = box and box[0].strip().startswith("=")
            yield (
                line,
                f"{box[1]}!!!{' tab' * bool(is_tab)}{written[box.end() :]}" if box else written,
            )
            is_option = False


def _visible(line: re.Match[str]) -> tuple[int, int]:
    """Return where the text of a line starts and ends, without the blanks around it."""
    indent = len(line[0]) - len(line[0].lstrip())
    return line.start() + indent, line.start() + len(line[0].rstrip())


def _grid_table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Find a table in a grid of +, - and |."""
    if state.is_code_block(first) or not _GRID_BORDER.fullmatch(_line(state, first).rstrip()):
        return False
    last = first + 1
    while last < end and _line(state, last)[:1] in ("+", "|"):
        last += 1
    is_whole = last > first + 2 and _GRID_BORDER.fullmatch(_line(state, last - 1).rstrip())
    return _push(state, "grid_table", first, last, silent) if is_whole else False


def _simple_table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Find a table whose columns are below runs of dashes, or between two lines of them."""
    if state.is_code_block(first) or first + 2 >= end or not _line(state, first).strip():
        return False
    has_heads = not _DASHES.fullmatch(_line(state, first).strip())
    if has_heads and not _DASHES.fullmatch(_line(state, first + 1).strip()):
        return False
    last = first + 1 + has_heads
    while last < end and _line(state, last).strip():
        last += 1
        if _DASHES.fullmatch(_line(state, last - 1).strip()):
            return _push(state, "simple_table", first, last, silent)
    return has_heads and last > first + 2 and _push(state, "simple_table", first, last, silent)


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _push(state: StateBlock, name: str, first: int, last: int, silent: bool) -> bool:
    if not silent:
        state.push(name, "", 0).map = [first, last]
        state.line = last
    return True


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
        outer: MappedText | None = None  # the text before a superscript or subscript
        firsts = [first for first, _ in marks]
        for index, token in enumerate(self.tokens):
            rule = bisect_right(firsts, index) - 1
            start = marks[rule][1] + index - firsts[rule]
            if start < self.start:
                continue
            script = _SCRIPT.fullmatch(token.content) if token.type == "html_inline" else None
            name = script[2].lower() if script else token.tag
            is_end = token.nesting == -1 or (script is not None and bool(script[1]))
            if name in ("sup", "sub") and not is_end:
                if outer is None:
                    outer, shown = shown, MappedText()
            elif name in ("sup", "sub"):
                if outer is not None:
                    add_script(outer, shown, is_raised=name == "sup")
                    shown, outer = outer, None
            elif token.type.startswith("math_inline"):
                end = start + len(token.content) + 2 * len(token.markup)
                written = self.text[start:end]
                is_formula = _FORMULA_SIGN.search(token.content)
                formula = formulas.from_latex(token.content) if is_formula else written
                self.add(shown, formula, start, end)
            elif token.type == "myst_role":
                role, written = token.meta["name"], token.content
                named = _ROLE_TARGET.sub("", written)
                formula = formulas.from_latex(written) if role == "math" else named
                self.add(shown, formula, start, start + len(role) + len(written) + 4)
            elif token.type in ("softbreak", "hardbreak"):
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
                if not self.text.startswith(token.content, start):
                    # A link is displayed decoded, and a script without its backslashes.
                    around = self.tokens[index - 1].type
                    closing = {"sub_open": "~", "sup_open": "^"}.get(around, ">")
                    end = self.text.index(closing, start)
                self.add(shown, token.content, start, end)
        if outer is not None:  # it is not closed
            outer.extend(shown)
            return outer
        return shown

    def add(self, shown: MappedText, text: str, start: int, end: int) -> None:
        if text:
            shown.add(text, self.source_offset(start), self.source_offset(end - 1) + 1)

    def source_offset(self, offset: int) -> int:
        piece = max(bisect_right(self.offsets, offset) - 1, 0)
        return self.sources[piece] + offset - self.offsets[piece]
