"""What JATS and TEI share: an XML article as nested sections of paragraphs.

Nothing is ever fetched: an external DTD is ignored, and a document that declares entities of its
own is refused, for they can be made to expand without end or to name other files.
"""

import re
from collections import Counter
from dataclasses import dataclass
from html.entities import html5
from typing import NoReturn
from xml.parsers import expat

from foveate.documents.blocks import Block, Heading, MappedText, Prose, Reading, collapse
from foveate.documents.errors import DocumentError

_ELEMENT = re.compile(r"<!--.*?-->|<(?:[\w.-]+:)?([^\s!?/>:]+)", re.DOTALL)
_FORMATS = {"article": "jats", "TEI": "tei", "teiCorpus": "tei", "html": "html"}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the elements of an XML format mean.

    Attributes:
        title: The document's title, as names of parent and child.
        parts: Where there is prose.
        sections: What makes a section.
        heading: A section's heading, its child.
        blocks: What makes a paragraph.
        breaks: What parts two words within one.
        hidden: What holds no prose.
        names: Headings of sections that go without.
    """

    title: tuple[str, str]
    parts: frozenset[str]
    sections: frozenset[str]
    heading: str
    blocks: frozenset[str]
    breaks: frozenset[str]
    hidden: frozenset[str]
    names: dict[str, str]


def format_of_root(text: str) -> str:
    """The format that the outermost element belongs to.

    Raises:
        DocumentError: It is some other XML, or none.
    """
    root = next((match[1] for match in _ELEMENT.finditer(text) if match[1]), None)
    if root is None:
        raise DocumentError("is not XML: name its format.")
    if root not in _FORMATS:
        raise DocumentError(
            f"is XML with the root <{root}>, of which only JATS (<article>), TEI (<TEI>) and "
            "XHTML (<html>) can be read: convert it to one of them."
        )
    return _FORMATS[root]


def read(text: str, vocabulary: Vocabulary) -> Reading:
    """Headings and paragraphs by the rules of a vocabulary."""
    handler = _Handler(text, vocabulary)
    try:
        handler.parse()
    except expat.ExpatError as error:
        raise DocumentError(
            f"is not well-formed XML ({error}): correct it there, or name another format."
        ) from error
    return Reading(collapse(handler.title) or None, handler.blocks)


class _Handler:
    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.source = text.encode()
        self.words = vocabulary
        self.seen_bytes = self.seen_characters = 0
        self.title = MappedText()
        self.blocks: list[Block] = []
        self.shown = MappedText()
        self.open: list[tuple[str, list[str]]] = []  # elements, and what they are
        self.within: Counter[str] = Counter()  # what the open elements are
        self.headings: list[Heading] = []  # of the open sections
        self.left = 0  # level of the section that ended, until another begins

    def parse(self) -> None:
        self.parser = expat.ParserCreate("utf-8")  # whatever the file declared: it is decoded
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.SkippedEntityHandler = self.skipped_entity
        self.parser.EntityDeclHandler = _refuse_entities
        self.parser.ExternalEntityRefHandler = _refuse_entities
        self.parser.Parse(self.source, True)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        roles = self.roles(name)
        if "blocks" in roles:
            self.flush()
        if "sections" in roles and (self.within["parts"] or "parts" in roles):
            self.flush()
            heading = Heading(len(self.headings) + 1, self.words.names.get(name, ""))
            self.headings.append(heading)
            self.blocks.append(heading)
            self.left = 0
        elif "parts" in roles and self.blocks:
            self.left = 1
        if "heading" in roles:
            self.headings[-1].text = ""
        if name in self.words.breaks:
            self.show(" ", self.place(), self.place())
        self.open.append((name, roles))
        self.within.update(roles)

    def end(self, name: str) -> None:
        _, roles = self.open.pop()
        self.within.subtract(roles)
        if "blocks" in roles or "sections" in roles:
            self.flush()
        if "sections" in roles and self.headings:
            self.left = self.headings.pop().level

    def roles(self, name: str) -> list[str]:
        """What an element is, here."""
        if self.within["hidden"]:
            return []
        words = self.words
        parent = self.open[-1][0] if self.open else ""
        roles = [
            role
            for role in ("parts", "sections", "blocks", "hidden")
            if name in getattr(words, role)
        ]
        if name == words.heading and self.headings and parent in words.sections:
            roles.append("heading")
        if (parent, name) == words.title and not self.title:
            roles.append("title")
        return roles

    def data(self, data: str) -> None:
        start = self.place()
        written = data.encode()
        at = self.parser.CurrentByteIndex
        if self.source.startswith(written, at):
            self.show(data, start, start + len(data))
        else:  # a reference, or a line break that is more than one character
            end = self.source.find(b";", at) if self.source[at] == ord("&") else at
            self.show(data, start, start + end + 1 - at)

    def skipped_entity(self, name: str, is_parameter: bool) -> None:
        """An entity of the DTD that is not fetched; the usual ones have the names HTML knows."""
        if not is_parameter:
            start = self.place()
            self.show(html5.get(f"{name};", " "), start, start + len(name) + 2)

    def show(self, text: str, start: int, end: int) -> None:
        """Put what the source displays where it belongs."""
        within = self.within
        if within["hidden"]:
            return
        if within["title"]:
            self.title.add(text, start, end)
        elif within["heading"]:
            self.headings[-1].text += text
        elif within["parts"] and within["blocks"]:
            self.shown.add(text, start, end)

    def flush(self) -> None:
        """End the paragraph, if one has begun."""
        if self.shown:
            if self.left:  # text behind a subsection is not part of it
                self.blocks.append(Heading(self.left, ""))
                self.left = 0
            self.blocks.append(Prose(self.shown))
        self.shown = MappedText()

    def place(self) -> int:
        """The current offset in characters; expat counts bytes."""
        at = self.parser.CurrentByteIndex
        self.seen_characters += len(self.source[self.seen_bytes : at].decode())
        self.seen_bytes = at
        return self.seen_characters


def _refuse_entities(*_: object) -> NoReturn:
    raise DocumentError("declares or fetches XML entities, which is refused: write them out.")
