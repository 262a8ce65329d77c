"""Numbers as they are written: in digits, letters and Roman numerals."""

from collections import Counter
from collections.abc import Mapping

_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MAX_ROMAN = 3999


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


def count_item(counts: Counter[int], depth: int, starts: Mapping[int, int]) -> None:
    """Count an item of a nested list.

    Args:
        counts: The number of the last item at each depth.
        depth: The depth of the item. What is counted deeper begins again.
        starts: The number of the first item at each depth, 1 if it is not given.
    """
    for deeper in [other for other in counts if other > depth]:
        del counts[deeper]
    for level in range(depth + 1):
        if level not in counts:
            counts[level] = starts.get(level, 1)
        elif level == depth:
            counts[level] += 1


def _roman(number: int) -> str:
    text = ""
    for value, numeral in _ROMAN:
        count, number = divmod(number, value)
        text += numeral * count
    return text
