"""HTML, however broken."""

from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    Prose,
    Reading,
    collapse,
    lift_title,
    names,
)

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOT_PROSE = names(
    "script style template noscript nav aside footer select button textarea svg math canvas "
    "iframe object audio video figure"
)
_INLINE = names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp "
    "small span strike strong sub sup time tt u var wbr img"
)
_VOID = names("area base br col embed hr img input link meta param source track wbr")


def read(text: str) -> Reading:
    """The headings and paragraphs of ``<main>``, else of ``<article>``, else of everything."""
    parser = _Parser(text)
    parser.feed(text)
    parser.close()
    parser.flush()
    lifted = lift_title(parser.main_blocks())
    return Reading(collapse(parser.title) or lifted.title, lifted.blocks)


class _Parser(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)  # else a piece's length says nothing
        self.text = text
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.title = MappedText()
        self.blocks: list[tuple[str, Block]] = []  # with the region they stand in
        self.shown = MappedText()
        self.heading: int | None = None
        self.open: list[str] = []
        self.counts: Counter[str] = Counter()  # of the open elements, to look one up at once
        self.hidden = 0  # how many of the open elements hide what they hold

    def main_blocks(self) -> list[Block]:
        """The blocks of the innermost kind of region that has any text."""
        for region in ("main", "article"):
            within = [block for where, block in self.blocks if where == region]
            if any(isinstance(block, Prose) for block in within):
                return within
        return [block for _, block in self.blocks]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _INLINE:
            self.break_at(tag)
        if tag in _VOID:
            return
        self.heading = _HEADINGS.get(tag, self.heading)
        self.hidden += self.hides(tag)
        self.open.append(tag)
        self.counts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE:
            self.break_at(tag)
        if tag in _HEADINGS:
            self.heading = None
        while self.counts[tag]:
            closed = self.open.pop()
            self.counts[closed] -= 1
            self.hidden -= self.hides(closed)
            if closed == tag:
                break

    def hides(self, tag: str) -> bool:
        """Whether an element, once its ancestors are open, holds no prose."""
        if tag == "header":  # the page's, not an article's with its title
            return not (self.counts["main"] or self.counts["article"])
        return tag in _NOT_PROSE or (tag == "code" and self.counts["pre"] > 0)

    def break_at(self, tag: str) -> None:
        if tag == "br":
            self.show(" ", self.place())
        else:
            self.flush()

    def flush(self) -> None:
        """End the block, if one has begun."""
        if self.shown:
            region = next((name for name in ("main", "article") if self.counts[name]), "")
            block = Prose(self.shown)
            heading = self.heading and Heading(self.heading, str(self.shown))
            self.blocks.append((region, heading or block))
        self.shown = MappedText()

    def handle_data(self, data: str) -> None:
        start = self.place()
        self.show(data, start, start + len(data))

    def handle_entityref(self, name: str) -> None:
        self.handle_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self.handle_reference(f"&#{name}")

    def handle_reference(self, written: str) -> None:
        start = self.place()
        end = start + len(written)
        end += self.text.startswith(";", end)
        self.show(unescape(self.text[start:end]), start, end)

    def show(self, text: str, start: int, end: int | None = None) -> None:
        """Add to the block what the source displays there."""
        end = start + len(text) if end is None else end
        if self.counts["title"] and not self.hidden:
            self.title.add(text, start, end)
        elif not self.hidden:
            self.shown.add(text, start, end)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Skip ``<![if IE]>`` and the like, as browsers do; the parser would stop at them."""
        return self.parse_bogus_comment(i)

    def place(self) -> int:
        line, column = self.getpos()
        return self.line_starts[line - 1] + column
