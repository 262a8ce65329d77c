"""Stems of words, by Snowball's stemmer of each language."""

from collections.abc import Callable
from functools import cache

from Stemmer import Stemmer

_ALIKE = {"nb": "no", "nn": "no", "bs": "sr", "hr": "sr"}  # languages with the stems of another


@cache
def stemmer(language: str | None) -> Callable[[str], str]:
    """Return what finds the stem of a word in lower case.

    Args:
        language: ISO 639 code. Words of a language without a stemmer are their own stems.

    Example:
        >>> stemmer("en")("allocated"), stemmer("de")("häuser"), stemmer("zh")("allocated")
        ('alloc', 'haus', 'allocated')
    """
    code = language or ""
    try:
        stem: Callable[[str], str] = Stemmer(_ALIKE.get(code, code), 0).stemWord
    except KeyError:
        return str
    return stem
