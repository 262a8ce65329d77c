"""Words and sentences by which reading.py compares texts."""

import re
import unicodedata
from collections.abc import Iterator

UNKNOWN = "\0"  # stands for what is printed in a form that the source does not say
MIN_WORDS, MAX_WORDS = 6, 80
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[\"“(]?[A-ZÄÖÜ\u4e00-\u9fff])|(?<=[。！？])")
_TERMINATED = re.compile(r"[.!?。！？][\"”’)]*$")


def words(text: str) -> list[str]:
    """Return the words of a text, ligatures undone; every Chinese and Japanese character is one.

    Spaces, punctuation and symbols only separate words, so that readers are free to show quotation
    marks, dashes and bullets as they like.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def masked(text: str) -> str:
    """Return the words of a text, separated by spaces, with # for numbers, none at either end."""
    shown = " ".join("#" if word.isdecimal() else word for word in words(text))
    return shown.strip("# ")


def cut(paragraph: str) -> Iterator[str]:
    """Cut a paragraph at full stops, question and exclamation marks before a capital letter.

    Only pieces that end so and have 6 to 80 words are kept, and none with `UNKNOWN`.
    """
    for piece in map(str.strip, _SENTENCE_END.split(paragraph)):
        is_whole = _TERMINATED.search(piece) and UNKNOWN not in piece
        if is_whole and MIN_WORDS <= len(words(piece)) <= MAX_WORDS:
            yield piece
