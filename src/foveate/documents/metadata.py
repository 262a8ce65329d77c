"""The authors and the date of a document, as formats state them."""

import re
from datetime import date

_ISO_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


def is_date(text: str) -> bool:
    """Return whether a text is a date that exists, written YYYY, YYYY-MM or YYYY-MM-DD.

    Example:
        >>> is_date("2024-02-29"), is_date("2023-02-29"), is_date("May 2023")
        (True, False, False)
    """
    written = _ISO_DATE.fullmatch(text)
    if written is None:
        return False
    year, month, day = (int(part or 1) for part in written.groups())
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
