"""Numbers of list items and headings, which word processors compute when they show them."""

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MAX_ROMAN = 3999


def format_number(number: int, style: str) -> str:
    """Write a number as a list shows it.

    Args:
        number: The number.
        style: "1", "01", "a", "A", "i" or "I" for digits, digits with a zero before a single one,
            letters and Roman numerals; "" for nothing.
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


def _roman(number: int) -> str:
    text = ""
    for value, numeral in _ROMAN:
        count, number = divmod(number, value)
        text += numeral * count
    return text
