"""Turns the tokens of LaTeX into blocks."""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from foveate.documents import formulas
from foveate.documents.blocks import Block, Heading, MappedText, Prose, collapse
from foveate.documents.readers.latex.macros import MAX_DEPTH, Macros
from foveate.documents.readers.latex.numbers import REFERENCE, Numbers
from foveate.documents.readers.latex.tokens import Part, Token, tokenize
from foveate.documents.structure import Kind

SPACE_IF_WORD = "\ufdd2"  # what \\xspace leaves
_SPACE_BEFORE = re.compile(r" ([.,)])")
_WORD_AFTER = re.compile(SPACE_IF_WORD + r"(?=[\w(\[“‘«„$§\"&-])")


@dataclass(slots=True)
class Environment:
    """What the paragraphs in an environment are, and how its items are numbered."""

    kind: Kind = "prose"
    depth: int = 0  # number of enumerations around them
    label: str = ""  # source of the labels of items, such as (\\alph*); empty without numbers
    count: int = 0  # number of the last item
    float: str = ""  # "figure" or "table", if they are in one


class LatexBlocks:
    """The blocks read so far, and what decides how the next ones read."""

    def __init__(self, text: str, readers: "Mapping[str, Reader]") -> None:
        """Read a source; what is to be done with a token that is not text is said by its kind."""
        self.title = ""
        self.authors: list[str] = []
        self.date = ""  # as it is written
        self.blocks: list[Block] = []
        self.macros = Macros(room=2 * len(text) + 100_000)
        self.numbers = Numbers()
        self.shown: list[str] = []  # the paragraph so far
        self.footnotes: list[str] = []
        self.marker = ""  # the number of the item that begins
        self.environments = [Environment()]  # around the paragraph, from the outside in
        self._readers = readers
        self._source = text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._place = "line 1"
        self._read()

    def _read(self) -> None:
        part = tokenize(self._source)
        places = {
            token[:2]: index
            for index, token in enumerate(part.tokens)
            if token.text in ("documentclass", "documentstyle", "document")
        }
        begin = places.get(("begin", "document"), -1)
        if ("macro", "documentclass") not in places and ("macro", "documentstyle") not in places:
            begin = -1  # a file that is part of a document has no preamble
        self.run(part.within(0, begin + 1))
        self.blocks, self.shown, self.footnotes = [], [], []  # the preamble shows nothing
        self.run(part.within(begin + 1, part.partners.get(begin, part.end)))
        self.flush()
        for block in self.blocks:
            if REFERENCE.search(shown := str(block.text)):
                written = _tidy(REFERENCE.sub(self.numbers.refer, shown))
                block.text = (
                    written if isinstance(block, Heading) else MappedText.from_text(written)
                )

    @property
    def environment(self) -> Environment:
        """The innermost environment."""
        return self.environments[-1]

    def run(self, part: Part) -> None:
        """Read the tokens of a part."""
        if part.depth > MAX_DEPTH:
            return
        while part.index < part.end:
            token = part.next
            if not self.shown and token.kind != "par":
                self.note_place(part, token)
            part.index += 1
            if token.kind == "text":
                if self.shown or not token.text.isspace():
                    self.shown.append(token.text)
            elif token.kind in ("cell", "row") or (
                token.kind == "close" and part.next.kind == "open"
            ):
                self.shown.append(" ")
            elif read := self._readers.get(token.kind):
                read(self, part, token.text)

    def text(self, part: Part) -> str:
        """Return the text of an argument."""
        outer = self.shown, self.marker, self.environments
        self.shown, self.marker = [""], ""
        self.environments = [replace(self.environment, kind="prose", label="")]
        blocks = len(self.blocks)
        self.run(part)
        inner = [str(block.text) for block in self.blocks[blocks:]]
        del self.blocks[blocks:]
        shown = _tidy(" ".join([*inner, "".join(self.shown)]))
        self.shown, self.marker, self.environments = outer
        return shown

    def formula(self, source: str) -> str:
        """Return a formula as it is shown."""
        return formulas.from_latex(self.macros.expand_formula(source))

    def flush(self) -> None:
        """End the paragraph, and put its footnotes after it."""
        shown = _tidy("".join(self.shown))
        self.shown = []
        if shown:
            self.add(f"{self.marker} {shown}" if self.marker else shown, self.environment.kind)
        footnotes, self.footnotes = self.footnotes, []
        for footnote in footnotes:
            self.add(footnote, "footnote")

    def add(self, shown: str, kind: Kind) -> None:
        """Add a paragraph."""
        if shown.strip():
            self.blocks.append(Prose(MappedText.from_text(shown), kind=kind, place=self._place))
            self.marker = ""  # it belongs before this paragraph, not before the next one

    def add_heading(self, level: int, title: str) -> None:
        """End the paragraph, and begin a section."""
        self.flush()
        self.blocks.append(Heading(level, title))

    def note_place(self, part: Part, token: Token) -> None:
        """Remember the line of a token as that of the paragraph that begins."""
        if part.text is self._source:  # an expanded macro has no lines
            self._place = f"line {bisect_left(self._line_ends, token.start) + 1}"


Reader = Callable[[LatexBlocks, Part, str], None]
"""Reads a token of some text, which has been read, with the tokens that belong to it."""


def _tidy(shown: str) -> str:
    """Remove the spaces that macros without text leave."""
    shown = _WORD_AFTER.sub(" ", collapse(shown)).replace(SPACE_IF_WORD, "")
    return _SPACE_BEFORE.sub(r"\1", shown)
