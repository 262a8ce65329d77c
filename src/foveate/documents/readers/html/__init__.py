"""HTML, including malformed HTML: the content of a page without the boilerplate around it."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from xml.etree import ElementTree

from foveate.documents import formulas
from foveate.documents.blocks import (
    UNSPLIT,
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    definition_blocks,
    lift_title,
)
from foveate.documents.numbering import find_numbered
from foveate.documents.numerals import format_number
from foveate.documents.readers.html.content import find_content, is_invisible
from foveate.documents.readers.html.metadata import find_metadata
from foveate.documents.readers.html.tree import INLINE, Element, Text, parse
from foveate.documents.readers.looks import Look, headings_by_look
from foveate.documents.readers.plain.preformatted import is_listing, is_prose
from foveate.documents.scripts import add_script
from foveate.documents.structure import Kind
from foveate.documents.tables import Cell, table_blocks
from foveate.documents.words import name_set

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CODE = re.compile(
    r"(?:highlight\S*|codehilite|code|code-block|sourceCode|literal-?block|programlisting|screen|"
    r"synopsis|lang(?:uage)?-\S+|brush:.*|prettyprint)"
)
_FOOTNOTES = re.compile(r"(?:footnotes?|endnotes?|footnote-list|footnote-definition|mw-footnotes)")
_REFERENCES = re.compile(
    r"(?:references|reflist|mw-references\S*|bibliography|citations?|csl-bib-body|ref-list)"
)
_NOTE_ROLES = name_set("doc-footnote doc-endnote doc-endnotes footnote endnote endnotes")
_REFERENCE_ROLES = name_set("doc-bibliography doc-biblioentry")
_ADMONITIONS = name_set("admonition attention caution danger hint important note tip warning")
_NOT_DATA = name_set("table h1 h2 h3 h4 h5 h6 form pre blockquote")
_BLANK_LINES = re.compile(r"\n(?:[ \t\r]*\n)+")
_BULLET = re.compile(r"\s*(?:[•·‣▪◦●○■–—*-]|\(?\d{1,3}[.)])\s")
_SITE = re.compile(r"\s+(?:[|·•»«–—:]|::|-|—|-{2,3})\s+")
_BETWEEN = " |·•»«–—:-"
_WORD = re.compile(r"\w")
_BOLD = re.compile(r"font-weight\s*:\s*(?:bold|[7-9]00)", re.IGNORECASE)
_CENTRED = re.compile(r"text-align\s*:\s*center", re.IGNORECASE)
_SPAN = re.compile(r"\s*\d{1,5}\s*")


def read(text: str, *, is_part: bool = False, has_quotations: bool = True) -> ParsedText:
    """Read the headings and paragraphs of the content of a page.

    Tables become a sentence for each row. In a page without elements for
    headings, as word processors write them, they are recognized by their looks.

    Args:
        text: The HTML.
        is_part: Whether it is a part of a larger document, which has headings elsewhere.
        has_quotations: Whether quotations set apart are read.
    """
    return read_page(parse(text), is_part=is_part, has_quotations=has_quotations)


def read_page(root: Element, *, is_part: bool = False, has_quotations: bool = True) -> ParsedText:
    """Read a page that has been parsed; see `read`."""
    regions, left_out = find_content(root)
    if not has_quotations:
        left_out |= {element for element in root.elements() if element.tag == "blockquote"}
    walk = _HtmlBlocks(left_out)
    for region in regions:
        walk.read(region)
    shown_title, blocks = None, walk.blocks
    if not is_part and not any(isinstance(block, Heading) for block in blocks):
        shown_title, blocks = headings_by_look(blocks, walk.looks)
    lifted = lift_title(blocks)
    authors, date = find_metadata(root)
    title = shown_title or lifted.title or _title(root, blocks)
    parsed = ParsedText(title, lifted.blocks, authors=authors, date=date)
    return parsed if is_part else find_numbered(parsed)


def read_fragment(text: str, start: int) -> list[Block]:
    """Read HTML within another format: all of it is content.

    Args:
        text: The HTML.
        start: Its offset in the source.
    """
    root = parse(text, start)
    return read_elements(root, {element for element in root.elements() if is_invisible(element)})


def read_elements(root: Element, left_out: Collection[Element] = ()) -> list[Block]:
    """Read all content of an element but the elements that are left out.

    The attribute data-label of an element begins its first paragraph; data-place is the place of
    its paragraphs.
    """
    walk = _HtmlBlocks(set(left_out))
    walk.read(root)
    return walk.blocks


def name_places(blocks: Iterable[Block]) -> None:
    """Number the paragraphs below each heading, which the path of a span names."""
    number = 0
    previous: Block | None = None
    for block in blocks:
        if isinstance(block, Heading):
            number = 0
        elif block.text:
            continues = isinstance(previous, Prose) and previous.kind == block.kind in UNSPLIT
            number += not continues
            block.place = f"paragraph {number}"
        previous = block


def _title(root: Element, blocks: list[Block]) -> str:
    """Return the title that the page declares, without the name of its site."""
    metas: dict[str, str] = {}
    title = ""
    for element in root.elements():
        name = element.attributes.get("property", element.attributes.get("name", ""))
        if element.tag == "meta" and name not in metas:
            metas[name] = collapse(element.attributes.get("content", ""))
        elif element.tag == "title" and not title:
            is_drawn = any(around.tag == "svg" for around in element.ancestors())
            title = "" if is_drawn else collapse(element.text())
    declared = metas.get("og:title") or title
    headings = {collapse(block.text) for block in blocks if isinstance(block, Heading)}
    first, *others = _SITE.split(declared)
    if declared in headings or not others:
        return declared
    last = others[-1]
    if shown := next((part for part in (first, last) if part in headings), None):
        return shown
    return declared if "og:title" in metas else declared.removesuffix(last).rstrip(_BETWEEN)


@dataclass(frozen=True, slots=True)
class _Context:
    """What the enclosing elements say about a text."""

    kind: Kind = "prose"
    heading: int | None = None
    is_preformatted: bool = False
    is_definition: bool = False
    is_bold: bool = False
    is_centred: bool = False


class _HtmlBlocks:
    """Turns elements into blocks."""

    def __init__(self, left_out: set[Element]) -> None:
        self.left_out = left_out
        self.blocks: list[Block] = []
        self.place: str | None = None
        self.shown = MappedText()
        self.context = _Context()
        self.marker = ""  # of the list item that begins
        self.terms: list[MappedText] = []  # that the next paragraph defines
        self.looks: dict[int, Look] = {}  # of paragraphs, by their identities
        self.is_bold = True  # whether all of the current block is
        self.num_breaks = 0  # since the last visible text
        self.numbers: dict[Element, int] = {}  # of the next item of each open ordered list

    def read(self, region: Element) -> None:
        """Append the blocks of an element."""
        pending: list[tuple[Element, _Context, Iterator[Element | Text]]] = []
        self.enter(region, pending)
        while pending:
            element, context, children = pending[-1]
            self.context = context
            child = next(children, None)
            if child is None:
                pending.pop()
                self.leave(element)
            elif isinstance(child, Text):
                self.show(child)
            elif child not in self.left_out:
                self.enter(child, pending)
        self.context = _Context()
        self.flush()
        self.end_terms()

    def enter(
        self, element: Element, pending: list[tuple[Element, _Context, Iterator[Element | Text]]]
    ) -> None:
        tag = element.tag
        if tag == "br":
            self.num_breaks += 1
            shown = "\n" if self.context.is_preformatted else " "
            self.show(Text(shown, element.start, element.start))
            return
        if tag == "math":
            self.show_formula(element)
            return
        if tag in ("sup", "sub"):
            script = _inner_text(element, self.left_out).stripped()
            self.add("", element.start, element.start)  # what is due before it
            add_script(self.shown, script, is_raised=tag == "sup")
            return
        if tag in INLINE:
            is_bold = self.context.is_bold or _is_bold(element)
            context = replace(self.context, is_bold=is_bold) if is_bold else self.context
            pending.append((element, context, iter(element.children)))
            return
        self.flush()
        self.place = element.attributes.get("data-place", self.place)
        if tag == "pre" and _is_code(element):
            self.marker = ""  # it belongs before the code, not before the text after it
            self.end_terms()
            self.append(Prose(_inner_text(element, self.left_out), kind="code"))
            return
        if tag == "table" and (rows := _data_rows(element, self.left_out)):
            self.marker = ""
            self.read_table(element, rows)
            return
        if tag == "title":
            return
        if tag not in ("dt", "dd", "p", "div") or (tag == "dt" and self.context.is_definition):
            self.end_terms()
        self.num_breaks = 0
        label = element.attributes.get("data-label", "")
        self.marker = label or (self.item_marker(element) if tag == "li" else self.marker)
        pending.append((element, self.inner_context(element), iter(element.children)))

    def leave(self, element: Element) -> None:
        if element.tag in INLINE:
            return
        if element.tag == "dt":
            if self.shown:
                self.terms.append(self.shown.stripped())
            self.shown = MappedText()
            return
        self.flush()
        if element.tag == "li" or "data-label" in element.attributes:
            self.marker = ""  # of an item without text
        elif element.tag == "dl":
            self.end_terms()

    def inner_context(self, element: Element) -> _Context:
        tag, context = element.tag, self.context
        if (level := _heading_level(element)) and not _labels_admonition(element):
            return replace(context, heading=level)
        kind = context.kind
        attributes = element.attributes
        roles = name_set(f"{attributes.get('role', '')} {attributes.get('epub:type', '')}")
        words = element.words()
        if roles & _NOTE_ROLES:
            kind = "footnote"
        elif roles & _REFERENCE_ROLES:
            kind = "reference"
        elif tag in ("div", "section", "ol", "ul", "dl", "aside") and any(
            map(_FOOTNOTES.fullmatch, words)
        ):
            kind = "footnote"
        elif tag in ("div", "ol", "ul", "dl") and any(map(_REFERENCES.fullmatch, words)):
            kind = "reference"
        elif tag in ("figcaption", "caption"):
            kind = "caption"
        elif tag == "li" and kind == "prose":
            kind = "item"
        return replace(
            context,
            kind=kind,
            is_preformatted=context.is_preformatted or tag == "pre",
            is_definition=tag == "dd" or (context.is_definition and tag != "dl"),
            is_bold=context.is_bold or _is_bold(element),
            is_centred=context.is_centred or _is_centred(element),
        )

    def item_marker(self, item: Element) -> str:
        """Return the number of an item of an ordered list; empty for bullets."""
        parent = item.parent
        if parent is None or parent.tag != "ol":
            return ""
        written = item.attributes.get("value", "")
        if _SPAN.fullmatch(written):
            number = int(written)
        elif parent in self.numbers:
            number = self.numbers[parent]
        else:
            first = parent.attributes.get("start", "")
            number = int(first) if _SPAN.fullmatch(first) else 1
        self.numbers[parent] = number + 1
        return f"{format_number(number, parent.attributes.get('type', '1'))}. "

    def show(self, text: Text) -> None:
        """Add text to the current block."""
        shown, start, end = text
        if self.context.is_preformatted and len(shown) == end - start:
            at = 0
            for gap in _BLANK_LINES.finditer(shown):
                self.add(shown[at : gap.start()], start + at, start + gap.start())
                self.flush()
                at = gap.end()
            self.add(shown[at:], start + at, end)
        else:
            self.add(shown, start, end)

    def show_formula(self, math: Element) -> None:
        """Add a formula; one set apart is a block of its own, but does not tear a sentence."""
        formula = _formula(math)
        before = str(self.shown).rstrip()
        if math.attributes.get("display") != "block" or before[-1:] not in (*".:?!", ""):
            self.add(*formula)
        elif formula.shown:
            self.flush()
            self.append(Prose(MappedText.from_text(*formula), kind="formula"))

    def add(self, shown: str, start: int, end: int) -> None:
        if self.num_breaks and not shown.isspace():
            if self.num_breaks > 1 or _BULLET.match(shown):
                self.flush()
            self.num_breaks = 0
        if self.marker and not shown.isspace():
            self.shown.add(self.marker, start, start)
            self.marker = ""
        self.shown.add(shown, start, end)
        self.is_bold &= self.context.is_bold or shown.isspace()

    def flush(self) -> None:
        """End the current block, if any."""
        if _WORD.search(str(self.shown)):
            if self.context.heading:
                self.end_terms()
                self.blocks.append(Heading(self.context.heading, str(self.shown)))
            else:
                if not self.context.is_definition:
                    self.end_terms()
                kind = self.context.kind
                if self.context.is_preformatted and is_listing(str(self.shown)):
                    kind = "code"
                *terms, block = definition_blocks(self.terms, self.shown, kind)
                self.terms = []
                self.append(*terms, block)
                is_upper = str(self.shown).isupper()
                look = Look(self.is_bold, self.context.is_centred, is_upper, None)
                if block.kind == "prose":
                    self.looks[id(block)] = look
        self.shown = MappedText()
        self.is_bold = True

    def end_terms(self) -> None:
        """Make the terms that have no definition paragraphs of their own."""
        self.append(*(Prose(term, kind=self.context.kind) for term in self.terms))
        self.terms = []

    def read_table(self, table: Element, rows: list[list[Element]]) -> None:
        self.end_terms()
        for caption in table.children:
            if isinstance(caption, Element) and caption.tag == "caption":
                shown = _inner_text(caption, self.left_out).stripped()
                if shown:
                    self.append(Prose(shown, kind="caption"))
        num_head_rows = 0
        for row in rows:
            if "thead" not in (around.tag for around in islice(row[0].ancestors(), 2)):
                break
            num_head_rows += 1
        cells = [[_cell(cell, self.left_out) for cell in row] for row in rows]
        self.append(*table_blocks(cells, num_head_rows))

    def append(self, *blocks: Prose) -> None:
        for block in blocks:
            block.place = self.place
            self.blocks.append(block)


def _heading_level(element: Element) -> int | None:
    level = element.attributes.get("aria-level", "2")
    is_heading = element.attributes.get("role") == "heading" and level in tuple("123456")
    return _HEADINGS.get(element.tag, int(level) if is_heading else None)


def _labels_admonition(heading: Element) -> bool:
    """Return whether a heading labels a note or a warning: the section goes on after the box."""
    box = heading.parent
    return (
        heading.tag not in ("h1", "h2")
        and box is not None
        and box.tag in ("div", "aside")
        and not _ADMONITIONS.isdisjoint(box.attributes.get("class", "").split())
        and next((one for one in box.children[:2] if isinstance(one, Element)), None) is heading
    )


def _is_bold(element: Element) -> bool:
    return element.tag in ("b", "strong", "u") or bool(
        _BOLD.search(element.attributes.get("style", ""))
    )


def _is_centred(element: Element) -> bool:
    return (
        element.tag == "center"
        or element.attributes.get("align", "").lower() == "center"
        or bool(_CENTRED.search(element.attributes.get("style", "")))
    )


def _is_code(pre: Element) -> bool:
    if any(child.tag in ("code", "samp", "kbd") for child in pre.elements()):
        return True
    if not is_prose(str(_inner_text(pre, set()))):
        return True
    around = [pre]
    for ancestor in pre.ancestors():
        if len(around) > 3 or ancestor.tag in ("body", "main", "article"):
            break
        around.append(ancestor)
        if ancestor.tag == "td":
            break
    return any(_CODE.fullmatch(word) for element in around for word in element.words())


def _data_rows(table: Element, left_out: set[Element]) -> list[list[Element]]:
    """Return the cells of a table of data; nothing if the table lays out prose."""
    if table.attributes.get("role") in ("presentation", "none"):
        return []
    inner = [element for element in table.elements() if element is not table]
    if any(element.tag in _NOT_DATA for element in inner):
        return []
    rows = [
        [
            cell
            for cell in row.children
            if isinstance(cell, Element) and cell.tag in ("td", "th") and cell not in left_out
        ]
        for row in inner
        if row.tag == "tr" and row not in left_out
    ]
    rows = [row for row in rows if row]
    if max(map(len, rows), default=0) < 2:
        return []
    if any(element.tag in ("th", "caption", "thead") for element in inner):
        return rows
    blocks = sum(element.tag in ("p", "div", "ul", "ol", "dl", "br") for element in inner)
    return rows if len(rows) > 1 and blocks <= sum(map(len, rows)) else []


def _cell(element: Element, left_out: set[Element]) -> Cell:
    spans = [element.attributes.get(name, "") for name in ("colspan", "rowspan")]
    columns, rows = (int(span) if _SPAN.fullmatch(span) else 1 for span in spans)
    return Cell(_inner_text(element, left_out), element.tag == "th", columns, rows)


def _inner_text(element: Element, left_out: set[Element]) -> MappedText:
    """Return all text of an element as one."""
    shown = MappedText()
    pending: list[Element | Text] = [element]
    while pending:
        node = pending.pop()
        if isinstance(node, Text):
            shown.add(*node)
        elif node.tag == "math":
            shown.add(*_formula(node))
        elif node.tag == "br":
            shown.add("\n", node.start, node.start)
        elif node.tag in ("sup", "sub") and node is not element and node not in left_out:
            add_script(shown, _inner_text(node, left_out), is_raised=node.tag == "sup")
        elif node not in left_out:
            if node.tag not in INLINE and node is not element:
                shown.add("; " if node.tag == "li" and shown else " ", node.start, node.start)
            pending.extend(reversed(node.children))
    return shown


def _formula(math: Element) -> Text:
    """Return the text of a formula; all of it stands for the whole element."""
    root = ElementTree.Element(math.tag, math.attributes)
    pending = [(math, root)]
    end = math.start
    while pending:
        element, copy = pending.pop()
        for child in element.children:
            if isinstance(child, Element):
                inner = ElementTree.SubElement(copy, child.tag, child.attributes)
                pending.append((child, inner))
            else:
                copy.text = (copy.text or "") + child.shown
                end = max(end, child.end)
    return Text(formulas.from_mathml(root), math.start, end)
