"""The numbers of sections, theorems, figures, tables and formulas, and references to them."""

import re
from collections import Counter
from typing import NamedTuple

from foveate.documents.numerals import format_number
from foveate.documents.words import load_words, name_set

_WORDS = load_words("latex")
LEVELS: dict[str, int] = _WORDS["levels"]
CHAPTER, SECTION = LEVELS["chapter"], LEVELS["section"]
_ONE_NUMBER = name_set(_WORDS["numbered_formulas"])
_ROWS = name_set(_WORDS["numbered_rows"])
_LABEL = re.compile(r"\\label\s*\{([^{}]*)\}")
_UNNUMBERED = re.compile(r"\\(?:notag|nonumber|tag)\b")
REFERENCE = re.compile("\ufdd0([A-Za-z]+):([^\ufdd1]*)\ufdd1")  # what stands for one at first


class Numbered(NamedTuple):
    """What a label names: "figure", "2.1" and, of a section, its title."""

    kind: str = ""
    number: str = ""
    title: str = ""


class Numbers:
    """Counts what a document numbers."""

    def __init__(self) -> None:
        """Begin to count."""
        self.current = Numbered()  # what a label names here
        # Of each kind of theorem: its title, its counter, and the sections within which it counts.
        self.theorems: dict[str, tuple[str, str, str]] = {}
        self._counts: Counter[str | int] = Counter()  # of sections by level, floats and formulas
        self._labels: dict[str, Numbered] = {}
        self._first = "1"  # how the outermost sections are numbered

    def begin_appendix(self) -> None:
        """Number the outermost sections with letters from now on."""
        self._first = "A"
        self._counts[self._outermost] = 0

    def section(self, name: str) -> None:
        """Count a section."""
        level = LEVELS[name]
        if not 0 < level < LEVELS["paragraph"] or name == "frametitle":
            return
        self._counts[level] += 1
        for deeper in range(level + 1, LEVELS["paragraph"]):
            self._counts[deeper] = 0
        kind = "chapter" if level == CHAPTER else "section"
        self.current = Numbered(kind, self._section_number(level))

    def float(self, kind: str) -> str:
        """Count a figure or a table; return its label."""
        self.current = Numbered(kind, self._next(kind, CHAPTER))
        return f"{kind.title()} {self.current.number}: "

    def theorem(self, name: str) -> str:
        """Count a theorem, and return its title and number."""
        title, counter, outer = self.theorems[name]
        if not counter:
            return title
        number = self._next(counter, LEVELS.get(outer, 0))
        self.current = Numbered(title.lower(), number)
        return f"{title} {number}"

    def formulas(self, environment: str, inside: str) -> None:
        """Count the formulas of an environment, and remember the labels in it."""
        rows = inside.split("\\\\") if environment in _ROWS else [inside]
        can_count = environment in _ROWS or environment in _ONE_NUMBER
        number = ""
        for row in rows:
            if can_count and row.strip() and not _UNNUMBERED.search(row):
                number = self._next("equation", CHAPTER)
            for label in _LABEL.findall(row):
                self._labels[label] = Numbered("equation", number)

    def label(self, key: str) -> None:
        """Remember what a label names."""
        self._labels.setdefault(key, self.current)

    def refer(self, reference: re.Match[str]) -> str:
        """Return what a reference shows; nothing for one to a place outside of this file."""
        name, keys = reference.groups()
        known = (self._labels.get(key.strip()) for key in keys.split(","))
        found = [one for one in known if one is not None]
        if name == "nameref":
            return found[0].title if found else ""
        shown: list[str] = []
        previous = ""
        for kind, number, _ in found:
            number = f"({number})" if kind == "equation" and name not in ("ref", "vref") else number
            if name in ("cref", "Cref", "autoref") and kind != previous and kind:
                is_plural = sum(other.kind == kind for other in found) > 1
                title = kind.title() if name == "Cref" or kind in ("figure", "table") else kind
                number = f"{title}{'s' * is_plural} {number}"
            previous = kind
            shown.append(number)
        return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))

    @property
    def _outermost(self) -> int:
        return CHAPTER if self._counts[CHAPTER] else SECTION

    def _section_number(self, level: int) -> str:
        counts = [self._counts[one] for one in range(self._outermost, level + 1)]
        while counts and not counts[-1]:
            counts.pop()
        first = [format_number(count, self._first) for count in counts[:1]]
        return ".".join([*first, *map(str, counts[1:])])

    def _next(self, counter: str, level: int) -> str:
        """Count what is numbered within the sections of a level, if there are any."""
        section = self._section_number(level)
        prefix = f"{section}." if section else ""
        self._counts[f"{counter} {prefix}"] += 1
        return f"{prefix}{self._counts[f'{counter} {prefix}']}"
