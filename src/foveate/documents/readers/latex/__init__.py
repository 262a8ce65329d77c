r"""LaTeX: sections, paragraphs, lists, tables, formulas, footnotes and references.

The source is read as text with macros, not run as the program that it is. Macros that the document
defines are expanded within limits; for other unknown macros, the arguments are read. No other file
is opened. The text of the document is composed from scratch, and each paragraph knows its line.
"""

import re
from dataclasses import replace

from foveate.documents.blocks import ParsedText, compose_text
from foveate.documents.metadata import clean_names, parse_date
from foveate.documents.readers.latex.blocks import LatexBlocks, Reader
from foveate.documents.readers.latex.commands import read_accent, read_macro
from foveate.documents.readers.latex.environments import begin, end
from foveate.documents.readers.latex.tokens import Part

_SECTION_LINE = re.compile(r"^[ \t]*\\(?:sub)*(?:section|chapter)\*?\{", re.MULTILINE)
_START = re.compile(r"^[ \t]*\\(?:documentclass|begin\{document\})", re.MULTILINE)
_SNIFFED = 20_000  # characters


def read(text: str) -> ParsedText:
    """Read the title, the sections and what they contain."""
    found = LatexBlocks(text, _READERS)
    parsed = compose_text(found.title or None, found.blocks)
    return replace(parsed, authors=clean_names(found.authors), date=parse_date(found.date))


def looks_like_latex(text: str) -> bool:
    """Return whether a text begins a LaTeX document or has sections written as LaTeX macros."""
    sample = text[:_SNIFFED]
    if "\\" not in sample:
        return False
    sections = sum(1 for _ in _SECTION_LINE.finditer(sample))
    return _START.search(sample) is not None or sections > 1


def _read_math(reader: LatexBlocks, part: Part, source: str) -> None:
    reader.shown.append(reader.formula(source))


def _read_formula(reader: LatexBlocks, part: Part, source: str) -> None:
    reader.flush()
    environment, _, inside = source.partition("\0")
    reader.numbers.formulas(environment, inside)
    reader.add(reader.formula(inside), "formula")


def _read_code(reader: LatexBlocks, part: Part, code: str) -> None:
    reader.flush()
    reader.add(code, "code")


_READERS: dict[str, Reader] = {  # by the kinds of tokens
    "math": _read_math,
    "par": lambda reader, part, text: reader.flush(),
    "formula": _read_formula,
    "code": _read_code,
    "begin": begin,
    "end": end,
    "macro": read_macro,
    "accent": read_accent,
}
