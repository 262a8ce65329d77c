"""The tokens of LaTeX; verbatim text and formulas are one token each."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from foveate.documents.words import load_words, name_set

_WORDS = load_words("latex")
ACCENTS: dict[str, str] = _WORDS["accents"]
_CODE = name_set(_WORDS["code"])
_LIKE_CODE = re.compile(  # as documents name their own
    r"\w*(?:verbatim|listing|code|minted|console|terminal|shell|alltt|S(?:in|out)put)\w*\*?", re.I
)
_OPTIONS = re.compile(r"(?:[ \t]*(?:\[[^\]]*\]|\{[^{}\n]*\}))*[ \t]*\n?")
_NOT_CODE = re.compile(r"\\(?:begin|caption|item)\b")  # in a float or a list of such a name
_FORMULAS = name_set(_WORDS["formulas"])
_DROPPED = name_set(_WORDS["dropped"])
_EXCLUDED = re.compile(r"\\excludecomment\{([^{}]{1,60})\}")
_SPACING = dict.fromkeys(",;: \n", " ") | dict.fromkeys("/-!@)]", "")
_DELIMITERS = {"[": ("formula", "\\]"), "(": ("math", "\\)"), "$$": ("formula", "$$")}
_TYPOGRAPHY = {"~": " ", "---": "—", "--": "–", "``": "“", "''": "”", '"`': "„", "\"'": "“"}
_TOKEN = re.compile(
    r"(?P<comment>%[^\n]*(?:\n[ \t]*(?![ \t]*\n))?)"
    r"|\\(?P<macro>[A-Za-z@]+)\*?(?:[ \t]*\n(?![ \t]*\n))?[ \t]*"
    r"|\\(?P<symbol>[^A-Za-z@]|\Z)"
    r"|(?P<par>\n[ \t]*\n\s*)"
    r"|(?P<dollars>\$\$?)"
    r"|(?P<open>\{)|(?P<close>\})|(?P<cell>&)"
    r"|(?P<typography>~|---?|``|''|\"[`'])"
    r"|(?P<text>[^\\%{}$~&`'\"\n\[\]-]+|.|\n)",
    re.DOTALL,
)
_NAME = re.compile(r"\s*\{([^{}\\]*)\}")
_ROW_OPTION = re.compile(r"\*?(?:\[[^\]\n]{0,20}\])?")
_MATH = re.compile(r"((?:\\.|(?!\n\n)[^\\$]){1,2000}?)\$", re.DOTALL)
_MAX_OPTION = 60  # tokens in an argument in brackets
_MAX_VERBATIM = 500  # characters within a line


class Token(NamedTuple):
    """A token, and where it starts; a formula's text begins with its environment and \\0."""

    kind: str
    text: str
    start: int


@dataclass(slots=True)
class Part:
    """A source cut into tokens, of which those from `index` on, as they are read, are in a part."""

    text: str
    tokens: list[Token]
    partners: dict[int, int]  # of each brace and of each begin, by index
    index: int
    end: int
    depth: int  # number of arguments and macros around it

    @property
    def next(self) -> Token:
        """The next token; an empty one behind the last."""
        return self.tokens[self.index] if self.index < self.end else Token("", "", len(self.text))

    @property
    def is_starred(self) -> bool:
        """Whether there is a star after the macro just read."""
        token = self.tokens[self.index - 1]
        return self.text.startswith("*", token.start + len(token.text) + 1)

    @property
    def written(self) -> str:
        """The source of the tokens that are left, with that of comments among them."""
        ends = self.tokens[self.end : self.end + 1]
        return self.text[self.next.start : ends[0].start if ends else None]

    def within(self, index: int, end: int) -> "Part":
        """Return other tokens of the source, as an argument here."""
        return replace(self, index=index, end=end, depth=self.depth + 1)

    def arguments(self, count: int) -> list["Part"]:
        """Read up to `count` arguments in braces, and the options between them."""
        found: list[Part] = []
        while len(found) < count:
            opening = self.index
            while opening < self.end and self._is_space(opening):
                opening += 1
            close = self.partners.get(opening, self.end)
            if close >= self.end or self.tokens[opening].kind != "open":
                break
            found.append(self.within(opening + 1, close))
            self.index = close + 1
            if len(found) < count:
                self.option()
        return found

    def argument(self) -> "Part":
        """Read an argument in braces; it is empty if there is none."""
        return [*self.arguments(1), self.within(self.end, self.end)][0]

    def option(self) -> "Part | None":
        """Read an argument in brackets, if it is next."""
        if self.next.text != "[":
            return None
        index = first = self.index + 1
        while index < min(self.end, first - 1 + _MAX_OPTION):
            token = self.tokens[index]
            if token.text == "]":
                self.index = index + 1
                return self.within(first, index)
            if token.kind == "par":
                break
            index = self.partners.get(index, index) + 1
        return None

    def skip_space(self) -> None:
        """Read tokens of nothing but whitespace."""
        while self.index < self.end and self._is_space(self.index):
            self.index += 1

    def skip_to(self, start: int) -> None:
        """Read the tokens before an offset of the source; a text is cut there."""
        while self.index < self.end and self.next.start < start:
            following = self.tokens[self.index + 1].start
            if following > start and self.next.kind == "text":
                text = self.text[start:following]
                self.tokens[self.index] = Token("text", text, start)
            else:
                self.index += 1

    def _is_space(self, index: int) -> bool:
        token = self.tokens[index]
        return token.kind == "text" and token.text.isspace()


