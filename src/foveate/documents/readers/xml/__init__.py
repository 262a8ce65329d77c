"""The reader behind JATS and TEI: an XML article as nested sections of paragraphs.

Nothing is ever fetched: an external DTD is ignored. A document that declares its own entities is
rejected, because they can expand without end or name other files.
"""

import re
from collections import Counter
from dataclasses import dataclass
from html.entities import html5
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from foveate.documents import formulas
from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    definition_blocks,
    name_set,
)
from foveate.documents.scripts import signs
from foveate.documents.structure import DocumentError, Kind
from foveate.documents.tables import Cell, table_blocks

_ELEMENT = re.compile(r"<!--.*?-->|<(?:[\w.-]+:)?([^\s!?/>:]+)", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*\s*$")
_OPEN_BRACKET = re.compile(r"[\[(][^\[\]()]*\Z")
_SPAN = re.compile(r"\d{1,5}")
_CELL_BLOCKS = name_set("p list-item item break lb")
_FORMATS = {"article": "jats", "TEI": "tei", "teiCorpus": "tei", "html": "html"}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The roles of the elements of an XML format, by element name.

    Attributes:
        header: The element that says who wrote the document and when.
        title: Parent and child whose text is the document's title.
        parts: Elements that hold content.
        sections: Elements that are sections.
        heading: Child of a section that is its heading, or of a caption that begins it.
        blocks: Elements that are paragraphs.
        kinds: Elements whose paragraphs are of a kind.
        floats: Elements that are set apart from the paragraph that they interrupt.
        labels: Parents and children whose text begins the next paragraph.
        terms: Elements whose text the next paragraph defines.
        rows: Elements that are rows of a table.
        cells: Elements that are cells of a table.
        entries: Elements that are entries of a bibliography.
        separators: What is written between the children of an element.
        openings: What is written before an element instead.
        breaks: Elements that separate words within a paragraph.
        hidden: Elements that hold no content.
        default_headings: Headings of sections without one.
    """

    header: str
    title: tuple[str, str]
    parts: frozenset[str]
    sections: frozenset[str]
    heading: str
    blocks: frozenset[str]
    kinds: dict[str, Kind]
    floats: frozenset[str]
    labels: frozenset[tuple[str, str]]
    terms: frozenset[str]
    rows: frozenset[str]
    cells: frozenset[str]
    entries: frozenset[str]
    separators: dict[str, str]
    openings: dict[str, str]
    breaks: frozenset[str]
    hidden: frozenset[str]
    default_headings: dict[str, str]


def format_of_root(text: str) -> str:
    """Return the format of the outermost element.

    Raises:
        DocumentError: The text is XML of an unknown format, or not XML.
    """
    root = next((match[1] for match in _ELEMENT.finditer(text) if match[1]), None)
    if root is None:
        raise DocumentError("is not XML: name its format.")
    if root not in _FORMATS:
        raise DocumentError(
            f"is XML with the root <{root}>; only JATS (<article>), TEI (<TEI>) and "
            "XHTML (<html>) can be read: convert it to one of them."
        )
    return _FORMATS[root]


def read(text: str, vocabulary: Vocabulary) -> tuple[ParsedText, Element]:
    """Read headings and paragraphs according to a vocabulary.

    Returns:
        The text, and the header as a tree whose names have no namespace, empty if there is none.
    """
    handler = _Handler(text, vocabulary)
    try:
        handler.parse()
    except expat.ExpatError as error:
        raise DocumentError(
            f"is not well-formed XML ({error}): correct it there, or name another format."
        ) from error
    return ParsedText(collapse(handler.title) or None, handler.blocks), handler.header.close()


@dataclass(slots=True)
class _Open:
    """An open element."""

    name: str
    roles: list[str]
    kind: Kind
    num_children: int = 0  # so far


class _Handler:
    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.source = text.encode()
        self.vocabulary = vocabulary
        self.seen_bytes = self.seen_characters = 0
        self.title = MappedText()
        self.blocks: list[Block] = []
        self.shown = MappedText()
        self.open: list[_Open] = []
        self.within: Counter[str] = Counter()  # roles of the open elements
        self.headings: list[Heading] = []  # of the open sections
        self.ended_level = 0  # of the section that ended last, until another one starts
        self.label = MappedText()  # that begins the next paragraph
        self.terms: list[MappedText] = []  # that the next paragraph defines
        self.rows: list[list[Cell]] = []  # of the open table
        self.num_head_rows = 0
        self.separator = ""  # before the next visible text
        self.header = _Tree(vocabulary.header)
        self.formula: _Tree | None = None  # the open one
        self.formula_start = 0
        self.script: list[tuple[str, int, int]] | None = None  # pieces of the open one
        self.shown_last = ""  # the end of what has been shown

    def parse(self) -> None:
        self.parser = expat.ParserCreate("utf-8")  # whatever the file declares: it has been decoded
        self.parser.buffer_text = False
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.SkippedEntityHandler = self.skipped_entity
        self.parser.EntityDeclHandler = _reject_entities
        self.parser.ExternalEntityRefHandler = _reject_entities
        self.parser.Parse(self.source, True)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.header.start(name, attributes)
        parent = self.open[-1] if self.open else _Open("", [], "prose")
        roles = self.roles(name, attributes, parent)
        at = self.source_offset()
        if not self.within["hidden"]:
            self.separate(name, parent, at)
        if {"blocks", "floats", "label"}.intersection(roles):  # a label begins a paragraph
            self.flush()
        if "label" in roles or ("entries" in roles and not self.within["cells"]):
            self.end_rows()  # of a table below whose first rows it stands
        if "sections" in roles and (self.within["parts"] or "parts" in roles):
            self.flush()
            heading = Heading(
                len(self.headings) + 1, self.vocabulary.default_headings.get(name, "")
            )
            self.headings.append(heading)
            self.blocks.append(heading)
            self.ended_level = 0
        elif "parts" in roles and self.blocks:
            self.ended_level = 1
        if "heading" in roles:
            self.headings[-1].text = ""
        if "terms" in roles:
            self.end_float("prose")  # a label belongs to what follows it directly
            self.terms.append(MappedText())
        if "rows" in roles:
            if not self.rows:
                self.end_float("caption")
            self.rows.append([])
            is_head = self.within["table heads"] or attributes.get("role") == "label"
            self.num_head_rows += bool(is_head and self.num_head_rows == len(self.rows) - 1)
        if "cells" in roles and self.rows:
            self.rows[-1].append(_cell(name, attributes))
        if "math" in roles and self.formula is None:
            self.formula, self.formula_start = _Tree(name), at
        if self.formula is not None:
            self.formula.start(name, attributes)
        if "script" in roles and self.script is None:
            self.script = []
        parent.num_children += 1
        self.open.append(_Open(name, roles, self.vocabulary.kinds.get(name, parent.kind)))
        self.within.update(roles)

    def separate(self, name: str, parent: _Open, at: int) -> None:
        """Record or show what is written between an element and what comes before it."""
        if name in self.vocabulary.breaks or (self.within["cells"] and name in _CELL_BLOCKS):
            self.show(" ", at, at)
        if self.within["entries"] and parent.num_children:
            separator = self.vocabulary.separators.get(parent.name, self.separator)
            self.separator = self.vocabulary.openings.get(name, separator)

    def end(self, name: str) -> None:
        element = self.open[-1]
        roles = element.roles
        self.header.end(element.name)
        if self.formula is not None:
            self.formula.end(element.name)
            if self.formula.is_over:
                tree, self.formula = self.formula.close(), None
                self.show(formulas.from_mathml(tree), self.formula_start, self.source_offset())
        if element.name in self.vocabulary.breaks:
            at = self.source_offset()
            self.show(" ", at, at)
        if "script" in roles and self.within["script"] == 1:
            self.end_script(roles[1])
        if {"blocks", "sections", "floats"}.intersection(roles):
            self.flush()
        if "floats" in roles:
            self.end_float(element.kind)
        if "tables" in roles:
            self.end_rows()
        if "sections" in roles and self.headings:
            self.ended_level = self.headings.pop().level
        self.open.pop()
        self.within.subtract(roles)

    def end_script(self, role: str) -> None:
        """Show a superscript or subscript, or the number of a reference, which may be one."""
        pieces, self.script = self.script or [], None
        script = "".join(text for text, _, _ in pieces)
        is_listed = role == "reference" and _OPEN_BRACKET.search(self.shown_last)  # [2,3]
        around = ("", "") if is_listed else signs(self.shown_last, script, is_raised=role != "sub")
        if around is None or not script.strip():
            return
        around = ("", "") if role == "reference" else around
        self.show(around[0], pieces[0][1], pieces[0][1])
        for piece in pieces:
            self.show(*piece)
        self.show(around[1], pieces[-1][2], pieces[-1][2])

    def end_rows(self) -> None:
        """End the rows of the open table, if any."""
        for row in table_blocks(self.rows, self.num_head_rows):
            self.append(row)
        self.rows, self.num_head_rows = [], 0

    def roles(self, name: str, attributes: dict[str, str], parent: _Open) -> list[str]:
        """Return the roles of an element in its context."""
        if self.within["hidden"]:
            return []
        vocabulary, within = self.vocabulary, self.within
        is_mark = attributes.get("ref-type") in ("fn", "table-fn")
        is_mark |= (parent.name, name) == ("disp-formula", "label")
        if name in vocabulary.hidden or "fn-type" in attributes or is_mark:
            return ["hidden"]
        is_reference = "bibr" in (attributes.get("ref-type"), attributes.get("type"))
        if is_reference and within["script"]:
            return ["hidden"]
        look = attributes.get("rend", "") if name == "hi" else name
        if is_reference or look.startswith(("sup", "sub")):
            return ["script", "reference" if is_reference else look[:3]]
        if name == "disp-formula" and not within["cells"]:
            return ["blocks"] if not self.shown or self.is_sentence_over() else []
        if name in vocabulary.floats and self.shown and not self.is_sentence_over():
            return ["hidden"]  # rather than tearing the sentence apart
        roles = [role for role in ("parts", "sections") if name in getattr(vocabulary, role)]
        if within["cells"]:
            return ["math"] if name == "math" else []
        roles += [role for role in ("floats", "entries") if name in getattr(vocabulary, role)]
        if name in vocabulary.terms and not self.shown:  # else it is a word of a sentence
            roles.append("terms")
        is_heading = name == vocabulary.heading
        if (parent.name, name) in vocabulary.labels and not within["terms"]:
            roles.append("label")
        elif is_heading and self.headings and parent.name in vocabulary.sections:
            roles.append("heading")
        elif is_heading and parent.kind == "caption":
            roles.append("blocks")
        if (name in vocabulary.blocks or name in vocabulary.entries) and not within["entries"]:
            roles.append("blocks")
        if name == "table" and within["parts"]:
            roles += ["blocks", "tables"]
        if within["tables"] and not within["label"]:  # a caption holds no rows
            roles += [role for role in ("rows", "cells") if name in getattr(vocabulary, role)]
        if name == "thead":
            roles.append("table heads")
        if name == "math":
            roles.append("math")
        if (parent.name, name) == vocabulary.title and not self.title:
            roles.append("title")
        return roles

    def is_sentence_over(self) -> bool:
        """Return whether the current paragraph could end here."""
        return _SENTENCE_END.search(self.shown.tail(10)[-10:]) is not None

    def data(self, data: str) -> None:
        self.header.data(data)
        if self.formula is not None:
            self.formula.data(data)
            return
        start = self.source_offset()
        written = data.encode()
        at = self.parser.CurrentByteIndex
        if self.source.startswith(written, at):
            self.show(data, start, start + len(data))
        else:  # a reference, or a line break of several characters
            end = self.source.find(b";", at) if self.source[at] == ord("&") else at
            self.show(data, start, start + end + 1 - at)

    def skipped_entity(self, name: str, is_parameter: bool) -> None:
        """Show an entity of the DTD, which is not fetched, if HTML has one of that name."""
        if not is_parameter:
            start = self.source_offset()
            shown = html5.get(f"{name};", " ")
            self.header.data(shown)
            self.show(shown, start, start + len(name) + 2)

    def show(self, text: str, start: int, end: int) -> None:
        """Add the text displayed for a stretch of source to what it is a part of."""
        within = self.within
        if within["hidden"] or not text:
            return
        if self.script is not None:
            self.script.append((text, start, end))
            return
        self.shown_last = (self.shown_last + text)[-100:]
        if within["title"]:
            self.title.add(text, start, end)
        elif within["heading"]:
            self.headings[-1].text += text
        elif not within["parts"]:
            return
        elif within["cells"]:
            if self.rows and self.rows[-1]:
                self.rows[-1][-1].text.add(text, start, end)
        elif within["label"]:
            self.label.add(text, start, end)
        elif within["terms"]:
            self.terms[-1].add(text, start, end)
        elif within["blocks"] and not (within["tables"] and not within["entries"]):
            self.show_in_block(text, start, end)

    def show_in_block(self, text: str, start: int, end: int) -> None:
        if (
            self.within["entries"]
            and text.isspace()
            and self.open[-1].name in self.vocabulary.separators
        ):
            return
        if self.separator and not text.isspace():
            if self.shown:
                is_ended = self.shown.tail(10).rstrip().endswith((".", ",", ";", ":", "?", "!"))
                self.shown.add(" " if is_ended else self.separator, start, start)
            self.separator = ""
        self.shown.add(text, start, end)

    def flush(self) -> None:
        """End the current paragraph, if any."""
        if self.shown:
            kind = self.open[-1].kind if self.open else "prose"
            shown = self.shown
            if self.label:
                shown = _labelled(self.label, shown, kind)
                self.label = MappedText()
            terms = [term for term in self.terms if term]
            self.terms = []
            for block in definition_blocks(terms, shown, kind):
                self.append(block)
        self.shown = MappedText()
        self.separator = ""

    def end_float(self, kind: Kind) -> None:
        """Forget the label of a figure without a caption, or read it if it says something."""
        if len(str(self.label).split()) > 2:
            first, _ = self.label.source_span(0, 1)
            for i, term in enumerate(self.terms):  # which no definition has followed
                if term and term.source_span(0, 1)[0] < first:
                    self.append(Prose(term, kind="prose"))
                    self.terms[i] = MappedText()
            self.append(Prose(self.label, kind=kind))
        self.label = MappedText()

    def append(self, block: Prose) -> None:
        if self.ended_level:  # text that follows a subsection does not belong to it
            self.blocks.append(Heading(self.ended_level, ""))
            self.ended_level = 0
        self.blocks.append(block)

    def source_offset(self) -> int:
        """Return the current offset in characters; expat counts bytes."""
        at = self.parser.CurrentByteIndex
        self.seen_characters += len(self.source[self.seen_bytes : at].decode())
        self.seen_bytes = at
        return self.seen_characters


class _Tree:
    """Keeps the first element of a name as a tree, such as the header of a document."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.builder = TreeBuilder()
        self.depth = 0  # of the open elements of the header
        self.is_over = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self.depth or (name == self.name and not self.is_over):
            self.depth += 1
            self.builder.start(
                name, {key.rpartition(":")[2]: value for key, value in attributes.items()}
            )

    def data(self, data: str) -> None:
        if self.depth:
            self.builder.data(data)

    def end(self, name: str) -> None:
        if self.depth:
            self.builder.end(name)
            self.depth -= 1
            self.is_over = not self.depth

    def close(self) -> Element:
        return self.builder.close() if self.is_over else Element(self.name)


def _cell(name: str, attributes: dict[str, str]) -> Cell:
    spans = (
        attributes.get(one) or attributes.get(other) or "1"
        for one, other in (("colspan", "cols"), ("rowspan", "rows"))
    )
    columns, rows = (int(span) if _SPAN.fullmatch(span) else 1 for span in spans)
    is_head = name == "th" or attributes.get("role") == "label"
    return Cell(MappedText(), is_head, columns, rows)


def _labelled(label: MappedText, shown: MappedText, kind: Kind) -> MappedText:
    """Put a label before a paragraph: "Table 1: ", "[1] "."""
    written = str(label)
    visible = written.rstrip(" \t\r\n.:") if kind == "caption" else written.rstrip()
    label = label.part(0, len(visible)).stripped()
    if not label:
        return shown
    _, end = label.source_span(0, len(str(label)))
    sign = ":" if kind == "caption" else "." if str(label)[-1].isalnum() else ""
    joined = MappedText()
    joined.extend(label)
    joined.add(f"{sign} ", end, end)
    joined.extend(shown.stripped())
    return joined


def _reject_entities(*_: object) -> NoReturn:
    raise DocumentError("declares or fetches XML entities, which is refused: write them out.")
