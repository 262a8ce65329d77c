"""The authors and the date that a page declares for machines: in its head, and as JSON-LD."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from foveate.documents.metadata import clean_names, first_date, names_in, split_names
from foveate.documents.readers.html.tree import Element
from foveate.documents.words import load_words

_FIELDS = load_words("fields")["pages"]
_AROUND_CDATA = "/ \t\r\n"  # which encloses scripts in XHTML
_MAX_SCRIPT = 1_000_000  # characters of JSON-LD


def find_metadata(root: Element) -> tuple[tuple[str, ...], str | None]:
    """Return the authors of a page and the date when it was published."""
    fields: dict[str, list[str]] = {}
    articles: list[dict[str, Any]] = []
    for element in root.elements():
        attributes = element.attributes
        if element.tag == "meta":
            names = attributes.get("name") or attributes.get("property", "")
            for name in names.lower().replace(":", ".").split():
                fields.setdefault(name, []).append(attributes.get("content", ""))
        elif element.tag == "script" and attributes.get("type") == "application/ld+json":
            articles += _articles(element.text())
        elif element.tag == "time" and (
            "pubdate" in attributes or "datePublished" in attributes.get("itemprop", "").split()
        ):
            written = attributes.get("datetime") or element.text()
            fields.setdefault("time", []).append(written)
    article = articles[0] if len(articles) == 1 else {}  # a page of several is a list of pages
    authors = next(
        filter(None, (clean_names(fields.get(name, ())) for name in _FIELDS["authors"])), ()
    )
    authors = authors or names_in(article.get("author"))
    lists = (
        clean_names(chain(*map(split_names, fields.get(name, ()))))
        for name in _FIELDS["author_lists"]
    )
    dates = [date for name in _FIELDS["dates"] for date in fields.get(name, ())]
    return (
        authors or next(filter(None, map(clean_names, lists)), ()),
        first_date([article.get("datePublished"), *dates, *fields.get("time", ())]),
    )


def _articles(script: str) -> Iterator[dict[str, Any]]:
    """Yield the articles of JSON-LD, whose authors may be given by reference."""
    script = script[:_MAX_SCRIPT].strip(_AROUND_CDATA).removeprefix("<![CDATA[")
    script = script.removesuffix("]]>").rstrip(_AROUND_CDATA)
    try:
        data = json.loads(script, strict=False)
    except (ValueError, RecursionError):
        return
    graph = data.get("@graph", data) if isinstance(data, dict) else data
    things = [one for one in _as_list(graph) if isinstance(one, dict)]
    articles = tuple(_FIELDS["articles"])
    known = {one["@id"]: one for one in things if isinstance(one.get("@id"), str)}
    for thing in things:
        kinds = _as_list(thing.get("@type"))
        if any(isinstance(kind, str) and kind.endswith(articles) for kind in kinds):
            authors = [
                known.get(str(author.get("@id")), author) if isinstance(author, dict) else author
                for author in _as_list(thing.get("author"))
            ]
            yield thing | {"author": authors}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
