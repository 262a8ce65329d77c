"""Formulas in a line of text: (a+b)/c, √x, x_i, 10^-3, ∑_{i=1}^{n}.

MathML, the formulas of Word (OMML) and LaTeX all become elements of MathML, which one function
writes. Parentheses and braces stand wherever the text could be read in two ways.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any, NamedTuple
from unicodedata import normalize
from xml.etree.ElementTree import Element

from foveate.documents.words import load_words

_HIDDEN = frozenset({"annotation", "annotation-xml", "mphantom", "none", "mprescripts"})
_CHARACTERS = dict.fromkeys(range(0x2061, 0x2065)) | {0x2212: "-", 0xA0: " "}  # for `str.translate`
_LARGE = re.compile(r"[∏-∑∫-∳⋀-⋃⨀-⨆]|lim|max|min|sup|inf|arg\s?max|arg\s?min|det|Pr")
_RELATION = re.compile(r"[=<>≠≡≈≤≥≪≫∈∉∋⊂⊃⊆⊇∼≃≅∝→←↔⇒⇐⇔↦⟶⟹:≔]+")
_NUMBER_WITH_SIGN = re.compile(r"[+-]?\d+|[*'′″†‡+°-]")
_PRODUCT = re.compile(r"[\w.∞]+")
_ROOTS = {"3": "∛", "4": "∜"}
_ACCENTS = dict(zip("^ˆ~˜¯‾_.˙¨→⃗ˇ˘", "\u0302\u0302\u0303\u0303\u0304\u0304\u0331\u0307\u0307\u0308"
                    "\u20d7\u20d7\u030c\u0306", strict=True))  # fmt: skip
_PAIRS = {"(": ")", "[": "]", "{": "}", "|": "|", "‖": "‖", "⟨": "⟩", "⌊": "⌋", "⌈": "⌉"}
_DEEPEST = 60
_LONGEST = 4_000  # characters of LaTeX: its parser takes quadratic time
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_][\u0300-\u036f]?|\S")
_LAST_WORD = re.compile(r"[^\W\d_]{2,}$")
_STYLED = re.compile("[\U0001d400-\U0001d7ff]")  # letters and digits in bold, italic and so on
_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_SHOWN = re.compile(r"\\(?:label|tag)\*?\s*\{[^{}]*\}|\\(?:notag|nonumber)\b|(?<!\\)%[^\n]*")
_ALIGNED = re.compile(r"\\(?:begin|end)\{(?:split|aligned|gathered|alignedat)\}(?:\[\w\]|\{\d\})?")
_GRID = re.compile(r"\\begin\{(?:\w*matrix\*?|cases|array)\}")
_OMML = {  # elements of Word, and the element and the parts of the same in MathML
    name: (tag, parts) for name, (tag, *parts) in load_words("office")["word"]["formulas"].items()
}


class _Part(NamedTuple):
    """A part of a formula as it is written."""

    text: str
    is_atom: bool = True  # stays together whatever is next to it: a symbol, or in parentheses
    is_open: bool = False  # a letter or digit after it would seem to belong to it


def from_mathml(element: Any) -> str:
    """Write a formula in MathML.

    Args:
        element: The <math> element or one within it, of ElementTree or lxml.
    """
    return " ".join(_write(element, 0, is_inner=False).text.split())


def from_latex(source: str) -> str:
    r"""Write a formula in LaTeX; one that cannot be read is returned as it is.

    Args:
        source: What is between the dollar signs, or in the environment of an equation.
    """
    from latex2mathml.converter import convert_to_element

    source = _ALIGNED.sub(" ", _NOT_SHOWN.sub("", source)).strip()
    if not _GRID.search(source):
        source = re.sub(r"(?<!\\)&", " ", source)
    source = re.sub(r"(?:\\\\\s*)+\Z", "", source)
    if not source:
        return ""
    if len(source) <= _LONGEST:
        try:
            return from_mathml(convert_to_element(source))
        except Exception:  # it raises many types, some without a name
            pass
    return " ".join(source.split())


def from_word(formula: Any) -> str:
    """Write a formula of Word.

    Args:
        formula: The element <m:oMath>, or any within it.
    """
    row = Element("mrow")
    row.extend(_from_omml(formula, 0))
    return from_mathml(row)


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]


def _write(node: Any, depth: int, *, is_inner: bool) -> _Part:
    """Write an element at a depth; `is_inner` is that it is within a fraction, a script or such."""
    name = _name(node)
    children = [one for one in node if isinstance(one.tag, str) and _name(one) not in _HIDDEN]
    if depth > _DEEPEST:
        return _Part("".join(node.itertext()).translate(_CHARACTERS))
    if not children:
        shown = _STYLED.sub(lambda letter: normalize("NFKC", letter[0]), unescape(node.text or ""))
        shown = shown.translate(_CHARACTERS).lstrip("\\")
        is_space = name == "mspace" or name == "mtext"
        if name == "mspace":
            shown = "; " if node.get("linebreak") == "newline" else " "
        return _Part(shown if is_space else shown.strip(), " " not in shown.strip())
    inner = is_inner or name not in ("math", "mrow", "mstyle", "semantics", "mpadded", "menclose")
    parts = [_write(child, depth + 1, is_inner=inner) for child in children]
    if name == "mfrac" and len(parts) == 2:
        if node.get("linethickness", "").rstrip("pxtem% ") in ("0", "0.0"):
            return _Part(f"({parts[0].text} choose {parts[1].text})")
        above = parts[0].text if _PRODUCT.fullmatch(parts[0].text) else _atom(parts[0])
        return _Part(f"{above}/{_atom(parts[1])}", is_atom=False, is_open=True)
    if name == "msqrt":
        return _Part(f"√{_atom(_row(parts, is_inner=True))}", is_open=True)
    if name == "mroot" and len(parts) == 2:
        degree = parts[1].text
        sign = _ROOTS.get(degree, f"root_{_braced(parts[1], always=False)} √" if degree else "√")
        return _Part(f"{sign}{_atom(parts[0])}", is_open=True)
    if name in ("msub", "munder") and len(parts) == 2:
        return _scripted(parts[0], parts[1], None)
    if name == "mover" and len(parts) == 2 and (accent := _ACCENTS.get(parts[1].text)):
        base = parts[0].text
        is_letter = len(base) == 1
        return _Part(normalize("NFC", base + accent) if is_letter else base)
    if name in ("msup", "mover") and len(parts) == 2:
        return _scripted(parts[0], None, parts[1])
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return _scripted(*parts)
    if name == "mmultiscripts":
        return _scripted(parts[0], *[*parts[1:3], None, None][:2])
    if name == "mtr":
        return _Part(", ".join(part.text for part in parts), is_atom=False)
    if name == "mtable":
        return _Part(f"[{'; '.join(part.text for part in parts)}]")
    if name == "mfenced":
        separator = (node.get("separators", ",").strip() or ",")[0]
        inside = f"{separator} ".join(part.text for part in parts)
        if len(parts) == 1 and parts[0].is_atom and (" choose " in inside or "; " in inside):
            inside = inside[1:-1]  # in the parentheses that are there
        return _Part(f"{node.get('open', '(')}{inside}{node.get('close', ')')}")
    return _row(parts, is_inner=is_inner)


def _row(parts: list[_Part], *, is_inner: bool) -> _Part:
    """Write parts next to each other."""
    parts = [part for part in parts if part.text]
    if len(parts) == 1:
        return parts[0]
    shown, before = "", _Part("")
    for part in parts:
        text = part.text
        if before.text in _PAIRS and text[0] in "([" and (" choose " in text or "; " in text):
            text = text[1:-1] if part.is_atom else text  # in the parentheses that are there
        if not is_inner and _RELATION.fullmatch(text):
            text = f" {text} "
        elif (text[0].isalnum() or text[0] in "√∛∜") and (
            before.is_open
            or (
                before.text[-1:].isalnum() and (_WORD.match(text) or _LAST_WORD.search(before.text))
            )
        ):
            text = f" {text}"
        shown += text
        before = part
    inside = [part.text for part in parts[1:-1]]
    is_fenced = bool(parts) and _PAIRS.get(parts[0].text) == parts[-1].text
    return _Part(
        shown, is_fenced and not {parts[0].text, parts[-1].text} & {*inside}, before.is_open
    )


def _scripted(base: _Part, below: _Part | None, above: _Part | None) -> _Part:
    is_large = _LARGE.fullmatch(base.text.strip()) is not None
    shown = base.text if is_large or not base.text else _atom(base)
    for sign, script in (("_", below), ("^", above)):
        if script is None or not script.text:
            continue
        if sign == "^" and script.text == "∘":
            script = _Part("°")
        is_prime = sign == "^" and not script.text.strip("′″‴'°")
        shown += script.text if is_prime else sign + _braced(script, always=is_large)
    return _Part(shown, is_open=True)


def _braced(part: _Part, *, always: bool) -> str:
    is_plain = (part.is_atom and not part.is_open) or _NUMBER_WITH_SIGN.fullmatch(part.text)
    return part.text if is_plain and not always else f"{{{part.text}}}"


def _atom(part: _Part) -> str:
    return part.text if part.is_atom else f"({part.text})"


def _from_omml(element: Any, depth: int) -> Iterator[Element]:
    """Yield the elements of MathML that mean the same as those within an element of Word."""
    for child in element if depth <= _DEEPEST else ():
        name = _name(child)
        if name.endswith("Pr"):
            continue
        if name in _OMML:
            tag, names = _OMML[name]
            kind = _property(child, "type", "")
            yield _new(tag, _parts(child, names, depth), linethickness="0" * (kind == "noBar"))
        elif name == "rad":
            degree = [part for part in _parts(child, ("deg",), depth) if len(part)]
            yield _new("mroot" if degree else "msqrt", [*_parts(child, ("e",), depth), *degree])
        elif name == "nary":
            sign = _token("mo", _property(child, "chr", "∫"))
            yield _new("msubsup", [sign, *_parts(child, ("sub", "sup"), depth)])
            yield from _parts(child, ("e",), depth)
        elif name == "d":
            marks = (
                _property(child, key, mark) for key, mark in (("begChr", "("), ("endChr", ")"))
            )
            begin, end = (_token("mo", mark) for mark in marks)
            inside: list[Element] = []
            for part in _parts(child, ("e",), depth):
                separator = _token("mo", _property(child, "sepChr", "|"))
                inside += [separator, part] if inside else [part]
            yield _new("mrow", [begin, *inside, end])
        elif name in ("acc", "bar", "groupChr"):
            mark = _property(child, "chr", "^" if name == "acc" else "¯")
            accent = {"\u0302": "^", "\u0303": "~", "\u0304": "¯", "\u20d7": "→", "\u0307": "."}
            sign = _token("mo", accent.get(mark, mark))
            yield _new("mover", [*_parts(child, ("e",), depth), sign])
        elif name == "sPre":
            yield _new("msubsup", [_token("mi", ""), *_parts(child, ("sub", "sup"), depth)])
            yield from _parts(child, ("e",), depth)
        elif name == "t":
            is_name = _name(element.getparent()) == "fName" or len(_WORD.findall(child.text or ""))
            pattern = _WORD if is_name and _is_upright(element) else _TOKEN
            yield from _tokens(child.text or "", pattern)
        else:
            yield from _from_omml(child, depth + 1)


def _parts(element: Any, names: Iterable[str], depth: int) -> list[Element]:
    """Return the children of these names, each as one element."""
    return [
        _new("mtr" if name == "mr" else "mrow", _from_omml(child, depth + 1))
        for name in names
        for child in element
        if _name(child) == name
    ]


def _property(element: Any, name: str, default: str) -> str:
    found = element.find(f"{{*}}{_name(element)}Pr/{{*}}{name}")
    if found is None:
        return default
    return next((value for key, value in found.attrib.items() if key.endswith("val")), "")


def _is_upright(run: Any) -> bool:
    """Return whether a run is a word such as sin, rather than a product of variables."""
    return (
        run.find("{*}rPr/{*}sty[@{*}val='p']") is not None or run.find("{*}rPr/{*}nor") is not None
    )


def _tokens(text: str, words: re.Pattern[str]) -> Iterator[Element]:
    if words is _WORD:
        yield _token("mtext", text)
        return
    for match in _TOKEN.finditer(text):
        yield _token(
            "mn" if match[0][0].isdigit() else "mi" if match[0].isalnum() else "mo", match[0]
        )


def _token(tag: str, text: str) -> Element:
    token = Element(tag)
    token.text = text
    return token


def _new(tag: str, children: Iterable[Element], **attributes: str) -> Element:
    element = Element(tag, attributes)
    element.extend(children)
    return element