def tokenize(text: str, depth: int = 0) -> Part:
    """Cut a source into tokens, and find the partners of braces and of begins."""
    tokens = list(_Scanner(text).tokens())
    partners: dict[int, int] = {}
    open_braces: list[int] = []
    open_environments: defaultdict[str, list[int]] = defaultdict(list)
    for index, (kind, shown, _) in enumerate(tokens):
        if kind == "open":
            open_braces.append(index)
        elif kind == "close" and open_braces:
            partners[open_braces.pop()] = index
        elif kind == "begin":
            open_environments[shown].append(index)
        elif kind == "end" and open_environments[shown]:
            partners[open_environments[shown].pop()] = index
    return Part(text, tokens, partners, 0, len(tokens), depth)


class _Scanner:
    """Cuts a source into tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._unclosed: set[str] = set()  # what was searched for in vain
        self._dropped = {*_DROPPED, *_EXCLUDED.findall(text)}

    def tokens(self) -> Iterator[Token]:
        while self._position < len(self._text):
            start = self._position
            match = _TOKEN.match(self._text, start)
            assert match is not None
            self._position = match.end()
            kind, shown = self._read(match)
            if kind:
                yield Token(kind, shown, start)

    def _read(self, match: re.Match[str]) -> tuple[str, str]:
        """Return the kind and text of a token, of no kind if it is left out."""
        kind = str(match.lastgroup)
        shown = match[kind]
        if kind == "comment":
            return "", ""
        if kind in ("symbol", "dollars") and shown in _DELIMITERS:
            kind, closing = _DELIMITERS[shown]
            inside = self._until(closing)
            if inside is None:
                return "text", shown if shown == closing else ""
            return kind, inside if kind == "math" else f"\0{inside}"
        if kind == "dollars" and (math := _MATH.match(self._text, self._position)):
            self._position = math.end()
            return "math", math[1]
        if kind == "symbol" and shown == "\\":
            option = _ROW_OPTION.match(self._text, self._position)
            self._position = option.end() if option else self._position
            return "row", " "
        if kind == "symbol":
            return "accent" if shown in ACCENTS else "text", _SPACING.get(shown, shown)
        if kind == "macro":
            return self._macro(match, shown)
        shown = _TYPOGRAPHY.get(shown, shown) if kind == "typography" else shown
        is_mark = kind in ("dollars", "typography")
        return "text" if is_mark else kind, " " if shown == "\n" and kind == "text" else shown

    def _until(self, closing: str) -> str | None:
        """Read what precedes a closing mark, and the mark; None if there is none."""
        close = -1
        if closing not in self._unclosed:
            close = self._text.find(closing, self._position)
        if close < 0:
            self._unclosed.add(closing)
            return None
        inside = self._text[self._position : close]
        self._position = close + len(closing)
        return inside

    def _macro(self, match: re.Match[str], name: str) -> tuple[str, str]:
        if name in ("begin", "end") and (found := _NAME.match(self._text, self._position)):
            self._position = found.end()
            return self._environment(found[1]) if name == "begin" else (name, found[1])
        if name in ("verb", "lstinline") and self._position < len(self._text):
            start = match.end("macro")
            start += self._text.startswith("*", start)
            delimiter = self._text[start : start + 1].replace("{", "}")
            close = self._text.find(delimiter, start + 1, start + _MAX_VERBATIM)
            if delimiter and close >= 0:
                self._position = close + 1
                return "text", self._text[start + 1 : close]
            self._position = start
        return "accent" if len(name) == 1 and name in ACCENTS else "macro", name

    def _environment(self, name: str) -> tuple[str, str]:
        may_be_code = _LIKE_CODE.fullmatch(name) is not None
        if not (may_be_code or name in _FORMULAS or name in self._dropped):
            return "begin", name
        start = self._position
        inside = self._until(f"\\end{{{name}}}")
        if inside is None or (may_be_code and name not in _CODE and _NOT_CODE.search(inside)):
            self._position = start
            return "begin", name
        if name in self._dropped:
            return "", ""
        if name in _FORMULAS:
            return "formula", f"{name}\0{inside}"
        return "code", _OPTIONS.sub("", inside, 1)
