"""Text from right to left: Hebrew and Arabic, with numbers and Latin words in them.

Files store such text as it is read or as it is seen, and PDFium turns some of it round. Where the
characters stand is certain: from there on, their order follows (Unicode Standard Annex #9, read
backwards).
"""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_RIGHT = "\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_LEFT = rf"[^\W_{_RIGHT}]"
_RUN_TO_LEFT = re.compile(rf"[{_RIGHT}](?:.*[{_RIGHT}])?")
_RUN_TO_RIGHT = re.compile(rf"[%‰$€£₪°+]?(?:{_LEFT}.*{_LEFT}|{_LEFT})[%‰$€£₪°+]?")
_RIGHT_LETTER = re.compile(f"[{_RIGHT}]")
_LEFT_LETTER = re.compile(rf"[^\W\d_{_RIGHT}]")
_PRESENTED = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # the shapes of letters within words
_BRACKETS = str.maketrans("()[]{}«»", ")(][}{»«")
_UNEVEN = 0.3  # sizes between the baselines of different lines


def is_right_to_left(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which characters are written from right to left."""
    right: NDArray[np.bool_] = (
        ((codes >= 0x590) & (codes <= 0x8FF) & ~((codes >= 0x660) & (codes <= 0x669)))
        | ((codes >= 0xFB1D) & (codes <= 0xFDFF))
        | ((codes >= 0xFE70) & (codes <= 0xFEFC))
    )
    return right


def order_characters(
    codes: NDArray[np.uint32],
    boxes: NDArray[np.float32],
    baselines: NDArray[np.float32],
    sizes: NDArray[np.float32],
    spaced: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Sort the characters of lines with text from right to left by where they stand.

    Returns:
        The indices of the characters, and which of those white space comes before.
    """
    falls = np.abs(np.diff(baselines, prepend=baselines[:1])) > _UNEVEN * sizes
    rows, words = np.cumsum(falls), np.cumsum(falls | spaced)
    turned = np.isin(rows, rows[is_right_to_left(codes)])
    places = np.where(turned, boxes[:, 0], np.arange(len(codes), dtype=np.float32))
    marks = np.array([unicodedata.combining(chr(code)) > 0 for code in codes.tolist()], np.bool_)
    middles = boxes[:, ::2].mean(axis=1)
    for index in np.flatnonzero(marks & turned).tolist():  # each follows its letter
        near = [n for n in (index - 1, index + 1) if 0 <= n < len(codes) and not marks[n]]
        if near:
            places[index] = places[min(near, key=lambda n: abs(middles[n] - middles[index]))]
    order = np.lexsort((marks, places, rows))
    return order, np.concatenate([spaced[:1], np.diff(words[order]) != 0])


def read_word(text: str, is_mirrored: bool) -> str:
    """Put the characters of a word in the order of reading.

    Args:
        text: The characters as they stand in the direction of the page.
        is_mirrored: Whether that is from right to left.
    """
    against = _RUN_TO_RIGHT if is_mirrored else _RUN_TO_LEFT
    text = against.sub(lambda run: run[0][::-1], text)
    return _PRESENTED.sub(lambda shapes: unicodedata.normalize("NFKC", shapes[0]), text)


def order_words(words: Sequence[str], is_mirrored: bool) -> list[int]:
    """Return the indices of the words of a line in the order of reading.

    Runs of words against the direction of the page, with the numbers among them, are turned.
    """
    strong = _LEFT_LETTER if is_mirrored else _RIGHT_LETTER
    other = _RIGHT_LETTER if is_mirrored else _LEFT_LETTER
    order: list[int] = []
    run: list[int] = []
    for index, word in enumerate(words):
        if other.search(word):
            order += [*_turned(run, words, strong), index]
            run = []
        else:
            run.append(index)
    return order + _turned(run, words, strong)


def _turned(run: list[int], words: Sequence[str], strong: re.Pattern[str]) -> list[int]:
    """Turn the words that are written against the page, with the numbers among them."""
    found = [n for n, index in enumerate(run) if strong.search(words[index])]
    if not found:
        return run
    first, last = found[0], found[-1] + 1
    first -= first > 0 and words[run[first - 1]].isdigit()  # Windows 11, where it is seen first
    return run[:first] + run[first:last][::-1] + run[last:]


def pair_brackets(words: Sequence[str]) -> tuple[str, ...]:
    """Turn the brackets of a line round if they close before they open."""
    text = "".join(words)
    opened = min((n for n in map(text.find, "([{«") if n >= 0), default=len(text))
    closed = min((n for n in map(text.find, ")]}»") if n >= 0), default=len(text))
    is_paired = sum(map(text.count, "([{«")) == sum(map(text.count, ")]}»"))
    if not (closed < opened and is_paired and _RIGHT_LETTER.search(text)):
        return tuple(words)
    return tuple(word.translate(_BRACKETS) for word in words)
