"""The reader behind JATS and TEI: an XML article as nested sections of paragraphs.

Nothing is ever fetched: an external DTD is ignored. A document that declares its own entities is
rejected, because they can expand without end or name other files.
"""

import re
from collections import Counter
from dataclasses import dataclass
from html.entities import html5
from typing import NoReturn
from xml.parsers import expat

from foveate.documents.blocks import Block, Heading, MappedText, ParsedText, Prose, collapse
from foveate.documents.structure import DocumentError

_ELEMENT = re.compile(r"<!--.*?-->|<(?:[\w.-]+:)?([^\s!?/>:]+)", re.DOTALL)
_FORMATS = {"article": "jats", "TEI": "tei", "teiCorpus": "tei", "html": "html"}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The roles of the elements of an XML format, by element name.

    Attributes:
        title: Parent and child whose text is the document's title.
        parts: Elements that hold prose.
        sections: Elements that are sections.
        heading: Child of a section that is its heading.
        blocks: Elements that are paragraphs.
        breaks: Elements that separate words within a paragraph.
        hidden: Elements that hold no prose.
        default_headings: Headings of sections without one.
    """

    title: tuple[str, str]
    parts: frozenset[str]
    sections: frozenset[str]
    heading: str
    blocks: frozenset[str]
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


def read(text: str, vocabulary: Vocabulary) -> ParsedText:
    """Read headings and paragraphs according to a vocabulary."""
    handler = _Handler(text, vocabulary)
    try:
        handler.parse()
    except expat.ExpatError as error:
        raise DocumentError(
            f"is not well-formed XML ({error}): correct it there, or name another format."
        ) from error
    return ParsedText(collapse(handler.title) or None, handler.blocks)


class _Handler:
    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.source = text.encode()
        self.vocabulary = vocabulary
        self.seen_bytes = self.seen_characters = 0
        self.title = MappedText()
        self.blocks: list[Block] = []
        self.shown = MappedText()
        self.open: list[tuple[str, list[str]]] = []  # names and roles of elements
        self.within: Counter[str] = Counter()  # roles of the open elements
        self.headings: list[Heading] = []  # of the open sections
        self.ended_level = 0  # of the section that ended last, until another one starts

    def parse(self) -> None:
        self.parser = expat.ParserCreate("utf-8")  # whatever the file declares: it has been decoded
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.SkippedEntityHandler = self.skipped_entity
        self.parser.EntityDeclHandler = _reject_entities
        self.parser.ExternalEntityRefHandler = _reject_entities
        self.parser.Parse(self.source, True)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        roles = self.roles(name)
        if "blocks" in roles:
            self.flush()
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
        if name in self.vocabulary.breaks:
            self.show(" ", self.source_offset(), self.source_offset())
        self.open.append((name, roles))
        self.within.update(roles)

    def end(self, name: str) -> None:
        _, roles = self.open.pop()
        self.within.subtract(roles)
        if "blocks" in roles or "sections" in roles:
            self.flush()
        if "sections" in roles and self.headings:
            self.ended_level = self.headings.pop().level

    def roles(self, name: str) -> list[str]:
        """Return the roles of an element in its context."""
        if self.within["hidden"]:
            return []
        vocabulary = self.vocabulary
        parent = self.open[-1][0] if self.open else ""
        roles = [
            role
            for role in ("parts", "sections", "blocks", "hidden")
            if name in getattr(vocabulary, role)
        ]
        if name == vocabulary.heading and self.headings and parent in vocabulary.sections:
            roles.append("heading")
        if (parent, name) == vocabulary.title and not self.title:
            roles.append("title")
        return roles

    def data(self, data: str) -> None:
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
            self.show(html5.get(f"{name};", " "), start, start + len(name) + 2)

    def show(self, text: str, start: int, end: int) -> None:
        """Add the text displayed for a stretch of source to the title, a heading or the block."""
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
        """End the current paragraph, if any."""
        if self.shown:
            if self.ended_level:  # text that follows a subsection does not belong to it
                self.blocks.append(Heading(self.ended_level, ""))
                self.ended_level = 0
            self.blocks.append(Prose(self.shown))
        self.shown = MappedText()

    def source_offset(self) -> int:
        """Return the current offset in characters; expat counts bytes."""
        at = self.parser.CurrentByteIndex
        self.seen_characters += len(self.source[self.seen_bytes : at].decode())
        self.seen_bytes = at
        return self.seen_characters


def _reject_entities(*_: object) -> NoReturn:
    raise DocumentError("declares or fetches XML entities, which is refused: write them out.")
