"""HTML, including malformed HTML."""

from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    lift_title,
    name_set,
)

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOT_PROSE = name_set(
    "script style template noscript nav aside footer select button textarea svg math canvas "
    "iframe object audio video figure"
)
_INLINE = name_set(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp "
    "small span strike strong sub sup time tt u var wbr img"
)
_VOID = name_set("area base br col embed hr img input link meta param source track wbr")


def read(text: str) -> ParsedText:
    """Read the headings and paragraphs of `<main>`, else of `<article>`, else of the page."""
    parser = _Parser(text)
    parser.feed(text)
    parser.close()
    parser.flush()
    lifted = lift_title(parser.main_blocks())
    return ParsedText(collapse(parser.title) or lifted.title, lifted.blocks)


class _Parser(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)  # references keep their written length
        self.text = text
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.title = MappedText()
        self.blocks: list[tuple[str, Block]] = []  # with their region
        self.shown = MappedText()
        self.heading: int | None = None
        self.open: list[str] = []
        self.counts: Counter[str] = Counter()  # of the open elements, for fast look-up
        self.num_hiding = 0  # open elements whose content is not prose

    def main_blocks(self) -> list[Block]:
        """Return the blocks of the innermost kind of region with text."""
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
        self.num_hiding += self.hides(tag)
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
            self.num_hiding -= self.hides(closed)
            if closed == tag:
                break

    def hides(self, tag: str) -> bool:
        """Return whether the content of an element, given its open ancestors, is not prose."""
        if tag == "header":  # that of the page, not that of an article with its title
            return not (self.counts["main"] or self.counts["article"])
        return tag in _NOT_PROSE or (tag == "code" and self.counts["pre"] > 0)

    def break_at(self, tag: str) -> None:
        if tag == "br":
            self.show(" ", self.source_offset())
        else:
            self.flush()

    def flush(self) -> None:
        """End the current block, if any."""
        if self.shown:
            region = next((name for name in ("main", "article") if self.counts[name]), "")
            block = Prose(self.shown)
            heading = self.heading and Heading(self.heading, str(self.shown))
            self.blocks.append((region, heading or block))
        self.shown = MappedText()

    def handle_data(self, data: str) -> None:
        start = self.source_offset()
        self.show(data, start, start + len(data))

    def handle_entityref(self, name: str) -> None:
        self.handle_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self.handle_reference(f"&#{name}")

    def handle_reference(self, written: str) -> None:
        start = self.source_offset()
        end = start + len(written)
        end += self.text.startswith(";", end)
        self.show(unescape(self.text[start:end]), start, end)

    def show(self, text: str, start: int, end: int | None = None) -> None:
        """Add the text displayed for a stretch of source to the title or the current block."""
        end = start + len(text) if end is None else end
        if self.counts["title"] and not self.num_hiding:
            self.title.add(text, start, end)
        elif not self.num_hiding:
            self.shown.add(text, start, end)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Skip sections such as `<![if IE]>` as browsers do; the parser would stop at them."""
        return self.parse_bogus_comment(i)

    def source_offset(self) -> int:
        line, column = self.getpos()
        return self.line_starts[line - 1] + column
