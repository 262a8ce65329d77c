"""The commands of LaTeX: how many arguments each has, and what is done with them."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from foveate.documents.blocks import collapse
from foveate.documents.metadata import split_names
from foveate.documents.readers.latex import units
from foveate.documents.readers.latex.blocks import SPACE_IF_WORD, LatexBlocks
from foveate.documents.readers.latex.environments import add_caption, begin_item
from foveate.documents.readers.latex.numbers import LEVELS
from foveate.documents.readers.latex.tokens import ACCENTS, Part, tokenize
from foveate.documents.scripts import scripted
from foveate.documents.words import load_words

_WORDS = load_words("latex")
_SYMBOLS: dict[str, str] = _WORDS["symbols"] | dict.fromkeys(_WORDS["spaces"].split(), " ")
_NAME_MARKS = re.compile(  # and what else appears next to a name, but is not part of it
    r"\$[^$]*\$|\\(?:affil|altaffil\w*|authormark|corref|ead|email|f(?:oot)?n\w+|href|IEEE\w*(?:A|mark|ship)"
    r"|inst\w*|mailto|orcid\w*|textsuperscript|thanks|tnoteref|url)\*?(?:\[[^\]]*\])?(?:\s*\{[^{}]*\})*"
)
_AUTHORS_END = re.compile(r"\\(?:and|And|AND)\b")
_GAP = re.compile(r"\\q?quad\b")
_LINE_END = re.compile(r"(?<![,;&])(?<!\band)\s*(?:\\\\|\n[ \t]*\n)")


class _Call(NamedTuple):
    """A command with its arguments, and what follows it."""

    reader: LatexBlocks
    name: str
    is_starred: bool
    arguments: list[Part]
    rest: Part

    @property
    def text(self) -> str:
        """The text of the last argument; empty if there is none."""
        return self.reader.text(self.arguments[-1]) if self.arguments else ""

    @property
    def written(self) -> list[str]:
        """The sources of the arguments."""
        return [argument.written for argument in self.arguments]

    @property
    def key(self) -> str:
        """The source of the only argument."""
        return collapse("".join(self.written))


def read_macro(reader: LatexBlocks, part: Part, name: str) -> None:
    """Read a macro; of one that is unknown, the arguments are read as text."""
    macros = reader.macros
    switch = name.removesuffix("true").removesuffix("false")
    if name in macros:
        reader.run(macros.expand(name, part))
    elif name in _SYMBOLS:
        reader.shown.append(_SYMBOLS[name])
    elif name in _COMMANDS:
        count, read = _COMMANDS[name]
        is_starred = part.is_starred
        while count and part.option():
            pass
        shown = read(_Call(reader, name, is_starred, part.arguments(count), part))
        if shown:
            reader.shown.append(shown)
    elif macros.is_conditional(part, part.index - 1):
        if branch := macros.branch(name, part):
            reader.run(branch)
    elif switch in macros.switches:
        macros.switches[switch] = name.endswith("true")
    else:
        start = part.index
        if not (part.option() and part.next.kind == "open"):
            part.index = start


def read_accent(reader: LatexBlocks, part: Part, name: str) -> None:
    r"""Read the letter under an accent, which may be in braces or be a macro: `\'{\i}`."""
    start = part.index
    braced = part.arguments(1)
    letter = braced[0].next if braced else part.next
    shown = {"ı": "i", "ȷ": "j"}.get(_SYMBOLS.get(letter.text, ""), letter.text)
    if letter.kind not in ("text", "macro") or not shown or not shown[0].isalpha():
        part.index = start
        return
    part.index += not braced
    reader.shown.append(unicodedata.normalize("NFC", shown[0] + ACCENTS[name]) + shown[1:])


def _section(call: _Call) -> None:
    numbers = call.reader.numbers
    if not call.is_starred:
        numbers.section(call.name)
    title = call.text
    numbers.current = numbers.current._replace(title=title)
    call.reader.add_heading(LEVELS[call.name], title)


def _title(call: _Call) -> None:
    call.reader.title = call.text


def _authors(call: _Call) -> None:
    if call.arguments and call.reader.environment.kind != "reference":
        call.reader.authors += _names(call.reader, call.arguments[0])


def _names(reader: LatexBlocks, part: Part) -> Iterator[str]:
    r"""Yield the names in the argument of `\author`.

    Those of each author or group of authors are in the first line, which a comma or "and"
    continues; their addresses follow.
    """
    for group in _AUTHORS_END.split(_NAME_MARKS.sub("", part.written)):
        line = _LINE_END.split(group.strip(), maxsplit=1)[0]
        yield from split_names(reader.text(tokenize(_GAP.sub(";", line), part.depth)))


def _date(call: _Call) -> None:
    call.reader.date = call.text


def _footnote(call: _Call) -> None:
    footnote = call.text  # which may end paragraphs
    call.reader.footnotes.append(footnote)


def _rule(call: _Call) -> None:
    call.rest.option()
    if call.name == "cmidrule":
        call.rest.index += call.rest.next.text.startswith("(")
        call.rest.argument()


def _citation(call: _Call) -> str:
    tokens = [token.text for part in call.arguments for token in part.tokens[part.index : part.end]]
    return f"[{collapse(''.join(tokens))}]" if call.arguments else ""


def _quantity(call: _Call) -> str:
    return units.write(call.name, [*map(call.reader.macros.expand_formula, call.written)])


def _script(call: _Call) -> str:
    before = "".join(call.reader.shown[-10:])
    return scripted(before, call.text, is_raised=call.name == "textsuperscript")


def _quotation(call: _Call) -> str:
    return f"“{call.text.replace('“', '‘').replace('”', '’')}”"


def _theorems(call: _Call) -> None:
    theorems, part = call.reader.numbers.theorems, call.rest
    kind, shared = part.argument().written.strip(), part.option()
    title, within = part.argument().written, part.option()
    counter = shared.written if shared else kind
    outer = theorems[counter][2] if counter in theorems else within.written if within else ""
    theorems[kind] = title, "" if call.is_starred else counter, outer


def _new_switch(call: _Call) -> None:
    call.reader.macros.switches[call.rest.next.text.removeprefix("if")] = False
    call.rest.index += call.rest.index < call.rest.end


def _set_switch(call: _Call) -> None:
    switch, value = [*call.written, call.name, call.name][:2]
    call.reader.macros.switches[switch] = value.endswith("true")


def _if_then_else(call: _Call) -> None:
    if len(call.arguments) == 3:
        is_true = call.reader.macros.holds(call.name, call.written[0])
        call.reader.run(call.arguments[1 if is_true else 2])


_Command = Callable[[_Call], str | None]
_NAMES: tuple[tuple[int, str, _Command], ...] = (
    (9, _WORDS["without_text"], lambda call: ""),
    (1, " ".join(LEVELS), _section),
    (1, "title", _title),
    (9, "author", _authors),
    (1, "date", _date),
    (1, "footnote footnotetext marginnote marginpar", _footnote),
    (1, "caption", lambda call: add_caption(call.reader, call.arguments, call.is_starred)),
    (0, "item", lambda call: begin_item(call.reader, call.rest)),
    (1, "bibitem", lambda call: call.reader.flush()),
    (0, "par", lambda call: call.reader.flush()),
    (0, "hline toprule midrule bottomrule addlinespace cmidrule", _rule),
    (3, "specialrule", lambda call: ""),
    (1, "label", lambda call: call.reader.numbers.label(call.key)),
    (1, _WORDS["references"], lambda call: f"\ufdd0{call.name}:{call.key}\ufdd1"),
    (1, _WORDS["citations"], _citation),
    (1, "nocite", lambda call: ""),
    (1, "textsuperscript textsubscript", _script),
    (1, "enquote", _quotation),
    (1, "ensuremath", lambda call: call.reader.formula(call.key)),
    (2, "texorpdfstring", lambda call: "".join(map(call.reader.text, call.arguments[:1]))),
    (0, "xspace", lambda call: SPACE_IF_WORD),
    (0, "appendix", lambda call: call.reader.numbers.begin_appendix()),
    (0, "newtheorem", _theorems),
    (0, _WORDS["definitions"], lambda call: call.reader.macros.define(call.name, call.rest)),
    (
        0,
        "newenvironment renewenvironment",
        lambda call: call.reader.macros.define_environment(call.rest),
    ),
    (0, "newif", _new_switch),
    (2, "setboolean setbool settoggle", _set_switch),
    (1, _WORDS["switches"], _set_switch),
    (3, "ifthenelse ifbool iftoggle", _if_then_else),
)
_COMMANDS: dict[str, tuple[int, _Command]] = {
    **{name: (count, read) for count, names, read in _NAMES for name in names.split()},
    **{name: (count, _quantity) for name, count in units.COMMANDS.items()},
    **{name: (count, lambda call: call.text) for name, count in _WORDS["last_argument"].items()},
}
