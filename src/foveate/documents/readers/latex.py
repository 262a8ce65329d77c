r"""LaTeX: sections, paragraphs, lists, tables, formulas, footnotes and references.

The source is read as text with macros, not run as the program that it is. Macros that the document
defines are expanded within limits; for other unknown macros, the arguments are read. No other file
is opened. The text of the document is composed from scratch, and each paragraph knows its line.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from foveate.documents import formulas
from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    collapse,
    compose_text,
    name_set,
)
from foveate.documents.metadata import clean_names, parse_date, split_names
from foveate.documents.numerals import format_number
from foveate.documents.readers import latex_units
from foveate.documents.scripts import scripted
from foveate.documents.structure import Kind
from foveate.documents.tables import Cell, table_blocks

_SECTIONS = {
    "part": 0,
    "chapter": 1,
    "addchap": 1,
    "section": 2,
    "addsec": 2,
    "subsection": 3,
    "subsubsection": 4,
    "frametitle": 4,
    "paragraph": 5,
    "minisec": 5,
    "subparagraph": 6,
}
_CHAPTER, _SECTION = _SECTIONS["chapter"], _SECTIONS["section"]
_CODE = name_set("verbatim verbatim* Verbatim lstlisting minted alltt lstcode")
_LIKE_CODE = re.compile(  # as documents name their own
    r"\w*(?:verbatim|listing|code|minted|console|terminal|shell|alltt|S(?:in|out)put)\w*\*?", re.I
)
_OPTIONS = re.compile(r"(?:[ \t]*(?:\[[^\]]*\]|\{[^{}\n]*\}))*[ \t]*\n?")
_NOT_CODE = re.compile(r"\\(?:begin|caption|item)\b")  # in a float or a list of such a name
_FORMULAS = name_set(
    "equation equation* align align* alignat alignat* gather gather* multline multline* eqnarray "
    "eqnarray* displaymath math flalign flalign* dmath IEEEeqnarray"
)
_ROWS = name_set(  # of formulas, each with a number
    "align alignat gather eqnarray flalign IEEEeqnarray"
)
_ONE_NUMBER = name_set("equation multline dmath")
_FLOATS = {"figure": "figure", "wrapfigure": "figure", "table": "table", "wraptable": "table"}
_FLOATS |= {"sidewaysfigure": "figure", "sidewaystable": "table", "longtable": "table"}
_DROPPED = name_set("comment filecontents filecontents* tikzpicture picture pgfpicture asy")
_EXCLUDED = re.compile(r"\\excludecomment\{([^{}]{1,60})\}")
_TABLES = {"tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "longtable": 1, "array": 1}
_ENVIRONMENT_ARGUMENTS = {"minipage": 1, "multicols": 1, "wrapfigure": 2, "adjustbox": 1}
_ENUMERATIONS = name_set("enumerate enumerate* compactenum asparaenum inparaenum")
_ITEM_LABELS = (r"\arabic*.", r"(\alph*)", r"\roman*.", r"\Alph*.")  # by depth
_STYLES = {"arabic": "1", "alph": "a", "Alph": "A", "roman": "i", "Roman": "I"}
_NUMERALS = {style: name for name, style in _STYLES.items()}
_FOOTNOTES = name_set("footnote footnotetext marginnote marginpar")
_CITATIONS = name_set(
    "cite citep citet citealp citealt citeauthor citeyear parencite textcite autocite footcite "
    "supercite nocite citeA Cite Citet Citep"
)
_WITHOUT_TEXT = name_set(  # their arguments are left out too
    "addbibresource addcontentsline addtocontents addtocounter addtolength affiliation author "
    "bibliography bibliographystyle captionsetup cellcolor color crefname Crefname date "
    "definecolor documentclass email excludecomment externaldocument fontsize geometry "
    "graphicspath hspace hypersetup hyphenation include includecomment includegraphics includeonly "
    "index input institute lstset "
    "markboth markright newcounter newlength pagenumbering pageref pagestyle "
    "pdfbookmark phantom raisebox rowcolor sisetup RequirePackage rule "
    "selectlanguage setcounter setlength setkeys special stepcounter KOMAoptions BeforePackage "
    "AfterPackage subject publishers dedication lowertitleback uppertitleback extratitle "
    "ProvidesFile DeclareRobustCommand makeatletter makeatother subtitle thanks thispagestyle "
    "tikzset titlehead todo usepackage usetheme usetikzlibrary vphantom vspace cline DeclareSIUnit"
)
_TOKEN_OF_CONDITION = r"(\\[A-Za-z@]+|\\?.)\s*"
_NUMBER_OF_CONDITION = r"(-?[\d.]+|\\[A-Za-z@]+)(?:\{[^{}]*\}|[ ]?[a-z]{2}\b)?[ ]?"
_CONDITIONS = {  # what stands between a conditional and its first branch
    **dict.fromkeys(("if", "ifcat", "ifx"), re.compile(r"\s*" + 2 * _TOKEN_OF_CONDITION)),
    **dict.fromkeys(
        ("ifnum", "ifdim"),
        re.compile(rf"\s*{_NUMBER_OF_CONDITION}\s*([<>=])\s*{_NUMBER_OF_CONDITION}"),
    ),
    **dict.fromkeys(("ifodd", "ifcase"), re.compile(r"\s*" + _NUMBER_OF_CONDITION)),
    "ifdefined": re.compile(r"\s*" + _TOKEN_OF_CONDITION),
    "ifcsname": re.compile(r"\s*([^\\]*)\\endcsname\s*"),
}
_SWITCHES = {  # macros that make one and set it
    **dict.fromkeys(("newboolean", "newbool", "newtoggle", "boolfalse", "togglefalse"), "false"),
    **dict.fromkeys(("booltrue", "toggletrue"), "true"),
    **dict.fromkeys(("setboolean", "setbool", "settoggle"), ""),
}
_TEST = re.compile(r"(\\not\s*)?\\(?:boolean|equal)\s*\{([^{}]*)\}\s*(?:\{([^{}]*)\})?")
_NAME_MARKS = re.compile(  # and what else appears next to a name, but is not part of it
    r"\$[^$]*\$|\\(?:affil|altaffil\w*|authormark|corref|ead|email|f(?:oot)?n\w+|href|IEEE\w*(?:A|mark|ship)"
    r"|inst\w*|mailto|orcid\w*|textsuperscript|thanks|tnoteref|url)\*?(?:\[[^\]]*\])?(?:\s*\{[^{}]*\})*"
)
_AUTHORS_END = re.compile(r"\\(?:and|And|AND)\b")
_GAP = re.compile(r"\\q?quad\b")
_LINE_END = re.compile(r"(?<![,;&])(?<!\band)\s*(?:\\\\|\n[ \t]*\n)")
_LAST_ARGUMENT = {"href": 2, "textcolor": 2, "multicolumn": 3, "multirow": 3, "parbox": 2}
_REFERENCES = name_set("ref vref eqref cref Cref autoref nameref labelcref")
_RULES = name_set(
    "hline toprule midrule bottomrule addlinespace cmidrule specialrule tabularnewline"
)
_PARTS_OF_LONG_TABLES = name_set("endfirsthead endhead endfoot endlastfoot")
_LAST_ARGUMENT |= {"colorbox": 2, "resizebox": 3, "scalebox": 2, "foreignlanguage": 2}
_SPACE_IF_WORD = "\ufdd2"  # what \\xspace leaves
_REFERENCE = re.compile("\ufdd0([A-Za-z]+):([^\ufdd1]*)\ufdd1")  # what stands for one at first
_LABEL_IN_FORMULA = re.compile(r"\\label\s*\{([^{}]*)\}")
_UNNUMBERED_ROW = re.compile(r"\\(?:notag|nonumber|tag)\b")
_THEOREM = re.compile(
    r"\*?\s*\{([^{}]{1,60})\}\s*(?:\[([^\]]{1,60})\])?\s*\{([^{}]{0,200})\}\s*(?:\[([a-z]{1,60})\])?"
)
_OPERATOR = re.compile(r"\*?\s*\{?\s*\\([A-Za-z]+)\s*\}?\s*\{")
_MACRO = re.compile(r"\\([A-Za-z@]+)")
_SYMBOLS = latex_units.pairs(
    """
    ss ß  ae æ  AE Æ  oe œ  OE Œ  aa å  AA Å  o ø  O Ø  l ł  L Ł  i ı  j ȷ  dots …  ldots …
    textellipsis …  textendash –  textemdash —  textquotedblleft “  textquotedblright ”
    textquoteleft ‘  textquoteright ’  glqq „  grqq “  quotedblbase „  guillemotleft «
    guillemotright »  S §  P ¶  copyright ©  textcopyright ©  pounds £  euro €  texteuro €  EUR €
    textdegree °  degree °  textmu µ  textbackslash \\  textasciitilde ~  textasciicircum ^
    textunderscore _  textbar |  textless <  textgreater >  texttimes ×  textpm ±  TeX TeX
    LaTeX LaTeX  LaTeXe LaTeX2e  BibTeX BibTeX  slash /
    """
)
_SYMBOLS |= {"og": "« ", "fg": " »"}
_SYMBOLS |= dict.fromkeys(name_set("quad qquad newline linebreak space enspace hfill"), " ")
_ACCENTS = {
    **dict(zip("\"'`^~=.", "\u0308\u0301\u0300\u0302\u0303\u0304\u0307", strict=True)),
    **dict(zip("uvHcdbrk", "\u0306\u030c\u030b\u0327\u0323\u0331\u030a\u0328", strict=True)),
}
_SPACING = {",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "/": "", "-": "", "!": "", "@": ""}
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
_DEFINITION = re.compile(
    r"\s*+(?:\{\s*+)?\\([A-Za-z@]++)\s*+(?:\}\s*+)?"
    r"(?:\[(\d)\])?(\[[^\]]{0,200}\])?\s*+(?=\{)"
)
_DOCUMENT_COMMAND = re.compile(  # \NewDocumentCommand{\unit}{O{m} m}
    r"\s*+(?:\{\s*+)?\\([A-Za-z@]++)\s*+(?:\}\s*+)?\{\s*+(o|O\s*+\{[^{}]{0,200}\})?((?:\s*+m)*+)\s*+\}"
    r"\s*+(?=\{)"
)
_PLAIN_DEFINITION = re.compile(r"\\([A-Za-z@]++)\s*+((?:#\d)*+)\s*+(?=\{)")
_DEFINERS = {
    "def": _PLAIN_DEFINITION,
    "DeclareMathOperator": _OPERATOR,
    "newtheorem": _THEOREM,
    **dict.fromkeys(("newcommand", "renewcommand", "providecommand"), _DEFINITION),
    "DeclareRobustCommand": _DEFINITION,
    "NewDocumentCommand": _DOCUMENT_COMMAND,
    "RenewDocumentCommand": _DOCUMENT_COMMAND,
}
_ROW_OPTION = re.compile(r"\*?(?:\[[^\]\n]{0,20}\])?")
_SPACE_BEFORE = re.compile(r" ([.,)])")
_WORD_AFTER = re.compile(_SPACE_IF_WORD + r"(?=[\w(\[“‘«„$§\"&-])")
_SECTION_LINE = re.compile(r"^[ \t]*\\(?:sub)*(?:section|chapter)\*?\{", re.MULTILINE)
_START = re.compile(r"^[ \t]*\\(?:documentclass|begin\{document\})", re.MULTILINE)
_NUMBER = re.compile(r"\\(arabic|[Aa]lph|[Rr]oman)\*")
_LABEL = re.compile(r"\blabel\s*=\s*((?:\{(?:[^{}]|\{[^{}]*\})*\}|[^,{}])+)")
_SHORT_LABEL = re.compile(r"([^\\{}=,<>]{0,20}?)(1|\b[AaIi])([^\w\\{}=,<>]{0,3})")
_LIST_START = re.compile(r"\bstart\s*=\s*([0-9]{1,6})\b")
_MAX_LABEL = 100  # characters of the source of a label
_MAX_OPTION = 60  # tokens in an argument in brackets
_MAX_DEPTH = 30  # of arguments within arguments, and of macros within macros
_MAX_VERBATIM = 500  # characters within a line
_MAX_EXPANSION = 1_000  # characters of an expanded macro
_SNIFFED = 20_000  # characters


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


@dataclass(slots=True)
class _Source:
    """A source cut into tokens, with the partner of each brace and of each begin."""

    text: str
    tokens: list[_Token] = field(default_factory=list)
    partners: dict[int, int] = field(default_factory=dict)


def read(text: str) -> ParsedText:
    """Read the title, the sections and what they contain."""
    reader = _LatexBlocks(text)
    reader.read()
    parsed = compose_text(reader.title or None, reader.blocks)
    return replace(parsed, authors=clean_names(reader.authors), date=parse_date(reader.date))


def looks_like_latex(text: str) -> bool:
    """Return whether a text begins a LaTeX document or has sections written as LaTeX macros."""
    sample = text[:_SNIFFED]
    if "\\" not in sample:
        return False
    sections = sum(1 for _ in _SECTION_LINE.finditer(sample))
    return _START.search(sample) is not None or sections > 1


@dataclass(slots=True)
class _Environment:
    r"""What the paragraphs in an environment are, and how its items are numbered.

    Attributes:
        kind: The kind of the paragraphs.
        depth: Number of enumerations around them.
        label: Source of the labels of its items, such as "(\alph*)"; empty if they have no numbers.
        count: Number of the last item.
        float: "figure" or "table", if they are in one.
    """

    kind: Kind = "prose"
    depth: int = 0
    label: str = ""
    count: int = 0
    float: str = ""


class _LatexBlocks:
    """Turns tokens into blocks."""

    def __init__(self, text: str) -> None:
        self.title = ""
        self.authors: list[str] = []
        self.date = ""
        self.blocks: list[Block] = []
        self._source = text
        # The number of arguments of each macro, its body, and what its first one is by default.
        self._macros: dict[str, tuple[int, str, str | None]] = {}
        self._switches = {"true": True, "false": False}  # by the names of their conditionals
        self._theorems: dict[
            str, tuple[str, str, str]
        ] = {}  # title, counter, what it counts within
        self._numbers: Counter[str | int] = Counter()  # of sections by level, floats and formulas
        self._current = "", "", ""  # kind, number and title of what a label names
        self._labels: dict[str, tuple[str, str, str]] = {}
        self._is_appendix = False
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._place = "line 1"
        self._shown: list[str] = []  # the paragraph so far
        self._marker = ""  # the number of the item that begins
        self._environments = [_Environment()]  # around the paragraph
        self._footnotes: list[str] = []
        self._room = 2 * len(text) + 100_000  # characters that expanded macros may have together

    def read(self) -> None:
        source = _tokenize(self._source)
        places = {
            (token.kind, token.text): index
            for index, token in enumerate(source.tokens)
            if token.text in ("documentclass", "documentstyle", "document")
        }
        begin = places.get(("begin", "document"), -1)
        if ("macro", "documentclass") not in places and ("macro", "documentstyle") not in places:
            begin = -1  # a file that is part of a document has no preamble
        self._run(source, 0, begin + 1, 0)
        self.blocks, self._shown, self._footnotes = [], [], []  # the preamble shows nothing
        end = source.partners.get(begin, len(source.tokens))
        self._run(source, begin + 1, end, 0)
        self._flush()
        for block in self.blocks:
            if _REFERENCE.search(shown := str(block.text)):
                written = _tidy(_REFERENCE.sub(self._refer, shown))
                block.text = (
                    written if isinstance(block, Heading) else MappedText.from_text(written)
                )

    @property
    def _environment(self) -> _Environment:
        return self._environments[-1]

    def _flush(self) -> None:
        """End the paragraph, and put its footnotes after it."""
        shown = _tidy("".join(self._shown))
        self._shown = []
        if shown:
            self._add(f"{self._marker} {shown}" if self._marker else shown, self._environment.kind)
        footnotes, self._footnotes = self._footnotes, []
        for footnote in footnotes:
            self._add(footnote, "footnote")

    def _add(self, shown: str, kind: Kind) -> None:
        if shown.strip():
            self.blocks.append(Prose(MappedText.from_text(shown), kind=kind, place=self._place))
            self._marker = ""  # it belongs before this paragraph, not before the next one

    def _note_place(self, source: _Source, index: int) -> None:
        if source.text is self._source:  # an expanded macro has no lines
            start = source.tokens[index].start
            self._place = f"line {bisect_left(self._line_ends, start) + 1}"

    def _run(self, source: _Source, index: int, end: int, depth: int) -> None:
        """Read the tokens from `index` to `end`."""
        while index < end:
            kind, text, _ = source.tokens[index]
            if not self._shown and kind != "par":
                self._note_place(source, index)
            index += 1
            if kind == "text":
                if self._shown or not text.isspace():
                    self._shown.append(text)
            elif kind == "math":
                self._shown.append(formulas.from_latex(self._expanded(text)))
            elif kind == "par":
                self._flush()
            elif kind == "formula":
                self._flush()
                environment, _, inside = text.partition("\0")
                self._number_formulas(environment, inside)
                self._add(formulas.from_latex(self._expanded(inside)), "formula")
            elif kind == "code":
                self._flush()
                self._add(text, "code")
            elif kind == "begin":
                index = self._begin(source, index, end, depth, text)
            elif kind == "end":
                self._end()
            elif kind == "macro":
                index = self._macro(source, index, end, depth, text)
            elif kind == "accent":
                index = self._accent(source, index, end, text)
            elif kind in ("cell", "row") or (
                kind == "close" and index < end and source.tokens[index].kind == "open"
            ):
                self._shown.append(" ")

    def _inline(self, source: _Source, span: tuple[int, int], depth: int) -> str:
        """Return the text of an argument."""
        if depth > _MAX_DEPTH:
            return ""
        outer = self._shown, self._marker, self._environments
        self._shown, self._marker = [""], ""
        self._environments = [replace(self._environment, kind="prose", label="")]
        blocks = len(self.blocks)
        self._run(source, *span, depth + 1)
        inner = [str(block.text) for block in self.blocks[blocks:]]
        del self.blocks[blocks:]
        shown = _tidy(" ".join([*inner, "".join(self._shown)]))
        self._shown, self._marker, self._environments = outer
        return shown

    def _names(self, source: _Source, span: tuple[int, int], depth: int) -> Iterator[str]:
        r"""Yield the names in the argument of \author.

        Those of each author or group of authors are in the first line, which a comma or "and"
        continues; their addresses follow.
        """
        written = _NAME_MARKS.sub("", _written(source, span))
        for group in _AUTHORS_END.split(written):
            line = _LINE_END.split(group.strip(), maxsplit=1)[0]
            named = _tokenize(_GAP.sub(";", line))
            yield from split_names(self._inline(named, (0, len(named.tokens)), depth))

    def _begin(self, source: _Source, index: int, end: int, depth: int, name: str) -> int:
        self._flush()
        begin = index - 1
        close = min(source.partners.get(begin, end), end)
        if f"begin {name}" in self._macros:
            around = len(self._environments)
            index = self._expand(source, index, end, depth, f"begin {name}")
            del self._environments[around:]  # which its end would end
        option, index = _option(source, index, end)
        arguments = _TABLES.get(name, _ENVIRONMENT_ARGUMENTS.get(name, 0))
        spans, index = _arguments(source, index, end, arguments)
        environment = replace(self._environment)
        if name not in _ENVIRONMENT_ARGUMENTS:  # which only lay out what they hold, such as items
            environment.label = ""
        environment.float = _FLOATS.get(name.rstrip("*"), environment.float)
        if name in self._theorems:
            note = f" ({self._inline(source, option, depth)})" if option else ""
            self._shown.append(f"{self._begin_theorem(name)}{note}. ")
        if name in _TABLES and len(spans) == arguments and begin in source.partners:
            self._environments.append(environment)
            self._table(source, index, close, depth)
            self._environments.pop()
            index = close
        elif name == "abstract":
            self.blocks.append(Heading(_SECTION, "Abstract"))
        elif name == "thebibliography":
            _, index = _arguments(source, index, end, 1)
            levels = [one.level for one in self.blocks if isinstance(one, Heading)]
            self.blocks.append(Heading(_CHAPTER if _CHAPTER in levels else _SECTION, "References"))
            environment.kind = "reference"
        elif name in _ENUMERATIONS:
            self._enumerate(environment, _written(source, option) if option else "")
        elif name == "frame":
            spans, index = _arguments(source, index, end, 1)
            if spans:
                self._heading(_SECTIONS["frametitle"], self._inline(source, spans[0], depth))
        self._environments.append(environment)
        return index

    def _enumerate(self, environment: _Environment, options: str) -> None:
        """Begin to number items, as the options of their environment say."""
        label = _ITEM_LABELS[min(environment.depth, len(_ITEM_LABELS) - 1)]
        if given := _LABEL.search(options):
            label = given[1]
        elif short := _SHORT_LABEL.fullmatch(options.strip()):
            label = f"{short[1]}\\{_NUMERALS[short[2]]}*{short[3]}"
        is_number = _NUMBER.search(label) and len(label) <= _MAX_LABEL
        environment.label = label if is_number else ""
        start = _LIST_START.search(options)
        environment.count = int(start[1]) - 1 if start else 0
        environment.depth += 1

    def _marker_of(self, environment: _Environment) -> str:
        """Return the source of the label of an environment's last item."""
        return _NUMBER.sub(
            lambda number: format_number(environment.count, _STYLES[number[1]]), environment.label
        )

    def _item(self, source: _Source, index: int, end: int, depth: int) -> int:
        """Begin an item with its own label or, in an enumeration, with its number."""
        self._flush()
        self._note_place(source, index - 1)
        self._marker = ""
        environment = self._environment
        if environment.kind != "reference":
            environment.kind = "item"
        label, index = _option(source, index, end)
        if label:
            self._shown.append(self._inline(source, label, depth) + " ")
        elif environment.label:
            environment.count += 1
            written = _tokenize(self._marker_of(environment))
            self._marker = self._inline(written, (0, len(written.tokens)), depth)
            self._current = "item", self._marker.rstrip(".:"), ""
        return index

    def _end(self) -> None:
        self._flush()
        self._marker = ""  # of an item without text
        if len(self._environments) > 1:
            self._environments.pop()

    def _heading(self, level: int, title: str) -> None:
        self._flush()
        self.blocks.append(Heading(level, title))

    def _macro(self, source: _Source, index: int, end: int, depth: int, name: str) -> int:
        """Read a macro whose name has been read; return the index after its arguments."""
        if name in self._macros:
            return self._expand(source, index, end, depth, name)
        if name in _SYMBOLS:
            self._shown.append(_SYMBOLS[name])
        elif name == "par":
            self._flush()
        elif name == "item":
            index = self._item(source, index, end, depth)
        elif name == "bibitem":
            self._flush()
            _, index = _option(source, index, end)
            _, index = _arguments(source, index, end, 1)
        elif name in _DEFINERS:
            index = self._define(source, index, end, name)
        elif name in _SECTIONS or name in ("title", "caption") or name in _FOOTNOTES:
            is_starred = source.text.startswith("*", source.tokens[index - 1].start + len(name) + 1)
            _, index = _option(source, index, end)
            spans, index = _arguments(source, index, end, 1)
            number = "" if is_starred else self._count(name)
            shown = self._inline(source, spans[0], depth) if spans else ""
            self._current = (*self._current[:2], shown) if name in _SECTIONS else self._current
            self._set_apart(name, shown, number)
        elif name in _RULES:
            _, index = _option(source, index, end)
            if name == "cmidrule" and index < end and source.tokens[index].text.startswith("("):
                index += 1
            if name in ("cmidrule", "specialrule"):
                _, index = _arguments(source, index, end, 1 if name == "cmidrule" else 3)
        elif name == "label" or name in _REFERENCES:
            spans, index = _arguments(source, index, end, 1)
            key = collapse(_written(source, spans[0])) if spans else ""
            if name == "label":
                self._labels.setdefault(key, self._current)
            else:
                self._shown.append(f"\ufdd0{name}:{key}\ufdd1")
        elif name in latex_units.COMMANDS:
            _, index = _option(source, index, end)
            spans, index = _arguments(source, index, end, 3 if "range" in name else 2)
            written = [self._expanded(_written(source, span)) for span in spans]
            if name in ("num", "numlist", "ang", "si", "unit") and len(spans) > 1:
                index, written = spans[0][1] + 1, written[:1]
            self._shown.append(latex_units.write(name, written))
        elif name in ("textsuperscript", "textsubscript"):
            spans, index = _arguments(source, index, end, 1)
            script = self._inline(source, spans[0], depth) if spans else ""
            before = "".join(self._shown[-10:])
            self._shown.append(scripted(before, script, is_raised=name == "textsuperscript"))
        elif name in ("enquote", "ensuremath", "texorpdfstring"):
            spans, index = _arguments(source, index, end, 2 if name == "texorpdfstring" else 1)
            if name == "ensuremath" and spans:
                shown = formulas.from_latex(self._expanded(_written(source, spans[0])))
            else:
                shown = self._inline(source, spans[0], depth) if spans else ""
            if name == "enquote":
                shown = f"“{shown.replace('“', '‘').replace('”', '’')}”"
            self._shown.append(shown)
        elif name == "xspace":
            self._shown.append(_SPACE_IF_WORD)
        elif name == "appendix":
            self._is_appendix = True
            self._numbers[_CHAPTER if self._numbers[_CHAPTER] else _SECTION] = 0
        elif name == "newif" and index < end:
            self._switches[source.tokens[index].text.removeprefix("if")] = False
            index += 1
        elif self._is_conditional(source, index - 1):
            index = self._choose(source, index, end, depth)
        elif name in ("ifthenelse", "ifbool", "iftoggle"):
            spans, index = _arguments(source, index, end, 3)
            if len(spans) == 3 and depth <= _MAX_DEPTH:
                is_true = self._holds(_written(source, spans[0]), name)
                self._run(source, *spans[1 if is_true else 2], depth + 1)
        elif name in _SWITCHES:
            spans, index = _arguments(source, index, end, 1 if _SWITCHES[name] else 2)
            switch, value = [*(_written(source, span) for span in spans), "", ""][:2]
            self._switches[switch] = (_SWITCHES[name] or value) == "true"
        elif (switch := name.removesuffix("true").removesuffix("false")) in self._switches:
            self._switches[switch] = name.endswith("true")
        elif name in ("newenvironment", "renewenvironment"):
            index = self._define_environment(source, index, end)
        elif name in _CITATIONS:
            _, index = _option(source, index, end)
            _, index = _option(source, index, end)
            spans, index = _arguments(source, index, end, 1)
            if spans and name != "nocite":
                keys = "".join(token.text for token in source.tokens[slice(*spans[0])])
                self._shown.append(f"[{collapse(keys)}]")
        elif name in _WITHOUT_TEXT:
            _, index = _option(source, index, end)
            spans, index = _arguments(source, index, end, 9)
            if name == "author" and spans and self._environment.kind != "reference":
                self.authors += self._names(source, spans[0], depth)
            elif name == "date" and spans:
                self.date = self._inline(source, spans[0], depth)
        elif name in _LAST_ARGUMENT:
            _, index = _option(source, index, end)
            spans, index = _arguments(source, index, end, _LAST_ARGUMENT[name])
            if spans:
                self._shown.append(self._inline(source, spans[-1], depth))
        else:
            option, after = _option(source, index, end)
            if option and after < end and source.tokens[after].kind == "open":
                index = after
        return index

    def _set_apart(self, name: str, shown: str, number: str) -> None:
        """Add a heading, the title, a caption or a footnote."""
        if name in _SECTIONS:
            self._heading(_SECTIONS[name], shown)
        elif name == "title":
            self.title = shown
        elif name == "caption":
            self._flush()
            label = f"{self._current[0].title()} {number}: " if number else ""
            self._add(f"{label}{shown}" if shown else "", "caption")
        else:
            self._footnotes.append(shown)

    def _count(self, name: str) -> str:
        """Count a section or a caption, and return its number."""
        level = _SECTIONS.get(name, 0)
        if name == "caption" and self._environment.float:
            kind = self._environment.float
            self._current = kind, self._next_number(kind, _CHAPTER), ""
        elif 0 < level < _SECTIONS["paragraph"] and name != "frametitle":
            self._numbers[level] += 1
            for deeper in range(level + 1, _SECTIONS["paragraph"]):
                self._numbers[deeper] = 0
            kind = "chapter" if level == _CHAPTER else "section"
            self._current = kind, self._section_number(level), ""
        else:
            return ""
        return self._current[1]

    def _section_number(self, level: int = _SECTIONS["subsubsection"]) -> str:
        top = _CHAPTER if self._numbers[_CHAPTER] else _SECTION
        counts = [self._numbers[one] for one in range(top, level + 1)]
        while counts and not counts[-1]:
            counts.pop()
        first = format_number(counts[0], "A" if self._is_appendix else "1") if counts else ""
        return ".".join([first, *map(str, counts[1:])])

    def _next_number(self, counter: str, level: int) -> str:
        """Count what is numbered within the sections of a level, if there are any."""
        section = self._section_number(level)
        prefix = f"{section}." if section else ""
        self._numbers[f"{counter} {prefix}"] += 1
        return f"{prefix}{self._numbers[f'{counter} {prefix}']}"

    def _begin_theorem(self, name: str) -> str:
        """Count a theorem, and return its title and number."""
        title, counter, outer = self._theorems[name]
        if not counter:
            return title
        number = self._next_number(counter, _SECTIONS.get(outer, 0))
        self._current = title.lower(), number, ""
        return f"{title} {number}"

    def _number_formulas(self, environment: str, inside: str) -> None:
        """Count the formulas of an environment, and remember the labels in it."""
        rows = inside.split("\\\\") if environment in _ROWS else [inside]
        can_count = environment in _ROWS or environment in _ONE_NUMBER
        number = ""
        for row in rows:
            if can_count and row.strip() and not _UNNUMBERED_ROW.search(row):
                number = self._next_number("equation", _CHAPTER)
            for label in _LABEL_IN_FORMULA.findall(row):
                self._labels[label] = "equation", number, ""

    def _refer(self, reference: re.Match[str]) -> str:
        """Return what a reference shows; nothing for one to a place outside of this file."""
        name, keys = reference.groups()
        found = [
            self._labels[key.strip()] for key in keys.split(",") if key.strip() in self._labels
        ]
        if name == "nameref":
            return found[0][2] if found else ""
        shown: list[str] = []
        previous = ""
        for kind, number, _ in found:
            number = f"({number})" if kind == "equation" and name not in ("ref", "vref") else number
            if name in ("cref", "Cref", "autoref") and kind != previous and kind:
                is_plural = sum(other[0] == kind for other in found) > 1
                title = kind.title() if name == "Cref" or kind in ("figure", "table") else kind
                number = f"{title}{'s' * is_plural} {number}"
            previous = kind
            shown.append(number)
        return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))

    def _is_conditional(self, source: _Source, index: int) -> bool:
        r"""Return whether a macro is a conditional that ends with \\fi."""
        kind, name, _ = source.tokens[index]
        if kind != "macro" or not name.startswith("if") or name in self._macros:
            return False
        has_arguments = source.tokens[index + 1 : index + 2][:1] and (
            source.tokens[index + 1].kind == "open"
        )
        return name in _CONDITIONS or name[2:] in self._switches or not has_arguments

    def _choose(self, source: _Source, index: int, end: int, depth: int) -> int:
        """Read one branch of a conditional; return the index after its end.

        One that ends elsewhere, such as in another macro, is read as if it were not there.
        """
        first, nesting = index, 0
        marks: list[int] = []  # of what divides the branches
        while index < end:
            kind, text, _ = source.tokens[index]
            if kind == "macro" and text == "fi":
                if not nesting:
                    break
                nesting -= 1
            elif kind == "macro" and text in ("else", "or") and not nesting:
                marks.append(index)
            nesting += self._is_conditional(source, index)
            index += 1
        else:
            return first
        begin, chosen = self._condition(source, first, index)
        bounds = [begin - 1, *marks, index]
        branches = [(before + 1, after) for before, after in pairwise(bounds)]
        if chosen is None:  # the first one that shows something
            tokens = source.tokens[slice(*branches[0])]
            chosen = 0 if any(token.text.strip() for token in tokens) else 1
        if marks and source.tokens[marks[-1]].text == "else":
            chosen = min(chosen, len(branches) - 1)
        if depth <= _MAX_DEPTH and chosen < len(branches):
            self._run(source, *branches[chosen], depth + 1)
        return index + 1

    def _condition(self, source: _Source, index: int, end: int) -> tuple[int, int | None]:
        """Return where the first branch begins, and which branch is chosen, if that is known."""
        name = source.tokens[index - 1].text
        is_true: bool | None = None
        if name[2:] in self._switches or name not in _CONDITIONS:
            is_true = self._switches.get(name[2:])
            return index, None if is_true is None else int(not is_true)
        match = _CONDITIONS[name].match(source.text, source.tokens[index].start)
        if match is None:
            return index, None
        while index < end and source.tokens[index].start < match.end():
            following = source.tokens[index + 1].start
            if following > match.end() and source.tokens[index].kind == "text":
                rest = source.text[match.end() : following]
                source.tokens[index] = _Token("text", rest, match.end())
            else:
                index += 1
        parts = [self._meaning(part) for part in match.groups()]
        if name in ("if", "ifcat", "ifx"):
            is_true = None if parts == [None, None] else parts[0] == parts[1]
        elif name in ("ifdefined", "ifcsname"):
            is_true = parts[0] is not None or f"\\{match[1]}" in self._macros
        elif None not in parts:
            try:
                numbers = [float(part) for part in (parts[0], parts[-1]) if part is not None]
            except ValueError:
                return index, None
            if name == "ifcase":
                return index, max(int(numbers[0]), 0)
            signs = {"<": numbers[0] < numbers[1], ">": numbers[0] > numbers[1]}
            is_true = (
                numbers[0] % 2 == 1
                if name == "ifodd"
                else signs.get(match[2], numbers[0] == numbers[1])
            )
        return index, None if is_true is None else int(not is_true)

    def _meaning(self, written: str) -> str | None:
        """Return what a macro without arguments stands for, or a character; None if unknown."""
        if not written.startswith("\\"):
            return written
        if written in ("\\empty", "\\@empty"):
            return ""
        return self._macros[written[1:]][1] if written[1:] in self._macros else None

    def _holds(self, test: str, name: str) -> bool:
        """Return whether a test in braces holds; one that is not understood does."""
        if name != "ifthenelse":
            return self._switches.get(test, True)
        match = _TEST.fullmatch(test.strip())
        if match is None:
            return True
        if match[3] is None:
            holds = self._switches.get(match[2], True)
        else:
            holds = self._expanded(match[2]).strip() == self._expanded(match[3]).strip()
        return holds != bool(match[1])

    def _accent(self, source: _Source, index: int, end: int, accent: str) -> int:
        """Read the letter under an accent, which may be in braces or be a macro: \\'{\\i}."""
        spans, after = _arguments(source, index, end, 1)
        inner = spans[0][0] if spans else index
        letter = source.tokens[inner] if inner < end else _Token("", "", -1)
        shown = {"ı": "i", "ȷ": "j"}.get(_SYMBOLS.get(letter.text, ""), letter.text)
        if letter.kind not in ("text", "macro") or not shown or not shown[0].isalpha():
            return index
        self._shown.append(unicodedata.normalize("NFC", shown[0] + _ACCENTS[accent]) + shown[1:])
        return after if spans else index + 1

    def _define(self, source: _Source, index: int, end: int, name: str) -> int:
        """Remember a short macro, an operator or a kind of theorem that the document defines."""
        pattern = _DEFINERS[name]
        start = source.tokens[index].start if index < end else len(source.text)
        match = pattern.match(source.text, start)
        if not match:
            return index
        while index < end and source.tokens[index].start < match.end() - (pattern is _OPERATOR):
            index += 1
        if pattern is _THEOREM:
            is_starred = source.text.startswith("*", start - 1)
            counter = "" if is_starred else match[2] or match[1]
            outer = self._theorems[match[2]][2] if match[2] in self._theorems else match[4] or ""
            self._theorems[match[1]] = match[3], counter, outer
            return index
        spans, after = _arguments(source, index, end, 1)
        if not spans:
            return index
        body = _written(source, spans[0])
        if pattern is _OPERATOR:
            self._macros[match[1]] = (0, rf"\operatorname{{{body}}}", None)
        elif len(body) <= _MAX_EXPANSION and pattern is _PLAIN_DEFINITION:
            self._macros[match[1]] = (match[2].count("#"), body, None)
        elif len(body) <= _MAX_EXPANSION and pattern is _DOCUMENT_COMMAND:
            default = match[2] and match[2][1:].strip().strip("{}")
            self._macros[match[1]] = (match[3].count("m") + (default is not None), body, default)
        elif len(body) <= _MAX_EXPANSION:
            default = None if match[3] is None else match[3][1:-1]
            self._macros[match[1]] = (int(match[2] or 0), body, default)
        return after

    def _define_environment(self, source: _Source, index: int, end: int) -> int:
        """Remember what a kind of environment begins with; its end says nothing."""
        names, index = _arguments(source, index, end, 1)
        count, index = _option(source, index, end)
        default, index = _option(source, index, end)
        bodies, index = _arguments(source, index, end, 2)
        number = _written(source, count).strip() if count else "0"
        if names and bodies and number in tuple("0123456789"):
            body = _written(source, bodies[0])[:_MAX_EXPANSION]
            first = _written(source, default) if default else None
            self._macros[f"begin {_written(source, names[0])}"] = int(number), body, first
        return index

    def _expand(self, source: _Source, index: int, end: int, depth: int, name: str) -> int:
        body, index = self._written_out(source, index, end, name)
        if depth <= _MAX_DEPTH and len(body) <= self._room:
            self._room -= len(body)
            expanded = _tokenize(body)
            self._run(expanded, 0, len(expanded.tokens), depth + 1)
        return index

    def _expanded(self, formula: str) -> str:
        """Expand the macros of the document in a formula."""
        for _ in range(_MAX_DEPTH):
            known = (match for match in _MACRO.finditer(formula) if match[1] in self._macros)
            found = next(known, None)
            if found is None or len(formula) > self._room:
                break
            rest = _tokenize(formula[found.end() :])
            body, after = self._written_out(rest, 0, len(rest.tokens), found[1])
            after_macro = rest.tokens[after].start if after < len(rest.tokens) else len(rest.text)
            formula = f"{formula[: found.start()]}{body} {rest.text[after_macro:]}"
            self._room -= len(body)
        return formula

    def _written_out(self, source: _Source, index: int, end: int, name: str) -> tuple[str, int]:
        """Return what a macro stands for, with its arguments, and the index after them.

        It is empty if it would be too long.
        """
        count, body, default = self._macros[name]
        arguments: list[str] = []
        if default is not None:
            option, index = _option(source, index, end)
            arguments = [_written(source, option) if option else default]
        spans, index = _arguments(source, index, end, count - len(arguments))
        arguments += [_written(source, span) for span in spans]
        for number, argument in enumerate(arguments, start=1):
            body = body.replace(f"#{number}", argument)
            if len(body) > 100 * _MAX_EXPANSION:
                return "", index
        return body, index

    def _table(self, source: _Source, index: int, end: int, depth: int) -> None:
        """Add the rows of a table; a line below the first ones says that they hold the headers."""
        rows: list[list[Cell]] = []
        heads: list[list[Cell]] = []
        cells: list[Cell] = []
        num_heads = 0
        below: Counter[int] = Counter()  # rows that a cell of each column still spans
        start, nesting, column = index, 0, 0
        while index <= end:
            kind, text, _ = source.tokens[index] if index < end else _Token("row", "", -1)
            nesting += (kind in ("begin", "open")) - (kind in ("end", "close"))
            if kind == "macro" and text in ("hline", "midrule") and not num_heads:
                num_heads = len(rows) if len(rows) <= (1 if text == "hline" else 3) else 0
            elif kind == "macro" and text == "caption" and nesting <= 0:
                index = start = self._macro(source, index + 1, end, depth, text)
                continue
            ends_part = kind == "macro" and text in _PARTS_OF_LONG_TABLES
            ends_row = ends_part or (kind == "row" and nesting <= 0)
            if ends_row or (kind == "cell" and nesting <= 0):
                cell = self._cell(source, start, index, depth)
                if not (below[column] and not cell.text):
                    cells.append(cell)
                for spanned in range(column, column + cell.columns):
                    below[spanned] = max(below[spanned] - 1, 0, cell.rows - 1)
                column += cell.columns
                start = index + 1
            if ends_row:
                if any(cell.text for cell in cells):
                    rows.append(cells)
                cells, column = [], 0
            if ends_part:
                heads, rows = heads or ([] if "foot" in text else rows), []
            index += 1
        num_heads = len(heads) or num_heads
        rows = heads + rows
        for row in table_blocks(rows, num_heads if num_heads < len(rows) else 0):
            self._add(str(row.text), row.kind)

    def _cell(self, source: _Source, start: int, end: int, depth: int) -> Cell:
        shown = MappedText.from_text(self._inline(source, (start, end), depth))
        cell = Cell(shown)
        for index in range(start, end):
            kind, text, _ = source.tokens[index]
            if kind == "macro" and text in ("multicolumn", "multirow"):
                _, after = _option(source, index + 1, end)
                spans, _ = _arguments(source, after, end, 1)
                number = _written(source, spans[0]).strip() if spans else ""
                if number.isdecimal() and len(number) < 3:
                    cell.columns = int(number) if text == "multicolumn" else cell.columns
                    cell.rows = int(number) if text == "multirow" else cell.rows
        return cell


