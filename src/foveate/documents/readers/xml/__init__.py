"""The reader behind JATS and TEI, which writes an article as the elements of a web page.

Nothing is ever fetched: an external DTD is ignored. A document that declares its own entities is
rejected, because they can expand without end or name other files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5

from foveate.documents import formulas
from foveate.documents.blocks import Block, Heading, ParsedText, collapse, compose_text
from foveate.documents.markup import Element, local, parse_xml
from foveate.documents.readers import html
from foveate.documents.readers.html import tree
from foveate.documents.scripts import signs
from foveate.documents.structure import DocumentError
from foveate.documents.words import load_words, name_set

_DECLARATION = re.compile(r"\s*<\?xml\b[^>]*>")
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]*);")
_ELEMENT = re.compile(r"<!--.*?-->|<(?:[\w.-]+:)?([^\s!?/>:]+)", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*\s*\Z")
_OPEN_BRACKET = re.compile(r"[\[(][^\[\]()]*\Z")
_FORMATS = {"article": "jats", "TEI": "tei", "teiCorpus": "tei", "html": "html"}
_ROLES = {"footnote": "doc-footnote", "reference": "doc-biblioentry"}
_SCRIPT = re.compile(r"\bsu[bp](?=(?:er)?(?:script)?\b)")  # rend="sup", "simple:superscript"
_LOOKED_AT = 100  # characters before a mark
_LABEL_WORDS = 2  # more say something even without a figure


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the elements of an XML format are, by name.

    Attributes:
        title: Path of the document's title.
        parts: Elements that hold content.
        sections: Elements that are sections.
        heading: Child of a section that is its heading, or of a figure its label.
        tags: The elements of HTML that paragraphs, lists, tables and scripts correspond to, or
            "footnote" or "reference"; others are spans.
        floats: Elements that are set apart from the paragraph that they interrupt.
        labels: Parents and children whose text begins the next paragraph.
        separators: What is written between the children of an element of a citation.
        hidden: Elements that hold no content.
        default_headings: Headings of sections without one.
    """

    title: str
    parts: frozenset[str]
    sections: frozenset[str]
    heading: str
    tags: dict[str, str]
    floats: frozenset[str]
    labels: frozenset[tuple[str, str]]
    separators: dict[str, str]
    hidden: frozenset[str]
    default_headings: dict[str, str]

    @classmethod
    def load(cls, format: str) -> "Vocabulary":
        """Return the vocabulary of a format from its table of words."""
        table = load_words(format)
        names = ("parts", "sections", "floats", "hidden")
        return cls(
            **table
            | {name: name_set(table[name]) for name in names}
            | {"labels": frozenset(label.partition("/")[::2] for label in table["labels"].split())}
            | {"tags": {one: tag for tag, ones in table["tags"].items() for one in ones.split()}}
        )


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
        The text, and the root of the document, whose names have no namespace.
    """
    root = _parse(text)
    converter = _Converter(vocabulary)
    blocks: list[Block] = []
    for part in _parts(root, vocabulary):
        if part.tag in vocabulary.sections:
            blocks += converter.section(part, 1)
        else:
            blocks += [Heading(1, "")] if blocks else []
            blocks += converter.blocks(part, 0)
    title = root.find(vocabulary.title)
    html.name_places(blocks)
    shown = None if title is None else converter.text(title)
    return compose_text(shown or None, blocks), root


def _parse(text: str) -> Element:
    """Parse XML; names of elements and attributes lose their namespaces."""
    declaration = _DECLARATION.match(text)  # of an encoding that has been decoded
    written = _ENTITY.sub(_written_out, text[declaration.end() :] if declaration else text)
    root = parse_xml(written.encode(), "XML")
    for element in root.iter("*"):
        element.tag = local(element)
        for key, value in element.attrib.items():
            if key.startswith("{"):
                element.set(key.rpartition("}")[2], value)
    return root


def _written_out(entity: re.Match[str]) -> str:
    """Replace an entity that HTML defines, but XML does not, by its character."""
    character = html5.get(f"{entity[1]};", " ")
    return entity[0] if character in "<>&\"'" else character


def _parts(element: Element, vocabulary: Vocabulary) -> Iterator[Element]:
    """Yield the outermost parts within an element."""
    for child in element:
        if child.tag in vocabulary.parts:
            yield child
        elif child.tag not in vocabulary.hidden:
            yield from _parts(child, vocabulary)


class _Converter(tree.Builder):
    """Writes elements as those of HTML, which the reader of web pages turns into blocks."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.before = ""  # the end of the current paragraph
        self.deferred: list[Element] = []  # floats within it

    def blocks(self, part: Element, depth: int) -> Iterator[Block]:
        """Yield the blocks of a part or a section, whose depth counts from 1, or around some."""
        sections = self.vocabulary.sections
        content: list[Element] = []
        for child in part:
            if part.tag in sections and child.tag in ("label", self.vocabulary.heading):
                continue
            if child.tag not in sections and not any(one.tag in sections for one in child.iter()):
                content.append(child)
                continue
            yield from self.paragraphs(content)
            content = []
            if child.tag in sections:
                yield from self.section(child, depth + 1)
                yield Heading(depth + 1, "")  # what follows does not belong to it
            else:
                yield from self.blocks(child, depth)
        yield from self.paragraphs(content)

    def section(self, section: Element, depth: int) -> Iterator[Block]:
        """Yield the heading and the blocks of a section."""
        title = section.find(self.vocabulary.heading)
        default = self.vocabulary.default_headings.get(section.tag, "")
        yield Heading(depth, default if title is None else self.text(title))
        yield from self.blocks(section, depth)

    def text(self, title: Element) -> str:
        """Return the text of a title, without the marks of notes."""
        shown = tree.Element("")
        self.add_content(title, shown)
        return collapse(shown.text())

    def paragraphs(self, elements: list[Element]) -> list[Block]:
        """Return the blocks of elements without sections."""
        root = tree.Element("")
        for element in elements:
            self.before = ""
            self.add(element, root)
            self.add_deferred(root)
        return html.read_elements(root)

    def add(self, node: Element, parent: tree.Element) -> None:
        """Write an element, unless it is hidden; one that would tear a sentence follows it."""
        name, vocabulary = node.tag, self.vocabulary
        if name in vocabulary.hidden or self.is_note_mark(node, parent):
            return
        is_torn = self.before.strip() and not _SENTENCE_END.search(self.before)
        if not is_torn and (name == "disp-formula" or name in vocabulary.floats):
            self.add_deferred(parent)
        if name == "math":
            self.add_formula(node, parent, {})
        elif name == "disp-formula":
            self.show(" ", parent)
            if (formula := node.find(".//math")) is not None:
                self.add_formula(formula, parent, {"display": "block"})
            if not is_torn:
                self.element(parent, "div")  # ends the paragraph
                self.before = ""
            self.show(" ", parent)
        elif is_torn and name in vocabulary.floats:
            self.deferred.append(node)
        else:
            tag = vocabulary.tags.get(name, "span")
            if tag == "span":
                looks = _SCRIPT.search(f"{node.get('rend')} {node.get('rendition')}")
                tag = looks[0] if looks else tag
            elif tag == "dt" and self.before.strip():  # a word of a sentence
                tag = "span"
            elif tag == "pre":
                node.set("class", "code")
                tag = tag if "\n" in "".join(node.itertext()).strip() else "span"
            elif tag == "ul" and (style := _numbering(node)):
                tag = "ol"
                node.set("type", style)
            elif tag == "td" and parent.attributes.get("role") == "label":
                tag = "th"
            role = {"role": _ROLES[tag]} if tag in _ROLES else {}
            spans = {"colspan": node.get("cols", ""), "rowspan": node.get("rows", "")}
            element = self.element(
                parent, "aside" if role else tag, spans | dict(node.attrib) | role
            )
            self.before = self.before if tag in tree.INLINE else ""
            self.add_content(node, element)
            self.before = self.before if tag in tree.INLINE else ""
            if name in ("l", "verse-line"):
                self.show(" ", parent)
            if tag not in tree.INLINE:
                self.add_deferred(parent)

    def add_deferred(self, parent: tree.Element) -> None:
        """Write the floats of a paragraph that has ended."""
        floats, self.deferred = self.deferred, []
        for node in floats:
            self.before = ""
            self.add(node, parent)
        self.before = "" if floats else self.before

    def add_content(self, node: Element, element: tree.Element) -> None:
        """Write the text and the elements in an element."""
        labels = [one for one in node if (node.tag, one.tag) in self.vocabulary.labels]
        labelled = "".join(text for one in labels for text in one.itertext())
        has_text = "".join(node.itertext()).strip() != labelled.strip()
        is_listed = node.tag in self.vocabulary.separators and not _is_mixed(node)
        self.show("" if is_listed else node.text, element)
        for number, child in enumerate(node):
            is_shown = child.tag not in self.vocabulary.hidden and "".join(child.itertext()).strip()
            if is_listed and number and is_shown and self.before:
                is_ended = self.before.rstrip().endswith((".", ",", ";", ":", "?", "!"))
                separator = " " if is_ended else self.vocabulary.separators[node.tag]
                self.show("–" if child.tag == "lpage" else separator, element)
            if child not in labels:
                self.add(child, element)
            elif element.tag == "table":
                self.add_content(child, self.element(element, "caption"))
            elif has_text:
                is_caption = element.tag in ("figcaption", "div")
                element.attributes["data-label"] = _label(child, is_caption=is_caption)
            elif len("".join(child.itertext()).split()) > _LABEL_WORDS:
                self.add_content(child, element)
            self.show("" if is_listed else child.tail, element)

    def add_formula(self, math: Element, parent: tree.Element, attributes: dict[str, str]) -> None:
        self.show(formulas.from_mathml(math), self.element(parent, "math", attributes))

    def show(self, text: str | None, parent: tree.Element) -> None:
        super().show(text or "", parent)
        self.before = (self.before + (text or ""))[-_LOOKED_AT:]

    def is_note_mark(self, node: Element, parent: tree.Element) -> bool:
        """Return whether an element is the mark of a note or reference, and no part of the text."""
        kind = node.get("ref-type")
        if kind in ("fn", "table-fn") or node.get("type") in ("foot", "note", "noteAnchor"):
            return True
        if "bibr" not in (kind, node.get("type")):
            return False
        if any(one.tag == "sup" for one in (parent, *parent.ancestors())):
            return True
        is_listed = _OPEN_BRACKET.search(self.before)  # [2,3]
        number = "".join(node.itertext())
        return not is_listed and signs(self.before, number, is_raised=True) is None


def _is_mixed(node: Element) -> bool:
    """Return whether an element holds text between its children."""
    return any((text or "").strip() for text in (node.text, *(child.tail for child in node)))


def _numbering(node: Element) -> str:
    """Return how the items of a list are numbered, as HTML says it; empty for bullets."""
    style = node.get("list-type") or node.get("type") or node.get("rend") or ""
    if style in ("alpha-lower", "roman-lower"):
        return style[0].replace("r", "i")
    if style in ("alpha-upper", "roman-upper"):
        return style[0].upper().replace("R", "I")
    return "1" if style in ("order", "ordered", "numbered") else ""


def _label(node: Element, *, is_caption: bool) -> str:
    """Return what begins a paragraph: "Table 1: ", "1. ", "[1] "."""
    label = collapse("".join(node.itertext()))
    label = label.rstrip(" .:") if is_caption else label
    return f"{label}{':' if is_caption else '.' * label[-1:].isalnum()} " if label else ""
