"""The elements of an HTML page, with the source offsets of their text."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate
from typing import NamedTuple

from foveate.documents.words import load_words, name_set

_WORDS = load_words("html")
VOID, INLINE, _ENDING_PARAGRAPHS, _TABLE_TAGS = (
    name_set(_WORDS[kind]) for kind in ("void", "inline", "ending_paragraphs", "tables")
)
_ENDED_BY_START = {  # open elements that a start tag ends, and those that protect them
    tag: (tuple(ended.split()), tuple(_WORDS["protected_by"][tag].split()))
    for tag, ended in _WORDS["ended_by_start"].items()
}
_MAX_DEPTH = 256  # deeper elements become siblings, so that looking around an element is cheap
_CELL = ("td", "th")
_PARAGRAPH = (("p",), ("table", "td", "th", "button", "object"))


class Text(NamedTuple):
    """A stretch of displayed text and where it is written."""

    shown: str
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Element:
    """An element.

    Attributes:
        tag: Its name, in lower case.
        attributes: Its attributes; those without a value have the empty string.
        parent: The element around it; None for the root.
        start: Source offset of its start tag.
        children: Elements and text, in order.
    """

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    parent: "Element | None" = None
    start: int = 0
    children: "list[Element | Text]" = field(default_factory=list)

    def elements(self) -> "Iterator[Element]":
        """Iterate over the element and those within it, in document order."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(
                child for child in reversed(element.children) if isinstance(child, Element)
            )

    def ancestors(self) -> "Iterator[Element]":
        """Iterate over the elements around it, the innermost first."""
        element = self.parent
        while element is not None:
            yield element
            element = element.parent

    def words(self) -> set[str]:
        """Return the words of its class and id."""
        return {*self.attributes.get("class", "").split(), *self.attributes.get("id", "").split()}

    def text(self, length: int = sys.maxsize) -> str:
        """Return the text within the element: its first `length` characters or a few more."""
        pending: list[Element | Text] = [self]
        pieces: list[str] = []
        while pending and length > 0:
            node = pending.pop()
            if isinstance(node, Text):
                pieces.append(node.shown)
                length -= len(node.shown)
            else:
                pending.extend(reversed(node.children))
        return "".join(pieces)


class Builder:
    """Writes elements for other formats. Their places are those in the text that is written."""

    def __init__(self) -> None:
        """Begin with no text."""
        self.length = 0

    def element(
        self, parent: Element, tag: str, attributes: Mapping[str, str] | None = None
    ) -> Element:
        """Append an element to another one."""
        element = Element(tag, dict(attributes or {}), parent, self.length)
        parent.children.append(element)
        return element

    def show(self, text: str, parent: Element) -> None:
        """Append text to an element."""
        if text:
            start, self.length = self.length, self.length + len(text)
            parent.children.append(Text(text, start, self.length))


def parse(text: str, start: int = 0) -> Element:
    """Parse HTML, however malformed, into a tree.

    Args:
        text: The HTML.
        start: Its offset in the source.
    """
    parser = _Parser(text, start)
    last = text.find("<", text.rfind(">") + 1)  # of a tag that never ends: not to be searched for
    parser.feed(text if last < 0 else text[:last])
    parser.close()
    if last >= 0:
        parser.open[-1].children.append(Text(text[last:], start + last, start + len(text)))
    return parser.root


class _Parser(HTMLParser):
    def __init__(self, text: str, start: int) -> None:
        super().__init__(convert_charrefs=False)  # references keep their written length
        self.text = text
        self.start = start
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.has_comment_end = True
        self.root = Element("")
        self.open = [self.root]
        self.depths: defaultdict[str, list[int]] = defaultdict(list)  # of the open elements

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _ENDED_BY_START:
            self.end_innermost(*_ENDED_BY_START[tag])
        elif tag in _ENDING_PARAGRAPHS:
            self.end_innermost(*_PARAGRAPH)
        attributes = {name: value or "" for name, value in attrs}
        element = Element(tag, attributes, self.open[-1], self.source_offset())
        self.open[-1].children.append(element)
        if tag not in VOID and len(self.open) < _MAX_DEPTH:
            self.depths[tag].append(len(self.open))
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self.depths[tag]:
            protecting = () if tag in _TABLE_TAGS else ("table", *_CELL)
            self.end_innermost((tag,), protecting)

    def end_innermost(self, tags: tuple[str, ...], protecting: tuple[str, ...]) -> None:
        """End the innermost open element of these tags unless it is outside a protecting one."""
        depth = self.depth(tags)
        if depth > self.depth(protecting):
            for element in self.open[depth:]:
                self.depths[element.tag].pop()
            del self.open[depth:]

    def depth(self, tags: tuple[str, ...]) -> int:
        """Return the depth of the innermost open element of these tags; 0 if there is none."""
        return max((self.depths[tag][-1] for tag in tags if self.depths[tag]), default=0)

    def handle_data(self, data: str) -> None:
        start = self.source_offset()
        self.open[-1].children.append(Text(data, start, start + len(data)))

    def handle_entityref(self, name: str) -> None:
        self.handle_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self.handle_reference(f"&#{name}")

    def handle_reference(self, written: str) -> None:
        start = self.source_offset()
        end = start + len(written)
        end += self.text.startswith(";", end - self.start)
        shown = unescape(self.text[start - self.start : end - self.start])
        self.open[-1].children.append(Text(shown, start, end))

    def parse_html_declaration(self, i: int) -> int:
        """Skip declarations and comments; one that never ends is searched for only once."""
        if not self.rawdata.startswith("<!--", i):
            return super().parse_html_declaration(i)
        if self.has_comment_end:
            end = self.rawdata.find("-->", i + 2)
            if end >= 0:
                return end + 3
            self.has_comment_end = False
        return self.parse_bogus_comment(i)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Skip sections such as `<![if IE]>` as browsers do; the parser would stop at them."""
        return self.parse_bogus_comment(i)

    def source_offset(self) -> int:
        line, column = self.getpos()
        return self.start + self.line_starts[line - 1] + column
