"""The authors and the date of a document, as the fields of many formats write them.

Only what a field states is taken: nothing here looks for names or dates in running text.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import chain

from foveate.documents.blocks import collapse
from foveate.documents.words import alternatives, load_words

_LONGEST = 200  # characters of a name, and of a date with its time and time zone
_LONGEST_LIST = 20_000  # characters of a field that lists names
_ISO_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
_WORDS = load_words("names")
_WEEKDAY = rf"(?:(?:{alternatives(_WORDS['weekdays'])})(?:day)?\.?,?\s+)?"
_TIME = r"(?:(?:T|,?\s+(?:at\s+)?)\d{1,2}:\d\d.*)?"
_MONTHS = {
    name: number for number, names in enumerate(_WORDS["months"], 1) for name in names.split()
}
_DATES = tuple(
    re.compile(pattern + _TIME, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2}))?)?",
        r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})",
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)",
        r"(?P<y>\d{4})年(?:(?P<m>\d{1,2})月(?:(?P<d>\d{1,2})日)?)?",
        _WEEKDAY + r"(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.)?[\s-]+(?:of\s+|de\s+)?"
        r"(?P<name>[^\W\d]+)\.?,?[\s-]+(?:del?\s+)?(?P<y>\d{4})",
        _WEEKDAY + r"(?P<name>[^\W\d]+)\.?\s+(?P<d>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<y>\d{4})",
        r"(?P<name>[^\W\d]+)\.?,?[\s-]+(?:de\s+)?(?P<y>\d{4})",
        r"(?P<y>\d{4})[\s-]+(?P<name>[^\W\d]+)\.?(?:[\s-]+(?P<d>\d{1,2}))?",
    )
)

_NOT_SHOWN = re.compile("[\0-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2028-\u202e\ufeff\ud800-\udfff]")
_ASIDE = re.compile(r"\s*(?:<[^<>]*>|\([^()]*\)|\[[^\[\]]*\])")
_ENDING_ASIDE = re.compile(r"(<[^<>]*>|\([^()]*\))\s*(?:,\s*(?:and\b|&)?|and\b|&)")
_ADDRESS = re.compile(r"\S{0,100}@\S*|\w{1,10}://\S*|www\.\S+")
_MARKS = re.compile(r"[\s,;:*†‡§¶∗⋆#^\d¹²³⁰-⁹–-]+\Z|\A[\s,;:*†‡§¶∗⋆^]+")
_BY = re.compile(r"\A\s*[Bb]y:?\s+")
_LISTED = re.compile(r"\s*[;；、，]\s*")
_JOINED = re.compile(r"\s*,\s*(?:(?:and|und|et|&)\s+)?|\s+(?:and|und|et|&)\s+")
_INSTITUTION = re.compile(rf"\b(?:{alternatives(_WORDS['institutions'])})\b", re.IGNORECASE)
_PLACEHOLDERS = frozenset(_WORDS["placeholders"])


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


def make_date(year: object, month: object = None, day: object = None) -> str | None:
    """Return a date in ISO 8601; None if there is no such date.

    Args:
        year: The year, from 1000 on: earlier ones are what programs write for an unknown date.
        month: The month as a number or a name; None if it is unknown.
        day: The day; None if it is unknown.

    Example:
        >>> make_date("2024", "Mar", 5), make_date(2024, 3), make_date(101)
        ('2024-03-05', '2024-03', None)
    """
    if isinstance(month, str):
        month = _MONTHS.get(month.strip(" .").lower(), month)
    try:
        parts = [int(str(part)) for part in (year, month, day) if part is not None]
    except ValueError:
        return None
    written = "-".join(f"{part:0{4 if not i else 2}}" for i, part in enumerate(parts))
    return written if is_date(written) and parts[0] >= 1000 else None


def parse_date(text: object) -> str | None:
    """Return a date in ISO 8601, as precise as it is written.

    Dates are understood in ISO 8601, even with a time, which is dropped; with the name of the
    month in English, German, French or Spanish; and in Japanese and Chinese. A date such as
    03/04/2024 is not, because the order of its day and month depends on the country.

    Args:
        text: The date. Anything but a string, a number or a `datetime.date` is not a date.

    Returns:
        YYYY, YYYY-MM or YYYY-MM-DD; None if the text is something else, or not a date that exists.

    Example:
        >>> parse_date("12 March 2024"), parse_date("Aug. 2019"), parse_date("2024-03-12T08:00Z")
        ('2024-03-12', '2019-08', '2024-03-12')
        >>> parse_date("03/04/2024"), parse_date("in preparation")
        (None, None)
    """
    if isinstance(text, int) and 0 < text < 10**8:
        text = str(text)
    elif isinstance(text, date):
        text = text.isoformat()
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    written = collapse(text)
    for pattern in _DATES:
        match = pattern.fullmatch(written)
        if match is None:
            continue
        parts = match.groupdict()
        month = parts.get("m")
        if "name" in parts:
            month = str(_MONTHS.get(parts["name"].lower(), 0))
        if found := make_date(parts["y"], month, parts.get("d")):
            return found
    return None


def first_date(texts: Iterable[object]) -> str | None:
    """Return the first date that is understood; see `parse_date`."""
    return next(filter(None, map(parse_date, texts)), None)


def clean_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without e-mail addresses, links, marks of footnotes, and repetitions.

    Args:
        names: The names.

    Example:
        >>> clean_names(["Ann Lee¹* <ann@example.org>", "José Díaz (MIT)", "ann lee", "unknown"])
        ('Ann Lee', 'José Díaz')
    """
    found: dict[str, str] = {}
    for written in names:
        name = _clean(written)
        key = name.casefold()
        is_name = any(map(str.isalpha, name)) and len(name) <= _LONGEST
        if is_name and key not in _PLACEHOLDERS and not key.startswith(("copyright", "©")):
            found.setdefault(key, name)
    return tuple(found.values())


