"""Markdown: CommonMark with tables and YAML front matter.

markdown-it knows the lines of a block but not the offsets within a line. Two steps recover them. A
block's content is its lines without indentation and quotation marks, so that each of its lines is
found at the end of a source line. And a rule that runs before all others notes where in the content
each inline token starts.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose, lift_title

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*(\S.*?)\s*$", re.MULTILINE)
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_MAX_NESTING = 100  # quotations and lists; deeper ones are skipped


def read(text: str) -> ParsedText:
    """Read headings and paragraphs; code, tables, images and HTML are skipped."""
    front = _FRONT_MATTER.match(text)
    parsed = lift_title(list(_blocks(text, front.end() if front else 0)))
    if not parsed.title and front and (title := _TITLE.search(front[0])):
        parsed.title = title[1].strip("\"'")
    return parsed


def _blocks(text: str, start: int) -> Iterator[Block]:
    markdown = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")
    markdown.disable(["text_join", "fragments_join"])  # they would renumber the tokens
    markdown.inline.ruler.before("text", "mark", _mark)
    lines = list(_LINE.finditer(text, start))
    marks: dict[int, list[tuple[int, int]]] = {}
    in_table = False
    heading = None
    for token in markdown.parse(text[start:], {"marks": marks}):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "heading_open":
            heading = int(token.tag[1:])
        elif token.type == "inline" and not in_table:
            content = _Content(token, lines)
            shown = content.display(marks.get(id(token.children), []))
            yield Prose(shown) if heading is None else Heading(heading, str(shown))
            heading = None


def _mark(state: StateInline, silent: bool) -> bool:
    """Note where the tokens of the next rule start; this rule itself never applies."""
    if not silent:
        if state.pending:
            state.pushPending()
        state.env["marks"].setdefault(id(state.tokens), []).append((len(state.tokens), state.pos))
    return False


class _Content:
    """The content of a block, with the source offset of each of its lines."""

    def __init__(self, token: Token, lines: list[re.Match[str]]) -> None:
        assert token.map is not None
        self.text = token.content
        self.tokens = token.children or []
        self.offsets: list[int] = []  # of the first visible character of each line
        self.sources: list[int] = []
        offset = 0
        content_lines = self.text.split("\n")
        for line, source in zip(content_lines, lines[token.map[0] : token.map[1]], strict=False):
            visible = line.strip()
            self.offsets.append(offset + line.find(visible))
            self.sources.append(source.start() + source[0].rfind(visible))
            offset += len(line) + 1

    def display(self, marks: list[tuple[int, int]]) -> MappedText:
        """Return the displayed text."""
        shown = MappedText()
        firsts = [first for first, _ in marks]
        for index, token in enumerate(self.tokens):
            rule = bisect_right(firsts, index) - 1
            start = marks[rule][1] + index - firsts[rule]
            if token.type in ("softbreak", "hardbreak"):
                self.add(shown, " ", start, start + 1)
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
        line = max(bisect_right(self.offsets, offset) - 1, 0)
        return self.sources[line] + offset - self.offsets[line]
