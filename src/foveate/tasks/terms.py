"""The terms by which texts are compared, and the words of a document's outline."""

import re
from pathlib import PurePath

from foveate.documents import Document

# Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = rf"[^\W{_UNSPACED}]+"
_TERM = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<paragraph>§\s*{_WORD}(?:\.{_WORD})*)"
    rf"|{_WORD}(?:(?:[.:/@'’+-]+|(?<=\d),(?=\d)){_WORD})*(?:\+\+|\#(?!\w))?"
)
_PART = re.compile(r"[^\W_]+")


def terms(text: str) -> list[str]:
    """List the terms of a text, in lower case, for comparison with other texts.

    A term is a word, number or identifier. A compound one ("foo_bar", "re-enter", "v1.2.3") is
    followed by those of its parts that have at least two characters and are not numbers. Scripts
    without spaces between words yield pairs of neighbouring characters.

    Example:
        >>> terms("Call os.path for C++, see § 3.1")
        ['call', 'os.path', 'os', 'path', 'for', 'c++', 'see', '§3.1']
        >>> terms("鯨が泳ぐ")
        ['鯨が', 'が泳', '泳ぐ']
    """
    found: list[str] = []
    for match in _TERM.finditer(text.lower()):
        term, kind = match[0], match.lastgroup
        if kind == "unspaced":
            found += [term[i : i + 2] for i in range(max(len(term) - 1, 1))]
        elif kind == "paragraph":
            found.append("".join(term.split()))
        elif term.isalnum():  # most terms are, and have no parts
            found.append(term)
        else:
            found.append(term.replace("’", "'"))
            parts = _PART.findall(term)
            if len(parts) > 1:
                found += [part for part in parts if len(part) > 1 and not part.isdigit()]
    return found


def titles_above(document: Document) -> list[str]:
    """Return the words that each section is under: the document's name and the titles above it."""
    name = _name(document)
    return [" ".join((name, *path)) for path, _ in document.walk()]


def all_titles(document: Document) -> str:
    """Return the words of a document's outline: its name and the titles of its sections."""
    return " ".join((_name(document), *(section.title for _, section in document.walk())))


def _name(document: Document) -> str:
    return f"{PurePath(document.name).stem} {document.title}"