def split_names(text: str) -> tuple[str, ...]:
    """Return the names that a field with any number of names lists.

    Semicolons always separate names. Commas and "and" do where every part looks like the name of a
    person, so that "Lee, Ann" and "Ministry of Food and Rural Affairs" stay whole. An institution
    after a name is left out, and so is what follows it, such as its city.

    Example:
        >>> split_names("Ann Lee, Bob Ray Jr. and Eve Fox, University of Leeds")
        ('Ann Lee', 'Bob Ray Jr.', 'Eve Fox')
        >>> split_names("Lee, Ann; Ray, Bob")
        ('Lee, Ann', 'Ray, Bob')
    """
    if len(text) > _LONGEST_LIST:
        return ()
    text = _BY.sub("", _without_asides(_ENDING_ASIDE.sub(r"\1;", text)))
    return clean_names(chain.from_iterable(map(_split_listed, _LISTED.split(text))))


def names_in(value: object) -> tuple[str, ...]:
    """Return the names in a value of YAML, TOML or JSON.

    Args:
        value: A text; a mapping with the key "name", or "given" and "family"; or a list of these.
            Anything else holds no names.

    Example:
        >>> names_in([{"name": "Ann Lee", "email": "a@b.org"}, {"family": "Ray", "given": "Bob"}])
        ('Ann Lee', 'Bob Ray')
    """
    texts = dict.fromkeys(map(_name_in, value if isinstance(value, list) else [value]))
    return clean_names(chain.from_iterable(map(split_names, texts)))


def _name_in(value: object) -> str:
    if isinstance(value, Mapping):
        name = value.get("name") or value.get("literal") or value
        if isinstance(name, Mapping):
            keys = ("literal", "given", "givenName", "family", "familyName")
            parts = (name.get(key) for key in keys)
            name = " ".join(part for part in parts if isinstance(part, str))
        value = name
    return value if isinstance(value, str) else ""


def _clean(name: str) -> str:
    name = _ADDRESS.sub("", _without_asides(name[: 10 * _LONGEST])).replace(" ,", ",")
    return collapse(_MARKS.sub("", name))


def _without_asides(text: str) -> str:
    """Leave out what is in brackets."""
    return _ASIDE.sub("", _NOT_SHOWN.sub("", collapse(text)))


def _split_listed(text: str) -> list[str]:
    """Split at commas and "and" if that gives names of persons."""
    parts: list[str] = []
    for part in filter(_clean, _JOINED.split(text)):
        if parts and _is_person(parts[0]) and _INSTITUTION.search(part):
            break  # what follows is its place
        parts.append(part)
    is_inverted = text[:1].islower()  # "van der Berg, Jan Peter"
    return parts if all(map(_is_person, parts)) and not is_inverted else [text]


def _is_person(name: str) -> bool:
    """Return whether this looks like the name of a person: two to six words, and no institution."""
    name = _clean(name)
    return (
        2 <= len(name.split()) <= 6
        and not any(map(str.isdigit, name))
        and _INSTITUTION.search(name) is None
    )
