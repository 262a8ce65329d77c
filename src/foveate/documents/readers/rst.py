"""reStructuredText by docutils, including the roles and directives of Sphinx.

The tree of docutils is written as the elements of a web page, which know the lines of their source.
Nothing is registered with docutils, whose registries are global: unknown roles and directives are
read from the errors that it leaves in the tree.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from textwrap import dedent
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, roles
from docutils.utils import new_document

from foveate.documents import formulas
from foveate.documents.blocks import (
    Block,
    Heading,
    ParsedText,
    check_closed,
    collapse,
    compose_text,
    lift_title,
)
from foveate.documents.metadata import clean_names, first_date, split_names
from foveate.documents.numerals import format_number
from foveate.documents.readers import html
from foveate.documents.readers.html import tree
from foveate.documents.structure import DocumentError
from foveate.documents.words import load_words, name_set

_PEP = re.compile(r"\s*PEP:[ \t]*\d")
_ROLE = re.compile(r"(?::[\w:.+-]+:)?`[~!]?(.*?)(?:\s*<[^<>]*>)?`(?::[\w:.+-]+:)?", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*\.\. +([\w:.+-]+) ?::")
_OPENING = re.compile(  # of what docutils seeks the end; and what is within a run of such marks
    r"(?<!\S)[*`|](?=\S)|(?<=[*`|]{2})[*`|](?=[*`|])|(?<=\+-)\+(?=-\+)"
)
_CLOSING = re.compile(r"(?<=[^\s*`|])[*`|](?!\w)")
_OPTION = re.compile(r"\s*:[\w-]+:")
_WORDS = load_words("directives")
_HIDDEN = tuple(getattr(nodes, name) for name in _WORDS["rst"]["hidden"].split())
_TAGS: dict[type[nodes.Node], str] = {
    getattr(nodes, name): tag for tag, names in _WORDS["rst_tags"].items() for name in names.split()
}
_NUMERALS = {"loweralpha": "a", "upperalpha": "A", "lowerroman": "i", "upperroman": "I"}
_CODE_DIRECTIVES, _NOT_PROSE_DIRECTIVES = (
    name_set(_WORDS["rst"][kind]) for kind in ("code", "skipped")
)
_PUNCTUATION = ".,;:!?)"


def read(text: str) -> ParsedText:
    """Read headings, paragraphs, tables, code and formulas; images are skipped."""
    check_closed(text, _OPENING, _CLOSING)
    is_pep = _PEP.match(text) is not None
    registered = dict(roles._roles)  # a text may define roles
    try:
        document = _parse(text, is_pep)
        blocks = list(_Converter(document).blocks(document, 0))
    except Exception as error:  # docutils fails in many ways on malformed or very deep markup
        raise DocumentError(
            f"cannot be read as reStructuredText ({type(error).__name__}): "
            "simplify its markup or read it as plain text."
        ) from error
    finally:
        roles._roles = registered
    fields = _bibliographic_fields(document)
    title = next((collapse(text) for text in fields["title"]), None)
    lifted = ParsedText(title, blocks) if title else lift_title(blocks)
    parsed = compose_text(lifted.title, lifted.blocks)
    authors = chain.from_iterable(map(split_names, fields["author"] + fields["authors"]))
    parsed.authors = clean_names(authors)
    parsed.date = first_date(fields["date"] + fields["created"])
    return parsed


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


def _header(children: Iterable[nodes.Node]) -> nodes.field_list | None:
    """Return the list of fields that a document begins with."""
    first = next((node for node in children if not isinstance(node, nodes.comment)), None)
    return first if isinstance(first, nodes.field_list) else None


def _bibliographic_fields(document: nodes.document) -> defaultdict[str, list[str]]:
    """Return the paragraphs of each field at the start of the document or below its title."""
    fields: defaultdict[str, list[str]] = defaultdict(list)
    header = _header(document.children)
    sections = [node for node in document.children if isinstance(node, nodes.section)]
    if header is None and len(sections) == 1:
        header = _header(sections[0].children[1:])
    for field in header.children if header else ():
        name = field.children[0].astext().casefold()
        fields[name] += [one.astext() for one in field.findall(nodes.paragraph)]
    return fields


class _Converter(tree.Builder):
    """Writes a docutils tree as the elements of HTML, which the reader of web pages understands."""

    def __init__(self, document: nodes.document) -> None:
        super().__init__()
        self.header = _header(document.children)
        self.first_line = 0  # of the source of the current tree
        self.place = ""
        self.substitutions: dict[str, Any] = dict(document.substitution_defs)

    def blocks(self, part: nodes.Element, level: int) -> Iterator[Block]:
        """Yield the blocks of the document or a section, and those of its sections."""
        root = tree.Element("")
        for child in part.children:
            if isinstance(child, nodes.section):
                yield from html.read_elements(root)
                root = tree.Element("")
                yield from self.blocks(child, level + 1)
            elif isinstance(child, nodes.title):
                self.add_all(child.children, heading := tree.Element(""))
                yield Heading(level, heading.text())
            else:
                self.add(child, root)
        yield from html.read_elements(root)

    def add_all(self, children: Sequence[nodes.Node], parent: tree.Element) -> None:
        for index, child in enumerate(children):
            if isinstance(child, nodes.Text):
                is_marked = _is_before_mark(children[index + 1 : index + 3])
                shown = child.astext()
                self.show(shown.rstrip() if is_marked else shown, parent)
            else:
                self.add(child, parent)

    def add(self, node: Any, parent: tree.Element) -> None:
        is_title = isinstance(node, nodes.title) and not isinstance(node.parent, nodes.table)
        if node is self.header or is_title or isinstance(node, _HIDDEN):  # a title of a topic
            return
        if node.line:
            self.place = f"line {self.first_line + node.line}"
        if isinstance(node, nodes.system_message):
            self.add_directive(node, parent)
        elif isinstance(node, (nodes.math, nodes.math_block)):
            is_block = isinstance(node, nodes.math_block)
            math = self.element(parent, "math", {"display": "block"} if is_block else {})
            self.show(formulas.from_latex(node.astext()), math)
        elif isinstance(node, (nodes.footnote_reference, nodes.citation_reference)):
            self.show(f"[{node.astext()}]" if node.astext() else "", parent)
        elif isinstance(node, nodes.problematic):
            role = _ROLE.fullmatch(node.astext())
            self.show(role[1] if role else node.astext(), parent)
        elif isinstance(node, nodes.substitution_reference):
            definition = self.substitutions.get(node["refname"], node)
            self.show(definition.astext(), parent)
        else:
            tag, attributes = _TAGS.get(type(node), "span"), self.attributes(node)
            is_head = tag == "td" and isinstance(node.parent.parent, nodes.thead)
            self.add_all(node.children, self.element(parent, "th" if is_head else tag, attributes))

    def attributes(self, node: nodes.Element) -> dict[str, str]:
        """Return what HTML says of an element in its attributes: its place, its label, its span."""
        label = ""
        attributes = {"data-place": self.place}
        if isinstance(node, (nodes.field, nodes.option_list_item)):
            label = f"{node.children[0].astext()}: "
        elif isinstance(node, (nodes.footnote, nodes.citation)):
            mark = next(iter(node.findall(nodes.label)), None)
            label = f"[{mark.astext()}] " if mark else ""
            is_note = isinstance(node, nodes.footnote)
            attributes["role"] = "doc-footnote" if is_note else "doc-biblioentry"
        elif isinstance(node.parent, nodes.enumerated_list):
            numbered, style = node.parent, _NUMERALS.get(node.parent["enumtype"], "1")
            number = format_number(numbered.get("start", 1) + numbered.index(node), style)
            label = f"{numbered['prefix']}{number}{numbered['suffix']} "
        elif isinstance(node, (nodes.literal_block, nodes.doctest_block)):
            attributes["class"] = "code"
        elif isinstance(node, nodes.entry):
            attributes["colspan"] = str(node.get("morecols", 0) + 1)
            attributes["rowspan"] = str(node.get("morerows", 0) + 1)
        return attributes | ({"data-label": label} if label else {})

    def add_directive(self, message: nodes.system_message, parent: tree.Element) -> None:
        """Write the content of an unknown directive, which docutils keeps with its error."""
        block = next(iter(message.findall(nodes.literal_block)), None)
        named = _DIRECTIVE.match(block.astext()) if block else None
        if block is None or named is None or named[1] in _NOT_PROSE_DIRECTIVES:
            return
        lines = block.astext().split("\n")[1:]
        content = dedent("\n".join("" if _OPTION.match(line) else line for line in lines))
        if named[1] in _CODE_DIRECTIVES:
            self.add(nodes.literal_block(content, content), parent)
            return
        document = _parse(content)
        self.substitutions |= document.substitution_defs
        around = self.first_line
        self.first_line += message["line"]
        self.add_all(document.children, parent)
        self.first_line = around


def _is_before_mark(following: Sequence[nodes.Node]) -> bool:
    """Return whether a footnote's mark that is not shown comes next, before punctuation."""
    mark, *after = following or [None]
    return isinstance(mark, nodes.footnote_reference) and not (
        mark.astext() or any(one.astext()[:1] not in _PUNCTUATION for one in after)
    )
