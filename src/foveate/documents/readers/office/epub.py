"""E-books (EPUB): web pages in a ZIP archive, with their order and a table of contents.

The pages are read by the HTML reader. Where a page has no headings, the book's table of contents
provides them; it also says how the chapters nest.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html.entities import html5
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

from lxml import etree

from foveate.documents.blocks import (
    Block,
    Heading,
    ParsedText,
    collapse,
    compose_text,
    name_set,
)
from foveate.documents.headings import is_bare_part, is_contents
from foveate.documents.metadata import clean_names, first_date
from foveate.documents.readers import html
from foveate.documents.readers.office.package import (
    Element,
    Package,
    attribute,
    local,
    parse_html,
    parse_xml,
    resolve,
)
from foveate.documents.readers.plain.headings import heading_key
from foveate.documents.structure import DocumentError

_CONTAINER = "META-INF/container.xml"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_HTML = name_set("application/xhtml+xml text/html text/x-oeb1-document")
_PARAGRAPHS = ("p", "div")
_MOSTLY = 0.8  # share of a page's characters
_HEADINGS = name_set("h1 h2 h3 h4 h5 h6")
_NAMED_CHARACTER = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
_INLINE = name_set("a abbr b big cite code em font i q s small span strong sub sup u")
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_NOTES = name_set("footnote endnote rearnote doc-footnote doc-endnote")
_UNREAD = name_set(  # marks of notes and pages, and the contents
    "noteref backlink doc-noteref doc-backlink pagebreak doc-pagebreak toc landmarks page-list"
)


class _Entry(NamedTuple):
    """An entry of the table of contents."""

    title: str
    depth: int  # from 1
    page: str  # the file that it points to
    anchor: str  # the element in that file; empty for its beginning


def read(data: bytes) -> ParsedText:
    """Read the chapters in their order."""
    package = Package(data, "EPUB")
    name = attribute(package.require(_CONTAINER).find(".//{*}rootfile"), "full-path")
    book = package.require(name)
    items = {attribute(item, "id"): item for item in book.iterfind("{*}manifest/{*}item")}
    entries: defaultdict[str, list[_Entry]] = defaultdict(list)
    for entry in _contents(package, name, book, list(items.values())):
        entries[entry.page].append(entry)
    pages = _pages(name, book, items)
    _reject_encrypted(package, pages)
    blocks: list[Block] = []
    shift = 0
    for page in pages:
        chapter = _read_page(package.read(page), entries[page])
        shift = _set_levels(chapter, entries[page], shift)
        blocks += chapter
    html.name_places(blocks)
    parsed = compose_text(collapse(book.findtext("{*}metadata/{*}title") or "") or None, blocks)
    parsed.authors = clean_names(_authors(book))
    parsed.date = first_date(_dates(book))
    return parsed


def _authors(book: Element) -> Iterator[str]:
    """Yield the creators who are authors; others may be illustrators or translators."""
    roles = {
        attribute(meta, "refines"): collapse(meta.text or "")
        for meta in book.iterfind("{*}metadata/{*}meta")
        if attribute(meta, "property") == "role"
    }
    for creator in book.iterfind("{*}metadata/{*}creator"):
        role = roles.get(f"#{attribute(creator, 'id')}", "aut")
        if attribute(creator, "role", role) == "aut":
            yield creator.text or ""


def _dates(book: Element) -> Iterator[str]:
    """Yield the dates of publication; EPUB 2 labels other dates."""
    for date in book.iterfind("{*}metadata/{*}date"):
        if attribute(date, "event", "publication") == "publication":
            yield date.text or ""


def _pages(name: str, book: Element, items: dict[str, Element]) -> list[str]:
    """Return the parts with the pages of a book in their order, without its contents."""
    guide = book.iterfind("{*}guide/{*}reference")
    contents = [one for one in guide if attribute(one, "type") == "toc"]
    contents += filter(_is_nav, items.values())
    unread = {_target(name, one, "href")[0] for one in contents}
    spine = (items.get(attribute(one, "idref")) for one in book.iterfind("{*}spine/{*}itemref"))
    pages = (
        _target(name, item, "href")[0]
        for item in spine
        if item is not None and attribute(item, "media-type") in _HTML
    )
    return [page for page in dict.fromkeys(pages) if page not in unread]


def _contents(package: Package, name: str, book: Element, items: list[Element]) -> list[_Entry]:
    """Read the table of contents, in the form of EPUB 3 or else of EPUB 2."""
    for item in filter(_is_nav, items):
        part = _target(name, item, "href")[0]
        root = _parse(package.read(part))
        navs = [] if root is None else list(root.iter("{*}nav"))
        navs = [nav for nav in navs if "toc" in _roles(nav)] or navs
        for top in navs[0].iterchildren("{*}ol") if navs else ():
            return list(_nav_entries(top, part, 1))
    ncx = attribute(book.find("{*}spine"), "toc")
    for item in items:
        if attribute(item, "id") == ncx or attribute(item, "media-type").endswith("dtbncx+xml"):
            part = _target(name, item, "href")[0]
            root = _parse(package.read(part))
            top = None if root is None else root.find("{*}navMap")
            return [] if top is None else list(_ncx_entries(top, part, 1))
    return []


def _nav_entries(items: Element, part: str, depth: int) -> Iterator[_Entry]:
    for item in items.iterchildren("{*}li"):
        for child in item:
            if local(child) == "a":
                yield _Entry(_text(child), depth, *_target(part, child, "href"))
            elif local(child) == "ol":
                yield from _nav_entries(child, part, depth + 1)


def _ncx_entries(points: Element, part: str, depth: int) -> Iterator[_Entry]:
    for point in points.iterchildren("{*}navPoint"):
        title = collapse(point.findtext("{*}navLabel/{*}text") or "")
        yield _Entry(title, depth, *_target(part, point.find("{*}content"), "src"))
        yield from _ncx_entries(point, part, depth + 1)


def _target(part: str, element: Element | None, name: str) -> tuple[str, str]:
    """Return the part and the anchor in it that an attribute of an element of a part names."""
    path, anchor = urldefrag(attribute(element, name))
    return resolve(part, unquote(path)), unquote(anchor)


def _is_nav(item: Element) -> bool:
    return "nav" in attribute(item, "properties").split()


def _roles(element: Element) -> frozenset[str]:
    """Return what an element is, in the vocabularies of EPUB and ARIA."""
    return name_set(f"{element.get(_TYPE, '')} {element.get('role', '')}")


def _text(element: Element) -> str:
    return collapse("".join(element.itertext()))


def _reject_encrypted(package: Package, pages: Iterable[str]) -> None:
    """Reject books under copy protection; fonts alone may be encrypted."""
    encryption = package.xml("META-INF/encryption.xml")
    for entry in () if encryption is None else encryption.iter("{*}EncryptedData"):
        method = attribute(entry.find("{*}EncryptionMethod"), "Algorithm")
        part, _ = _target("", entry.find("{*}CipherData/{*}CipherReference"), "URI")
        if method not in _FONT_OBFUSCATION and part in pages:
            raise DocumentError(
                "is protected against copying (DRM), so that only its own reader can open it: "
                "use a copy without protection."
            )


def _parse(content: bytes | None) -> Element | None:
    """Parse a page, even one with errors; return None for what is not a page."""
    content = content or b""
    try:
        return parse_xml(_NAMED_CHARACTER.sub(_written_out, content), "EPUB")
    except DocumentError:
        return parse_html(content, "EPUB")


def _read_page(content: bytes | None, entries: list[_Entry]) -> list[Block]:
    """Read the blocks of a page."""
    root = _parse(content)
    body = None if root is None else root.find("{*}body")
    if body is None or _roles(body) & _UNREAD:
        return []
    for element in body.iter("{*}*"):
        if element.tag.startswith("{"):  # of a namespace, which HTML does not have
            element.tag = local(element)
    if _is_contents(body):
        return []
    if next(body.iter(*_HEADINGS), None) is None:
        _insert_headings(body, entries)
    for element in list(body.iterdescendants("*")):
        roles = _roles(element)
        if roles & _UNREAD and not (
            "doc-backlink" in roles and element.getparent().tag in _HEADINGS
        ):
            element.clear(keep_tail=True)
        elif roles & _NOTES:
            element.set("role", "doc-footnote")  # the one that the HTML reader knows
    page = html.read(
        f"<html>{etree.tostring(body, encoding='unicode', method='html')}</html>", is_part=True
    )
    blocks = page.blocks
    if page.title:  # the first heading, which is that of a chapter and not of the book
        levels = [block.level for block in blocks if isinstance(block, Heading)]
        blocks = [Heading(min(levels, default=2) - 1, page.title), *blocks]
    return blocks


def _written_out(name: re.Match[bytes]) -> bytes:
    """Replace an entity that HTML defines, but XML does not, by its character."""
    character = html5.get(f"{name[1].decode()};", "")
    return name[0] if not character or character in "<>&\"'" else character.encode()


def _insert_headings(body: Element, entries: list[_Entry]) -> None:
    """Give a page without headings those of the table of contents."""
    anchors: dict[str, Element] = {
        element.get("id") or element.get("name"): element for element in body.iter("*")
    }
    titled: set[Element] = set()
    for entry in entries:
        element: Element = anchors.get(entry.anchor, body) if entry.anchor else body
        while element.tag in _INLINE:
            element = element.getparent()
        if element in titled:
            continue
        titled.add(element)
        tag = f"h{min(entry.depth, len(_HEADINGS))}"
        if element is not body and _text(element) == entry.title:
            element.tag = tag
            continue
        heading = etree.Element(tag)
        heading.text = entry.title
        if element is body:
            _drop_printed(body, entry.title)
            body.insert(0, heading)
        else:
            element.addprevious(heading)


def _drop_printed(body: Element, title: str) -> None:
    """Leave out the paragraphs at the start of a page that print its title or its number."""
    for element in list(body.iter(*_PARAGRAPHS)):
        text = _text(element)
        if not text or any(child.tag in _PARAGRAPHS for child in element):
            continue
        if heading_key(text) not in heading_key(title) and not is_bare_part(text):
            return
        element.clear(keep_tail=True)


def _is_contents(body: Element) -> bool:
    """Return whether a page is a table of contents: an announcement and links to pages."""
    first = next((part for part in map(_text, body.iter(*_HEADINGS, "p")) if part), "")
    linked = sum(len(_text(link)) for link in body.iter("a") if link.get("href"))
    return is_contents(first) and linked > _MOSTLY * (len(_text(body)) - len(first))


def _set_levels(blocks: list[Block], entries: list[_Entry], shift: int) -> int:
    """Give the headings of a page their levels in the book: their depths in the contents.

    A heading that is not in the contents stays below the one before as in its page.

    Args:
        blocks: The blocks of the page.
        entries: The entries of the contents that point to the page.
        shift: The difference of the levels where the page before ended.

    Returns:
        The difference of the levels where the page ends.
    """
    headings = [block for block in blocks if isinstance(block, Heading)]
    depths = {entry.title: entry.depth for entry in reversed(entries)}
    if entries and headings:
        shift = entries[0].depth - headings[0].level
    for heading in headings:
        depth = depths.get(collapse(heading.text))
        shift = shift if depth is None else depth - heading.level
        heading.level += shift
    return shift