class _Scanner:
    """Cuts a source into tokens; verbatim text and formulas are one token each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._unclosed: set[str] = set()  # what was searched for in vain
        self._dropped = {*_DROPPED, *_EXCLUDED.findall(text)}

    def tokens(self) -> Iterator[_Token]:
        while self._position < len(self._text):
            start = self._position
            match = _TOKEN.match(self._text, start)
            assert match is not None
            self._position = match.end()
            kind, shown = self._read(match)
            if kind:
                yield _Token(kind, shown, start)

    def _read(self, match: re.Match[str]) -> tuple[str, str]:
        """Return the kind and text of a token, of no kind if it is left out."""
        kind = str(match.lastgroup)
        shown = match[kind]
        if kind == "comment":
            return "", ""
        if kind == "symbol":
            return self._symbol(shown)
        if kind == "dollars":
            return self._math(shown)
        if kind == "macro":
            return self._macro(match, shown)
        if kind == "typography":
            return "text", _TYPOGRAPHY.get(shown, shown)
        return kind, " " if kind == "text" and shown == "\n" else shown

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

    def _symbol(self, name: str) -> tuple[str, str]:
        kind, shown = _symbol(name)
        if kind == "row" and (option := _ROW_OPTION.match(self._text, self._position)):
            self._position = option.end()
        elif kind in ("formula", "math"):
            inside = self._until("\\]" if kind == "formula" else "\\)")
            return ("", "") if inside is None else (kind, "\0" * (kind == "formula") + inside)
        return kind, shown

    def _math(self, dollars: str) -> tuple[str, str]:
        if dollars == "$$":
            inside = self._until(dollars)
            return ("text", dollars) if inside is None else ("formula", f"\0{inside}")
        start, close = self._position, _end_of_math(self._text, self._position)
        if close < 0:
            return "text", dollars
        self._position = close + 1
        return "math", self._text[start:close]

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
        return "accent" if len(name) == 1 and name in _ACCENTS else "macro", name

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


def _tokenize(text: str) -> _Source:
    """Cut a source into tokens, and find the partners of braces and of begins."""
    source = _Source(text, list(_Scanner(text).tokens()))
    open_braces: list[int] = []
    open_environments: defaultdict[str, list[int]] = defaultdict(list)
    for index, (kind, shown, _) in enumerate(source.tokens):
        if kind == "open":
            open_braces.append(index)
        elif kind == "close" and open_braces:
            source.partners[open_braces.pop()] = index
        elif kind == "begin":
            open_environments[shown].append(index)
        elif kind == "end" and open_environments[shown]:
            source.partners[open_environments[shown].pop()] = index
    return source


def _symbol(shown: str) -> tuple[str, str]:
    """Return the kind and text of a macro that is named by a character."""
    if shown == "[":
        return "formula", ""
    if shown == "(":
        return "math", ""
    if shown == "\\":
        return "row", " "
    if shown in _ACCENTS:
        return "accent", shown
    return "text", _SPACING.get(shown, shown if shown not in ")]" else "")


def _end_of_math(text: str, start: int) -> int:
    """Return where the formula in a line ends: at a dollar sign before the paragraph ends."""
    end = start
    while end < len(text) and end - start < 2000:
        if text[end] == "$":
            return end if end > start else -1
        if text.startswith("\n\n", end):
            return -1
        end += 2 if text[end] == "\\" else 1
    return -1


def _arguments(
    source: _Source, index: int, end: int, count: int
) -> tuple[list[tuple[int, int]], int]:
    """Return the tokens within up to `count` arguments in braces, and the index after them."""
    spans: list[tuple[int, int]] = []
    while len(spans) < count:
        first = index
        while (
            first < end
            and source.tokens[first].kind == "text"
            and source.tokens[first].text.isspace()
        ):
            first += 1
        close = source.partners.get(first)
        if first >= end or source.tokens[first].kind != "open" or close is None or close >= end:
            break
        spans.append((first + 1, close))
        index = _option(source, close + 1, end)[1] if len(spans) < count else close + 1
    return spans, index


def _option(source: _Source, index: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """Return the tokens of an argument in brackets, if it is next, and the index after it."""
    if index >= end or source.tokens[index].text != "[":
        return None, index
    inside = index + 1
    while inside < min(end, index + _MAX_OPTION):
        token = source.tokens[inside]
        if token.text == "]":
            return (index + 1, inside), inside + 1
        if token.kind == "par":
            break
        inside = source.partners.get(inside, inside) + 1
    return None, index


def _written(source: _Source, span: tuple[int, int]) -> str:
    """Return the source of an argument."""
    start, stop = (source.tokens[index].start for index in span)
    return source.text[start:stop]


def _tidy(shown: str) -> str:
    """Remove the spaces that macros without text leave."""
    shown = _WORD_AFTER.sub(" ", collapse(shown)).replace(_SPACE_IF_WORD, "")
    return _SPACE_BEFORE.sub(r"\1", shown)
