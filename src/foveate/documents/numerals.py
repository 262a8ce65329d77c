"""Numbers as they are written: in digits, letters and Roman numerals."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MAX_ROMAN = 3999
_PLACEHOLDER = re.compile("%([1-9])")


def roman_number(number: str) -> int:
    """Return the value of a Roman numeral in capitals."""
    values = [_ROMAN_DIGITS[letter] for letter in number]
    return sum(
        -value if value < max(values[index:]) else value for index, value in enumerate(values)
    )


def number_values(number: str) -> dict[str, int]:
    """Return a number as it reads in each script: "C" is 100, or the third letter."""
    if number.isdigit():
        return {"arabic": int(number)}
    values: dict[str, int] = {}
    if all(letter in _ROMAN_DIGITS for letter in number):
        values["roman"] = roman_number(number)
    if len(number) == 1:
        values["letter"] = ord(number) - ord("A") + 1
    return values


def format_number(number: int, style: str) -> str:
    """Write a number as a list shows it.

    Args:
        number: The number.
        style: "1", "01", "a", "A", "i" or "I" for digits, digits with a zero before a single
            digit, letters and Roman numerals; "" for nothing.
    """
    if not style:
        return ""
    lower = style.lower()
    if lower == "a" and 0 < number <= 26 * 8:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif lower == "i" and 0 < number <= _MAX_ROMAN:
        text = _roman(number)
    else:
        return str(number).zfill(2 if style.startswith("01") else 1)
    return text.upper() if style.isupper() else text


class ListLevel(NamedTuple):
    """How the items at a depth of a list are numbered.

    Attributes:
        style: Of the numbers, as for `format_number`; empty for bullets.
        template: What is shown, such as "%1.%2)", where %1 is the number at depth 1.
        start: The first number.
        is_legal: Whether numbers of outer levels are written in digits.
    """

    style: str
    template: str
    start: int = 1
    is_legal: bool = False


def next_marker(levels: Mapping[int, ListLevel], counts: Counter[int], depth: int) -> str:
    """Count an item of a nested list, and return its number as shown; empty for bullets.

    Args:
        levels: How the items at each depth, from 1, are numbered.
        counts: The number of the last item at each depth. What is deeper begins again.
        depth: The depth of the item.
    """
    for deeper in [other for other in counts if other > depth]:
        del counts[deeper]
    for above in range(1, depth + 1):
        if above not in counts:
            counts[above] = levels[above].start if above in levels else 1
        elif above == depth:
            counts[above] += 1
    shown = levels.get(depth)
    if shown is None or not shown.style:
        return ""

    def write(number: re.Match[str]) -> str:
        level = int(number[1])
        style = levels[level].style if level in levels else ""
        is_legal = shown.is_legal and style != "01"  # Article II holds Section 2.01
        return format_number(counts[level], "1" if is_legal else style)

    return _PLACEHOLDER.sub(write, shown.template).strip()


def _roman(number: int) -> str:
    text = ""
    for value, numeral in _ROMAN:
        count, number = divmod(number, value)
        text += numeral * count
    return text
