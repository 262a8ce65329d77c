"""Roman numerals, which number parts, clauses and pages."""

ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
"""The values of the letters."""


def roman_number(number: str) -> int:
    """Return the value of a Roman numeral in capitals."""
    values = [ROMAN_DIGITS[letter] for letter in number]
    return sum(
        -value if value < max(values[index:]) else value for index, value in enumerate(values)
    )
