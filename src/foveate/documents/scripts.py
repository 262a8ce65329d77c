"""Superscripts and subscripts in running text: 10^3, m^2 and x_1, but 2nd, Mme and CO2.

The mark of a note or reference leaves the text: "As shown<sup>1</sup>, it rose."
"""

import re

from foveate.documents.blocks import MappedText
from foveate.documents.words import load_words, name_set

_WORDS = load_words("scripts")
_UNITS, _SHORT_WORDS, _ELEMENTS = (
    name_set(_WORDS[kind]) for kind in ("units", "short_words", "elements")
)
_WORD = re.compile(r"[^\W\d_]+\.?$")
_YEAR = re.compile(r"(?<![\d.,])(?:1[5-9]|20)\d\d$")
_REMARK = re.compile(r"\([^()]*[^\W\d_]{3,}[^()]*\)$")
_NUMBERS = re.compile(r"[\d\s,;–—-]*\d[\d\s,;–—-]*|[*∗†‡§¶#\s]+")
_NOTE = r"(?:\d{1,3}|[*∗†‡§¶#]{1,3}|[a-z])"
_NOTES = re.compile(rf"{_NOTE}(?:[,;]\s?{_NOTE})+,?")
_MARK = re.compile(rf"\[?{_NOTE}(?:[,;–-]\s?{_NOTE})*\]?,?")
_BRACKETED = re.compile(r"[\[(][^\[\]()]*[\])]")
_PLAIN = re.compile(r"[+−-]?\d+|[^\W_]+|[+*∗'′°−-]|\d+[+−-]")
_MEANS = re.compile(r"[^\W_]|[+*∗'′°−∞⊤⊥-]")
_VARIABLE = re.compile(r"[nkijmpqstxyzNTHD]|[α-ω]|[*†′]")
_CHEMICAL = re.compile(r"(?:^|[^A-Za-z])(?:[A-Z][a-z]?\d*|[()])+$")
_ELEMENT = re.compile(r"[A-Z][a-z]?")
_LOOKED_AT = 40  # characters before a script


def add_script(shown: MappedText, script: MappedText, *, is_raised: bool) -> None:
    """Append a superscript or subscript to the text before it.

    Args:
        shown: The text so far.
        script: What is raised or lowered.
        is_raised: Whether it is a superscript.
    """
    around = signs(shown.tail(_LOOKED_AT), str(script), is_raised=is_raised)
    if around is None:
        shown.strip_end()  # the space before a mark is not one before the comma after it
    if around is None or not script:
        return
    start, _ = script.source_span(0, 1)
    _, end = script.source_span(0, len(str(script)))
    shown.add(around[0], start, start)
    shown.extend(script)
    shown.add(around[1], end, end)


def scripted(before: str, script: str, *, is_raised: bool) -> str:
    """Return a superscript or subscript as it is written after a text."""
    around = signs(before, script, is_raised=is_raised)
    return "" if around is None else around[0] + script + around[1]


def signs(before: str, script: str, *, is_raised: bool) -> tuple[str, str] | None:
    """Return what is written before and after a superscript or subscript.

    Args:
        before: The text before it.
        script: What is raised or lowered.
        is_raised: Whether it is a superscript.

    Returns:
        Two texts, both empty for what is written like any text; None if it is the mark of a note.
    """
    script = script.strip()
    before = before[-_LOOKED_AT:]
    if is_raised and _is_mark(before, script):
        return None
    if not _MEANS.search(script) or not (before[-1:].isalnum() or before[-1:] in ")]}|′"):
        return "", ""
    if not script.strip("*∗" if before[-1:].isdigit() else "'′"):  # of a number in a table, or f′
        return "", ""
    is_text = script.replace(".", "").isalpha()
    if is_raised and is_text and not (_VARIABLE.fullmatch(script) and _is_variable(before)):
        return "", ""
    if not is_raised and script.isdigit() and is_chemical(before):
        return "", ""
    sign = "^" if is_raised else "_"
    return (sign, "") if _PLAIN.fullmatch(script) else (f"{sign}{{", "}")


def is_mark(script: str) -> bool:
    """Return whether a superscript may be the mark of a note or reference."""
    return _MARK.fullmatch(script) is not None


def _is_mark(before: str, script: str) -> bool:
    word = _WORD.search(before)
    script = script.removesuffix(")")
    if script and not script.strip("[](),;–— "):  # around the marks that are left out
        return True
    if _BRACKETED.fullmatch(script):
        return any(map(str.isdigit, script)) and word is not None
    if _NOTES.fullmatch(script) and not (word and len(word[0]) == 1):
        return True
    if not _NUMBERS.fullmatch(script):
        is_letter = len(script) == 1 and script in "abcdefgh"
        is_named = word is not None and len(word[0]) > 3 and word[0] not in _UNITS
        return is_letter and (is_named or before[-1:] in (".", ",", ";", ":"))
    if before and before[-1] in ".,;:!?\"'”’»…":
        return True
    if _REMARK.search(before) or (_YEAR.search(before) and len(script) < 3):
        return True
    if word is None or word[0] in _UNITS:
        return script[:1] in "†‡§¶"
    return len(word[0]) > 2 or word[0].lower() in _SHORT_WORDS or script[:1] in "†‡§¶"


def _is_variable(before: str) -> bool:
    """Return whether a text ends with a number, a bracket or a single letter."""
    word = _WORD.search(before)
    return word is None or len(word[0]) == 1 or word[0] in _UNITS


def is_chemical(before: str) -> bool:
    """Return whether a text ends with the symbols of chemical elements, such as H or Ca(OH)."""
    match = _CHEMICAL.search(before)
    symbols = _ELEMENT.findall(match[0]) if match else ()
    return bool(symbols) and all(symbol in _ELEMENTS for symbol in symbols)
