"""JATS, the XML format of journals and PubMed Central."""

from collections.abc import Iterator

from foveate.documents.blocks import ParsedText
from foveate.documents.markup import Element
from foveate.documents.metadata import clean_names, first_date, make_date
from foveate.documents.readers import xml

_JATS = xml.Vocabulary.load("jats")
_NAMES = ("name", "name-alternatives/name", "string-name", "name-alternatives/string-name")
_PUBLICATIONS = ("pub", "epub", "epub-ppub", "ppub", "collection")
"""The kinds of dates that are those of a publication, the best first."""


def read(text: str) -> ParsedText:
    """Read abstract, body, back matter, captions, tables, footnotes, code and references."""
    parsed, root = xml.read(text, _JATS)
    header = root.find(".//article-meta")
    if header is not None:
        parsed.authors = clean_names(_authors(header))
        parsed.date = first_date(_dates(header))
    return parsed


def _authors(header: Element) -> Iterator[str]:
    for author in header.iterfind("contrib-group/contrib"):
        if author.get("contrib-type", "author") != "author":
            continue
        names = (author.find(path) for path in _NAMES)
        name = next((name for name in names if name is not None), None)
        if name is None:
            yield from map(_shown, author.iterfind("collab"))
        elif name.find("surname") is None:
            yield _shown(name)
        else:
            parts = ["given-names", "surname"]
            if name.get("name-style") == "eastern":
                parts.reverse()
            yield " ".join(name.findtext(part) or "" for part in (*parts, "suffix"))


def _shown(name: Element) -> str:
    """Return the text of a name without notes, and without the members of a group."""
    shown = name.text or ""
    for part in name:
        hidden = part.tag in ("contrib-group", "xref", "fn", "address")
        shown += ("" if hidden else "".join(part.itertext())) + (part.tail or "")
    return shown


def _dates(header: Element) -> Iterator[str | None]:
    """Yield the dates of publication, the best first."""
    dates = list(header.iterfind("pub-date"))
    for kind in _PUBLICATIONS:
        for date in dates:
            if (date.get("date-type") or date.get("pub-type")) == kind:
                yield make_date(*(date.findtext(part) for part in ("year", "month", "day")))
                yield make_date(*(date.findtext(part) for part in ("year", "month")))
                yield make_date(date.findtext("year"))
