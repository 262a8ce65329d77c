"""The macros that a LaTeX document defines, and its conditionals."""

import re
from dataclasses import replace
from itertools import pairwise

from foveate.documents.readers.latex.tokens import Part, tokenize

MAX_DEPTH = 30  # of arguments within arguments, and of macros within macros
_MAX_EXPANSION = 1_000  # characters of an expanded macro
_MACRO = re.compile(r"\\([A-Za-z@]+)")
_DOCUMENT_ARGUMENTS = re.compile(r"\s*(o|O\s*\{[^{}]*\})?((?:\s*m)*)\s*")  # O{m} m
_PLAIN_ARGUMENTS = re.compile(r"\s*((?:#\d)*)\s*")
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
_TEST = re.compile(r"(\\not\s*)?\\(?:boolean|equal)\s*\{([^{}]*)\}\s*(?:\{([^{}]*)\})?")


class Macros:
    """The macros and the switches that a document has defined so far."""

    def __init__(self, room: int) -> None:
        """Begin with no macros, which may expand to `room` characters together."""
        self.switches = {"true": True, "false": False}  # conditionals, by name without "if"
        # The number of arguments, the body, and what the first argument is by default.
        self._known: dict[str, tuple[int, str, str | None]] = {}
        self._room = room

    def __contains__(self, name: str) -> bool:
        """Return whether the document defines a macro."""
        return name in self._known

    def define(self, name: str, part: Part) -> None:
        r"""Read a definition behind `\newcommand`, `\def` or another macro that defines one."""
        if part.next.kind in ("macro", "accent"):
            macro = part.next.text
            part.index += 1
        else:
            macro = part.argument().written.strip().removeprefix("\\")
        arguments: int | str | None = 0
        default = None
        part.skip_space()
        if name == "def":
            plain = ""
            while part.next.kind == "text":
                plain += part.next.text
                part.index += 1
            match = _PLAIN_ARGUMENTS.fullmatch(plain)
            arguments = match and match[1].count("#")
        elif name.endswith("DocumentCommand"):
            match = _DOCUMENT_ARGUMENTS.fullmatch(part.argument().written)
            default = match and match[1] and match[1][1:].strip().strip("{}")
            arguments = match and match[2].count("m") + (default is not None)
        elif name != "DeclareMathOperator":
            count, first = part.option(), part.option()
            arguments = count.written if count else 0
            default = first.written if first else None
        body = part.argument().written
        if name == "DeclareMathOperator":
            body = rf"\operatorname{{{body}}}"
        if macro and arguments is not None:
            self._remember(macro, arguments, body, default)

    def define_environment(self, part: Part) -> None:
        """Read what a kind of environment begins with; its end says nothing."""
        name = part.argument().written
        count, default = part.option(), part.option()
        bodies = part.arguments(2)
        if name and bodies:
            first = default.written if default else None
            self._remember(f"begin {name}", count.written if count else 0, bodies[0].written, first)

    def _remember(self, name: str, count: int | str, body: str, default: str | None) -> None:
        if len(body) <= _MAX_EXPANSION and str(count).strip() in tuple("0123456789"):
            self._known[name] = int(count), body, default

    def expand(self, name: str, part: Part) -> Part:
        """Read the arguments of a macro; return what it stands for, nothing if that is too long."""
        body = self._written_out(name, part)
        if len(body) > self._room:
            body = ""
        self._room -= len(body)
        return tokenize(body, part.depth + 1)

    def expand_formula(self, formula: str) -> str:
        """Expand the macros in a formula."""
        for _ in range(MAX_DEPTH):
            known = (match for match in _MACRO.finditer(formula) if match[1] in self._known)
            found = next(known, None)
            if found is None or len(formula) > self._room:
                break
            rest = tokenize(formula[found.end() :])
            body = self._written_out(found[1], rest)
            formula = f"{formula[: found.start()]}{body} {rest.written}"
            self._room -= len(body)
        return formula

    def _written_out(self, name: str, part: Part) -> str:
        """Return the body of a macro with its arguments; it is empty if it would be too long."""
        count, body, default = self._known[name]
        arguments: list[str] = []
        if default is not None:
            option = part.option()
            arguments = [option.written if option else default]
        arguments += [one.written for one in part.arguments(count - len(arguments))]
        for number, argument in enumerate(arguments, start=1):
            body = body.replace(f"#{number}", argument)
            if len(body) > 100 * _MAX_EXPANSION:
                return ""
        return body

    def is_conditional(self, part: Part, index: int) -> bool:
        r"""Return whether the macro at an index is a conditional that ends with `\fi`."""
        kind, name, _ = part.tokens[index]
        if kind != "macro" or not name.startswith("if") or name in self._known:
            return False
        following = part.tokens[index + 1 : index + 2]
        has_arguments = bool(following) and following[0].kind == "open"
        return name in _CONDITIONS or name[2:] in self.switches or not has_arguments

    def branch(self, name: str, part: Part) -> Part | None:
        """Read a conditional, whose name has been read; return the branch to read, if there is one.

        One that ends elsewhere, such as in another macro, is read as if it were not there.
        """
        tokens = part.tokens
        end, nesting = part.index, 0
        marks: list[int] = []  # of what divides the branches
        while end < part.end and (nesting or tokens[end][:2] != ("macro", "fi")):
            kind, text, _ = tokens[end]
            if kind == "macro" and text in ("else", "or") and not nesting:
                marks.append(end)
            nesting += self.is_conditional(part, end) - (kind == "macro" and text == "fi")
            end += 1
        if end == part.end:
            return None
        inside = replace(part, end=end)
        chosen = self._choose(name, inside)
        bounds = [inside.index - 1, *marks, end]
        branches = [(before + 1, after) for before, after in pairwise(bounds)]
        part.index = end + 1
        if chosen is None:  # the first one that shows something
            shown = tokens[slice(*branches[0])]
            chosen = 0 if any(token.text.strip() for token in shown) else 1
        if marks and tokens[marks[-1]].text == "else":
            chosen = min(chosen, len(branches) - 1)
        return part.within(*branches[chosen]) if chosen < len(branches) else None

    def _choose(self, name: str, part: Part) -> int | None:
        """Read the condition of a conditional; return which branch it chooses, if that is known."""
        if name[2:] in self.switches or name not in _CONDITIONS:
            is_true = self.switches.get(name[2:])
            return None if is_true is None else int(not is_true)
        match = _CONDITIONS[name].match(part.text, part.next.start)
        if match is None:
            return None
        part.skip_to(match.end())
        first, last = self._meaning(match[1]), self._meaning(match[match.lastindex or 1])
        if name in ("if", "ifcat", "ifx"):
            return None if first is last is None else int(first != last)
        if name == "ifdefined":
            return int(first is None)
        if name == "ifcsname":
            return int(match[1].strip() not in self._known)
        try:
            number, other = float(first or ""), float(last or "")
            if name == "ifcase":
                return max(int(number), 0)
        except (ValueError, OverflowError):
            return None
        if name == "ifodd":
            return int(number % 2 != 1)
        return int(not {"<": number < other, "=": number == other, ">": number > other}[match[2]])

    def _meaning(self, written: str) -> str | None:
        """Return what a macro without arguments stands for, or a character; None if unknown."""
        if not written.startswith("\\"):
            return written
        if written in ("\\empty", "\\@empty"):
            return ""
        return self._known[written[1:]][1] if written[1:] in self._known else None

    def holds(self, name: str, test: str) -> bool:
        r"""Return whether a test of `\ifthenelse` or a switch holds; an unknown one does."""
        if name != "ifthenelse":
            return self.switches.get(test, True)
        match = _TEST.fullmatch(test.strip())
        if match is None:
            return True
        if match[3] is None:
            holds = self.switches.get(match[2], True)
        else:
            first, last = self.expand_formula(match[2]), self.expand_formula(match[3])
            holds = first.strip() == last.strip()
        return holds != bool(match[1])
