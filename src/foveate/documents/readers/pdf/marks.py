"""Raised and lowered marks: exponents and indices are written out, marks of notes are left out."""

import re

from foveate.documents.scripts import is_chemical

_LETTER = "[\\dA-Za-zµΑ-ϿΩÅ℃\U0001d400-\U0001d7ff]"
_BASE = re.compile(  # nothing, a symbol, a unit or a number that is not a year
    rf"(?!(?:is|it|of|to|on|as|at|by|an|or|if|we|he|us|be|so|no|do)$)(?:.*[/·⋅×*^(+=−-])?{_LETTER}{{1,2}}"
    rf"|(?!(?:1[5-9]|20)\d\d$)\d+(?:[.,]\d+)*|\(?[\w+−-]{{1,5}}[)\]}}|]|sin|cos|tan|log|exp|mol|rad|min|bar|"
)
_WORD = re.compile(r"[^\W\d_]{3}|[.,;:!?”’»\"']|[\u3040-\u9fff]|\d{4}")  # its last characters
_NOTE = r"(?:\d{1,3}|[*∗†‡§¶#]{1,3}|[a-z])"
_NOTES = re.compile(rf"\[?{_NOTE}(?:[,;–-]\s?{_NOTE})*\]?,?")
_EXPONENT = re.compile(r"[+±−–-]?(?:\d+(?:[.,/]\d+)?|[a-zT])|\d*[+−–-]")
_ORDINAL = re.compile(r"\d[aeo]|[A-Z][aeor]|no")  # 2e, 1o, N^o, M^e, D^r with their marks
_INDEX = re.compile(r"\w{1,3}|max|min|[\w+−–=,-]{1,5}")
_TERM = re.compile(r"(?=.*[+−–-])[\w+−–/-]{2,6}")


def has_exponents(word: str) -> bool:
    """Return whether a mark raised behind a word is an exponent, and not that of a note."""
    return _BASE.fullmatch(word) is not None


def is_note(mark: str) -> bool:
    """Return whether a raised mark may be that of a footnote or a reference."""
    return _NOTES.fullmatch(mark) is not None


def has_notes(word: str) -> bool:
    """Return whether a mark raised behind a word is that of a note, and not an exponent."""
    ends = any(_WORD.fullmatch(word[-length:]) for length in (1, 3, 4))
    return ends and not has_exponents(word)


def write_mark(base: str, mark: str, is_raised: bool, is_small: bool) -> str:
    """Write a mark so that its meaning is clear: 10^3, m^2, x_1, but 2nd.

    Args:
        base: The word before it, which it touches.
        mark: The mark.
        is_raised: Whether it is raised, or lowered.
        is_small: Whether its font is smaller than that of the line.
    """
    if is_raised:
        sign = "^"
        is_known = _EXPONENT.fullmatch(mark) and not _ORDINAL.fullmatch(base[-1:] + mark)
        if not has_exponents(base) or not (is_known or _TERM.fullmatch(mark)):
            return mark
    else:
        sign = "_"
        if not is_small or not _INDEX.fullmatch(mark) or not base[-1:].isalnum():
            return mark
        if mark.isdigit() and is_chemical(base):  # CO2
            return mark
    is_plain = mark.isalnum() or (is_raised and _EXPONENT.fullmatch(mark))
    return sign + (mark if is_plain else f"{{{mark}}}")
