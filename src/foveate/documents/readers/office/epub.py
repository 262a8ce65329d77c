"""E-books (EPUB): web pages in a ZIP archive, with their order and a table of contents.

The pages are read by the HTML reader. Where a page has no headings, the book's table of contents
provides them; it also says how the chapters nest.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

from foveate.documents.blocks import Block, Heading, ParsedText, collapse, compose_text
from foveate.documents.decoding import decode
from foveate.documents.markup import Element, attribute, check_size
from foveate.documents.metadata import clean_names, first_date
from foveate.documents.readers import html
from foveate.documents.readers.html import tree
from foveate.documents.readers.office.package import Package, resolve
from foveate.documents.structure import DocumentError
from foveate.documents.words import name_set

_CONTAINER = "META-INF/container.xml"
_HTML = name_set("application/xhtml+xml text/html text/x-oeb1-document")
_HEADINGS = name_set("h1 h2 h3 h4 h5 h6")
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
    unread = {_target(name, attribute(entry, "href"))[0] for entry in contents}
    spine = (items.get(attribute(one, "idref")) for one in book.iterfind("{*}spine/{*}itemref"))
    pages = (
        _target(name, attribute(item, "href"))[0]
        for item in spine
        if item is not None and attribute(item, "media-type") in _HTML
    )
    return [page for page in dict.fromkeys(pages) if page not in unread]


def _contents(package: Package, name: str, book: Element, items: list[Element]) -> list[_Entry]:
    """Read the table of contents, in the form of EPUB 3 or else of EPUB 2."""
    for item in filter(_is_nav, items):
        part = _target(name, attribute(item, "href"))[0]
        navs = _named(_parse(package.read(part)), "nav")
        navs = [nav for nav in navs if "toc" in _roles(nav)] or navs
        for top in _children(navs[0], "ol") if navs else ():
            return list(_nav_entries(top, part, 1))
    ncx = attribute(book.find("{*}spine"), "toc")
    for item in items:
        if attribute(item, "id") == ncx or attribute(item, "media-type").endswith("dtbncx+xml"):
            part = _target(name, attribute(item, "href"))[0]
            for top in _named(_parse(package.read(part)), "navmap"):
                return list(_ncx_entries(top, part, 1))
    return []


def _nav_entries(items: tree.Element, part: str, depth: int) -> Iterator[_Entry]:
    for item in _children(items, "li"):
        for link in _children(item, "a"):
            target = _target(part, link.attributes.get("href", ""))
            yield _Entry(collapse(link.text()), depth, *target)
        for inner in _children(item, "ol"):
            yield from _nav_entries(inner, part, depth + 1)


def _ncx_entries(points: tree.Element, part: str, depth: int) -> Iterator[_Entry]:
    for point in _children(points, "navpoint"):
        title = " ".join(collapse(label.text()) for label in _children(point, "navlabel"))
        for content in _children(point, "content"):
            yield _Entry(title, depth, *_target(part, content.attributes.get("src", "")))
        yield from _ncx_entries(point, part, depth + 1)


def _children(element: tree.Element, tag: str) -> list[tree.Element]:
    inner = (child for child in element.children if isinstance(child, tree.Element))
    return [child for child in inner if child.tag == tag]


def _named(element: tree.Element, *tags: str) -> list[tree.Element]:
    """Return the elements of these tags within an element."""
    return [inner for inner in element.elements() if inner.tag in tags]


def _target(part: str, href: str) -> tuple[str, str]:
    """Return the part, and the anchor in it, to which a part refers."""
    path, anchor = urldefrag(href)
    return resolve(part, unquote(path)), unquote(anchor)


def _is_nav(item: Element) -> bool:
    return "nav" in attribute(item, "properties").split()


def _roles(element: tree.Element) -> frozenset[str]:
    """Return what an element is, in the vocabularies of EPUB and ARIA."""
    attributes = element.attributes
    return name_set(f"{attributes.get('epub:type', '')} {attributes.get('role', '')}")


def _reject_encrypted(package: Package, pages: Iterable[str]) -> None:
    """Reject books under copy protection; fonts alone may be encrypted."""
    encryption = package.xml("META-INF/encryption.xml")
    for entry in () if encryption is None else encryption.iter("{*}EncryptedData"):
        method = attribute(entry.find("{*}EncryptionMethod"), "Algorithm")
        part, _ = _target("", attribute(entry.find("{*}CipherData/{*}CipherReference"), "URI"))
        if method not in _FONT_OBFUSCATION and part in pages:
            raise DocumentError(
                "is protected against copying (DRM), so that only its own reader can open it: "
                "use a copy without protection."
            )


def _parse(content: bytes | None) -> tree.Element:
    """Parse a page, even one with errors; what is not a page is empty."""
    check_size(content or b"", "EPUB")
    try:
        return tree.parse(decode(content or b"", markup=True))
    except DocumentError:
        return tree.Element("")


def _read_page(content: bytes | None, entries: list[_Entry]) -> list[Block]:
    """Read the blocks of a page."""
    root = _parse(content)
    body = next(iter(_named(root, "body")), root)
    if _roles(body) & _UNREAD:
        return []
    if not _named(body, *_HEADINGS):
        _insert_headings(body, entries)
    for element in body.elements():
        roles, around = _roles(element), element.parent
        leads_back = "doc-backlink" in roles and around is not None and around.tag in _HEADINGS
        if roles & _UNREAD and not leads_back:
            element.children.clear()
        elif roles & _NOTES:
            element.attributes["role"] = "doc-footnote"  # the one that the HTML reader knows
    page = html.read_page(body, is_part=True)
    blocks = page.blocks
    if page.title:  # the first heading, which is that of a chapter and not of the book
        levels = [block.level for block in blocks if isinstance(block, Heading)]
        blocks = [Heading(min(levels, default=2) - 1, page.title), *blocks]
    return blocks


def _insert_headings(body: tree.Element, entries: list[_Entry]) -> None:
    """Give a page without headings those of the table of contents."""
    anchors = {
        element.attributes.get("id") or element.attributes.get("name"): element
        for element in body.elements()
    }
    titled: set[tree.Element] = set()
    for entry in entries:
        element = anchors.get(entry.anchor, body) if entry.anchor else body
        while element.tag in tree.INLINE and element.parent:
            element = element.parent
        if element in titled:
            continue
        titled.add(element)
        tag = f"h{min(entry.depth, len(_HEADINGS))}"
        if element is not body and collapse(element.text()) == entry.title:
            element.tag = tag
            continue
        heading = tree.Element(tag, {}, body, element.start)
        heading.children.append(tree.Text(entry.title, element.start, element.start))
        if element is body or element.parent is None:
            body.children.insert(0, heading)
        else:
            around = element.parent.children
            around.insert(around.index(element), heading)


def _set_levels(blocks: list[Block], entries: list[_Entry], shift: int) -> int:
    """Give the headings of a page their levels in the book: their depths in the contents.

    A heading that is not in the contents stays below the one before as in its page. `shift` is the
    difference of the levels where the page before ended; that where this one ends is returned.
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
