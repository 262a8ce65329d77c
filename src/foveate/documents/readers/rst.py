"""reStructuredText by docutils, including the roles and directives of Sphinx.

docutils keeps the raw text of paragraphs and inline elements, but not their offsets. They are found
again: the lines of a paragraph at the source line that docutils gives, or else in order; inline
elements from left to right, since raw text and displayed text differ only in markup and
backslashes. Nothing is registered with docutils, whose registries are global: unknown roles and
directives are read from the errors that it leaves in the tree.
"""

import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, roles
from docutils.utils import new_document

from foveate.documents import formulas
from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    check_closed,
    code_lines,
    collapse,
    definition_blocks,
    lift_title,
    name_set,
)
from foveate.documents.metadata import clean_names, first_date, split_names
from foveate.documents.scripts import signs
from foveate.documents.structure import DocumentError, Kind
from foveate.documents.tables import Cell, table_blocks

_PEP = re.compile(r"\s*PEP:[ \t]*\d")
_ROLE = re.compile(r"(?::[\w:.+-]+:)?`[~!]?(.*?)(?:\s*<[^<>]*>)?`(?::[\w:.+-]+:)?", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*\.\. +([\w:.+-]+) ?::")
_OPENING = re.compile(  # of what docutils seeks the end; and what is within a run of such marks
    r"(?<!\S)[*`|](?=\S)|(?<=[*`|]{2})[*`|](?=[*`|])|(?<=\+-)\+(?=-\+)"
)
_CLOSING = re.compile(r"(?<=[^\s*`|])[*`|](?!\w)")
_PAGE_BREAK = re.compile("[\v\f]")
_OPTION = re.compile(r"\s*:[\w-]+:")
_NOT_PROSE = (
    nodes.comment,
    nodes.image,
    nodes.label,
    nodes.substitution_definition,
    nodes.raw,
    nodes.pending,
)
_CODE_DIRECTIVES = name_set(
    "productionlist testcode testsetup testcleanup testoutput doctest ipython code-block "
    "sourcecode prompt jupyter-execute parsed-literal console"
)
_NOT_PROSE_DIRECTIVES = name_set(
    "toctree index highlight literalinclude mermaid graphviz digraph graph plot tabularcolumns "
    "canonical-doc canonical-pypa-spec canonical-typing-spec"
)


_KINDS: dict[type[nodes.Node], Kind] = {
    nodes.list_item: "item",
    nodes.footnote: "footnote",
    nodes.citation: "reference",
    nodes.caption: "caption",
}
_PUNCTUATION = ".,;:!?)"
_FARTHEST = 100  # lines until a cell whose place docutils does not know
_NUMBER = re.compile(r"\(?(?:\d+|[A-Za-z]|[ivxlcdmIVXLCDM]+)[.)](?=\s*$)")


def read(text: str) -> ParsedText:
    """Read headings, paragraphs, tables, code and formulas; images are skipped."""
    check_closed(text, _OPENING, _CLOSING)
    is_pep = _PEP.match(text) is not None
    registered = dict(roles._roles)  # a text may define roles
    try:
        document = _parse(text, is_pep)
        blocks = _in_order(list(_RstBlocks(text).blocks(document, 0)))
    except Exception as error:  # docutils fails in many ways on malformed or very deep markup
        raise DocumentError(
            f"cannot be read as reStructuredText ({type(error).__name__}): "
            "simplify its markup or read it as plain text."
        ) from error
    finally:
        roles._roles = registered
    title = _field(document, "title")
    parsed = ParsedText(title, blocks) if title else lift_title(blocks)
    fields = _bibliographic_fields(document)
    authors = chain.from_iterable(map(split_names, fields["author"] + fields["authors"]))
    parsed.authors = clean_names(authors)
    parsed.date = first_date(fields["date"] + fields["created"])
    return parsed


def read_part(text: str, start: int) -> Iterator[Block]:
    """Read a part of a text in another format, such as a table in a grid.

    Args:
        text: The part.
        start: Its offset in the source.
    """
    return _RstBlocks(text, start).blocks(_parse(text), 0)


@cache
def _settings() -> Any:
    """Return the settings of the parser, which take docutils milliseconds to make."""
    settings = get_default_settings(Parser)
    settings.report_level = 5
    settings.halt_level = 6
    settings.warning_stream = False
    settings.file_insertion_enabled = False
    settings.raw_enabled = False
    settings.line_length_limit = sys.maxsize
    settings.syntax_highlight = "none"
    return settings


def _parse(text: str, is_pep: bool = False) -> nodes.document:
    document = new_document("", _settings().copy())
    Parser(rfc2822=is_pep).parse(text, document)
    return document


def _field(document: nodes.document, name: str) -> str | None:
    """Return a field of the list at the start of the document."""
    header = _header(document)
    for field in header.children if header else ():
        if field.children[0].astext().casefold() == name:
            return collapse(field.children[1].astext()) or None
    return None


def _header(document: nodes.document) -> nodes.field_list | None:
    return _leading_fields(document.children)


def _leading_fields(children: Iterable[nodes.Node]) -> nodes.field_list | None:
    first = next((node for node in children if not isinstance(node, nodes.comment)), None)
    return first if isinstance(first, nodes.field_list) else None


def _bibliographic_fields(document: nodes.document) -> defaultdict[str, list[str]]:
    """Return the paragraphs of each field at the start of the document or below its title."""
    fields: defaultdict[str, list[str]] = defaultdict(list)
    header = _header(document)
    sections = [node for node in document.children if isinstance(node, nodes.section)]
    if header is None and len(sections) == 1:
        header = _leading_fields(sections[0].children[1:])
    for field in header.children if header else ():
        name = field.children[0].astext().casefold()
        fields[name] += [one.astext() for one in field.findall(nodes.paragraph)]
    return fields


def _in_order(blocks: list[Block]) -> list[Block]:
    """Leave out rows of tables that were found after what follows them.

    docutils does not know where the cells of a CSV table are written.
    """
    kept: list[Block] = []
    next_start = sys.maxsize
    for block in reversed(blocks):
        if isinstance(block, Prose) and block.text:
            start, end = block.text.source_span(0, len(str(block.text)))
            if block.kind == "table" and end > next_start:
                continue
            next_start = min(next_start, start)
        kept.append(block)
    return kept[::-1]


class _RstBlocks:
    """Turns a docutils tree into blocks, and finds the offsets of their text in the source."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.lines: list[tuple[int, str]] = []
        offset = start
        for line in _PAGE_BREAK.sub(" ", text).splitlines(keepends=True):  # as docutils counts
            self.lines.append((offset, line))
            offset += len(line)
        self.squeezed = ["".join(line.split()) for _, line in self.lines]
        self.next_line = 0
        self.substitutions: dict[str, Any] = {}
        self.end = start  # offset after the last paragraph or row
        self.names: list[tuple[str, str]] = []  # as shown and written: they begin a paragraph
        self.terms: list[MappedText] = []  # that the next paragraph defines

    def blocks(self, document: nodes.document, first_line: int) -> Iterator[Block]:
        """Yield the blocks of a tree whose source starts on a line."""
        self.substitutions |= document.substitution_defs
        header = _header(document)
        pending: list[tuple[nodes.Node, int, Kind]] = [(document, 0, "prose")]
        while pending:
            node, level, kind = pending.pop()
            if isinstance(node, nodes.system_message):
                yield from self.directive(node, first_line)
            elif isinstance(node, nodes.title):
                if isinstance(node.parent, (nodes.document, nodes.section)):  # not that of a topic
                    yield Heading(level, self.heading(node))
                elif isinstance(node.parent, nodes.table):
                    yield Prose(self.paragraph(node, first_line), kind="caption")
            elif isinstance(node, nodes.term):
                self.terms.append(self.paragraph(node, first_line))
            elif isinstance(node, (nodes.paragraph, nodes.line, nodes.caption)):
                kind = _KINDS.get(type(node), kind)
                shown = self.named(self.paragraph(node, first_line))
                terms, self.terms = self.terms, []
                yield from definition_blocks(terms, shown, kind)
            elif isinstance(node, (nodes.literal_block, nodes.doctest_block)):
                yield from self.lone_terms()
                yield from code_lines(self.paragraph(node, first_line))
            elif isinstance(node, nodes.math_block):
                written = self.paragraph(node, first_line)
                yield from self.lone_terms()
                if written:
                    place = written.source_span(0, len(str(written)))
                    formula = formulas.from_latex(str(written))
                    yield Prose(MappedText.from_text(formula, *place), kind="formula")
            elif isinstance(node, nodes.tgroup):
                yield from self.table(node, first_line)
            elif isinstance(node, nodes.field_name):
                if node.parent.children[-1].astext().strip():
                    self.names = [(f"{node.astext()}: ", f":{node.astext()}:")]
            elif isinstance(node, nodes.option_group):
                self.names = [(f"{node.astext()}: ", node.astext())]
            elif node is not header and not isinstance(node, _NOT_PROSE):
                if isinstance(node, (nodes.footnote, nodes.citation)):
                    label = next(iter(node.findall(nodes.label)), None)
                    mark = f"[{label.astext()}]" if label else ""
                    self.names = [(f"{mark} ", mark)] if mark else []
                elif isinstance(node, nodes.list_item):
                    self.names = [("", "")]  # its number, if it has one
                inner = level + isinstance(node, nodes.section)
                kind = kind if kind == "footnote" else _KINDS.get(type(node), kind)
                pending.extend((child, inner, kind) for child in reversed(node.children))
        yield from self.lone_terms()

    def lone_terms(self) -> Iterator[Prose]:
        """Yield the terms that no paragraph defines."""
        yield from (Prose(term) for term in self.terms)
        self.terms = []

    def paragraph(self, node: Any, first_line: int) -> MappedText:
        raw = node.rawsource or node.astext()
        shown = self.display(node, raw, self.find(raw, first_line + (node.line or 0) - 1))
        if shown:
            self.end = max(self.end, shown.source_span(0, len(str(shown)))[1])
        return shown

    def named(self, shown: MappedText) -> MappedText:
        """Put the name of a field, option or footnote, or the number of an item before a text."""
        names, self.names = self.names, []
        if not names or not shown:
            return shown
        [(name, written)] = names
        first, _ = shown.source_span(0, 1)
        line = max(bisect_right(self.lines, (first, "\U0010ffff")) - 1, 0)
        start, text = self.lines[line]
        before = text[: first - start]
        if not written:
            number = _NUMBER.search(before)
            if number is None:
                return shown
            name, written = f"{number[0]} ", number[0]
        at = before.rfind(written)
        start, end = (start + at, start + at + len(written)) if at >= 0 else (first, first)
        joined = MappedText()
        joined.add(name, start, end)
        joined.extend(shown)
        return joined

    def table(self, group: nodes.tgroup, first_line: int) -> Iterator[Prose]:
        """Yield the rows of a table. Cells are found by line: those of a grid are side by side."""
        parts = [part for part in group.children if isinstance(part, (nodes.thead, nodes.tbody))]
        heads = [row for part in parts if isinstance(part, nodes.thead) for row in part.children]
        rows = [
            [
                self.cell(entry, first_line)
                for entry in row.children
                if isinstance(entry, nodes.entry)
            ]
            for part in parts
            for row in part.children
        ]
        for block in table_blocks(rows, num_head_rows=len(heads)):
            start, end = block.text.source_span(0, len(str(block.text)))
            if start >= self.end and end > start:
                self.end = end
                yield block

    def cell(self, entry: Any, first_line: int) -> Cell:
        texts: list[str] = []
        first = last = -1
        for node in entry.findall(nodes.paragraph):
            if isinstance(node.parent, nodes.system_message):
                continue
            raw = node.rawsource or node.astext()
            texts.append(str(self.display(node, raw, list(range(len(raw) + 1)))))
            found = self.find_in_row(raw, first_line + (node.line or 0) - 1)
            first = found if first < 0 else first
            last = max(last, found + raw.count("\n"))
        text = MappedText()
        if texts and first >= 0:
            last = min(last if "morerows" not in entry else first, len(self.lines) - 1)
            start, line = self.lines[first]
            start += len(line) - len(line.lstrip())
            end = self.lines[last][0] + len(self.lines[last][1].rstrip())
            text.add(collapse(" ".join(texts)), start, max(end, start + 1))
        return Cell(text, columns=entry.get("morecols", 0) + 1, rows=entry.get("morerows", 0) + 1)

    def find_in_row(self, raw: str, expected: int) -> int:
        """Return the line on which a paragraph of a cell begins."""
        squeezed = "".join(raw.split("\n", 1)[0].split())
        first = max(self.next_line, bisect_right(self.lines, (self.end, "")))
        near = [line for line in range(expected - 1, expected + 2) if line >= first]
        candidates = chain(near, range(first, first + _FARTHEST))
        found = next(
            (
                line
                for line in candidates
                if line < len(self.lines) and squeezed in self.squeezed[line]
            ),
            first,
        )
        self.next_line = max(self.next_line, found)
        return min(found, len(self.lines) - 1)

    def directive(self, message: nodes.system_message, first_line: int) -> Iterator[Block]:
        """Yield the content of an unknown directive, which docutils keeps with its error."""
        block = next(iter(message.findall(nodes.literal_block)), None)
        named = _DIRECTIVE.match(block.astext()) if block else None
        if block is None or named is None or named[1] in _NOT_PROSE_DIRECTIVES:
            return
        content = block.astext().split("\n")[1:]
        content = ["" if _OPTION.match(line) else line for line in content]
        indent = min(
            (len(line) - len(line.lstrip()) for line in content if line.strip()), default=0
        )
        dedented = "\n".join(line[indent:] for line in content)
        if named[1] in _CODE_DIRECTIVES:
            block = nodes.literal_block(dedented, dedented)
            block.line = message["line"] + 1
            yield from code_lines(self.paragraph(block, first_line))
            return
        document = _parse(dedented)
        yield from self.blocks(document, first_line + message["line"])

    def find(self, raw: str, expected: int) -> list[int]:
        """Return the source offset of each character of a paragraph's raw text."""
        squeezed = ["".join(line.split()) for line in raw.split("\n")]
        candidates = chain([expected], range(self.next_line, len(self.lines)))
        first = next((line for line in candidates if self.matches(squeezed, line)), self.next_line)
        self.next_line = max(self.next_line, first)
        offsets: list[int] = []
        for number, line in enumerate(raw.split("\n"), first):
            offset, source = self.lines[min(number, len(self.lines) - 1)]
            visible = [offset + i for i, letter in enumerate(source) if not letter.isspace()]
            rest = iter(visible[len(visible) - len("".join(line.split())) :])
            for letter in line + "\n":
                after = offsets[-1] + 1 if offsets else offset
                offsets.append(after if letter.isspace() else next(rest, after))
        return offsets

    def matches(self, squeezed: list[str], first: int) -> bool:
        """Return whether the source lines from `first` on end with these lines, without spaces."""
        if not 0 <= first <= len(self.squeezed) - len(squeezed):
            return False
        return all(
            self.squeezed[number].endswith(line) for number, line in enumerate(squeezed, first)
        )

    def heading(self, title: nodes.title) -> str:
        raw = title.rawsource or title.astext()
        return str(self.display(title, raw, list(range(len(raw) + 1))))

    def display(self, node: nodes.Element, raw: str, offsets: list[int]) -> MappedText:
        """Return the displayed text of a paragraph's children with its source offsets."""
        shown = MappedText()
        at = 0
        for index, child in enumerate(node.children):
            written = getattr(child, "rawsource", "")
            if isinstance(child, nodes.Text):
                text = child.astext()
                if self.is_before_mark(node.children[index + 1 : index + 3]):
                    text = text.rstrip()
                at = _add_literally(shown, text, raw, at, offsets)
            elif written and (start := raw.find(written, at)) >= 0:
                text = self.displayed(child)
                at = start + len(written)
                if isinstance(child, (nodes.superscript, nodes.subscript)):
                    is_raised = isinstance(child, nodes.superscript)
                    around = signs(str(shown), text, is_raised=is_raised)
                    text = "" if around is None else around[0] + text + around[1]
                inside = written.replace("\n", " ").find(text.replace("\n", " "))
                if inside >= 0:
                    _add_literally(shown, text, raw, start + inside, offsets)
                else:
                    shown.add(text, offsets[start], offsets[at - 1] + 1)
        return shown

    def is_before_mark(self, following: Sequence[nodes.Node]) -> bool:
        """Return whether a footnote's mark that is not shown comes next, before punctuation."""
        mark, *after = following or [None]
        return isinstance(mark, nodes.footnote_reference) and not (
            mark.astext() or any(one.astext()[:1] not in _PUNCTUATION for one in after)
        )

    def displayed(self, node: nodes.Node) -> str:
        """Return the displayed text of an inline element."""
        text: str = node.astext()
        if isinstance(node, nodes.problematic):
            role = _ROLE.fullmatch(text)
            return role[1] if role else text
        if isinstance(node, nodes.math):
            return formulas.from_latex(text)
        if isinstance(node, nodes.substitution_reference):
            definition = self.substitutions.get(node["refname"])
            return text if definition is None else str(definition.astext())
        if isinstance(node, (nodes.footnote_reference, nodes.citation_reference)):
            return f"[{text}]" if text else ""
        return text


def _add_literally(shown: MappedText, text: str, raw: str, at: int, offsets: list[int]) -> int:
    """Add a text that the raw text has with backslashes; return where it ends in the raw text."""
    for letter in text:
        while at < len(raw) - 1 and raw[at] != letter:
            if letter.isspace() and raw[at].isspace():
                break
            at += 1
        offset = offsets[min(at, max(len(raw) - 1, 0))]
        shown.add(letter, offset, offset + 1)
        at += 1
    return at
