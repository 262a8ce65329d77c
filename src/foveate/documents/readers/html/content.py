"""Separation of the content of a web page from what only surrounds it.

Three things tell them apart: the roles that elements declare, the names that sites give to their
navigation, banners and boxes, and the share of the text that is in links. The last two are guesses.
They are dropped where they would leave next to nothing, such as on a page that is an index.
"""

import re
from dataclasses import dataclass

from foveate.documents.readers.html.tree import INLINE, Element, Text
from foveate.documents.words import alternatives, load_words, name_set

_NOT_TEXT, _FURNITURE_ROLES = (
    name_set(load_words("html")[kind]) for kind in ("not_text", "furniture_roles")
)
_FURNITURE = name_set("nav footer")
_NOTES = re.compile(r"footnote|endnote|citation|admonition|\bnote\b|topic", re.IGNORECASE)
_MARKS, _NAVIGATION, _BOXES = (
    alternatives(load_words("pages")[kind]) for kind in ("marks", "navigation", "boxes")
)
_MARK = re.compile(_MARKS)
_NAVIGATION_OR_BOX = re.compile(rf"(?:^|[-_])(?:{_NAVIGATION}|{_BOXES})(?:$|[-_])", re.IGNORECASE)
_BOX = re.compile(rf"(?:^|[-_])(?:{_BOXES})(?:$|[-_])", re.IGNORECASE)
_SECTION = re.compile(r"section|sect\d|chapter|appendix", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?。！？:…][\"'”’»)\]]*\s*$")
_MARK_TEXTS = name_set("¶ # § 🔗 ⚓ ⚓︎ ↩ ↩︎ ↵ ⏎ ^ ↑ [edit] [source] edit [link] [top]")
_NEIGHBOURS = re.compile(r"\s*(?:next|prev|previous|up):", re.IGNORECASE)  # pages of a manual
_LONGEST_MARK = 8  # characters, such as [edit]
_HEADINGS = name_set("h1 h2 h3 h4 h5 h6")
_LISTS = name_set("ul ol menu dl table")
_LINK_SHARE = 0.75  # of the characters of a list, above which it is navigation
_SHORT_LINK = 60  # characters of a link: longer ones are headlines that say something
_ENOUGH = 100  # characters of content, or
_ENOUGH_SHARE = 0.25  # of the text that is left out in its favour


@dataclass(slots=True)
class _Measure:
    """The visible text of an element: numbers of characters, of those in links, and of links."""

    characters: int = 0
    linked: int = 0
    links: int = 0
    headings: int = 0
    prose: int = 0  # characters of blocks that end like a sentence

    @property
    def unlinked(self) -> int:
        return self.characters - self.linked


def find_content(root: Element) -> tuple[list[Element], set[Element]]:
    """Find the content of a page.

    Args:
        root: The page.

    Returns:
        The elements that hold the content, in order, and those within them to be left out.
    """
    elements = list(root.elements())
    removed = {element for element in elements if is_invisible(element)}
    own = {element: _own_text(element) for element in elements}
    visible = _measure(own, removed)
    furniture = removed | {
        element
        for element in elements
        if _is_furniture(element) and 2 * visible[element].prose <= visible[root].characters
    }
    without_roles = _measure(own, furniture)
    regions = _regions(root, elements, without_roles)
    named = furniture | {
        element
        for element in elements
        if _is_named_as_box(element) and _may_be_box(element, root, regions, without_roles)
    }
    without_names = _measure(own, named)
    dense = named | {element for element in elements if _is_navigation(element, without_names)}
    without_links = _measure(own, dense)
    choices = [(dense, without_links), (named, without_names), (furniture, without_roles)]
    enough = min(_ENOUGH, _ENOUGH_SHARE * _total(regions, without_roles))
    for left_out, measures in choices:
        if _total(regions, measures) >= max(enough, 1):
            return regions, left_out
    return [root], removed


def _total(regions: list[Element], measures: dict[Element, _Measure]) -> int:
    """Return the number of characters apart from those of headings."""
    return sum(measures[region].characters - measures[region].headings for region in regions)


def is_invisible(element: Element) -> bool:
    """Return whether an element is never displayed as text, or is a mark next to the text."""
    attributes = element.attributes
    if element.tag in _NOT_TEXT:
        return not _is_whole_heading(element)
    if element.tag == "math":  # hidden where an image is shown in its place
        return False
    if "hidden" in attributes and attributes.get("role") != "tabpanel":
        return True
    if attributes.get("aria-hidden") == "true" or attributes.get("role") == "doc-pagebreak":
        return True
    if attributes.get("role") == "doc-backlink":  # the text of a heading may lead to the contents
        return element.parent is None or element.parent.tag not in _HEADINGS
    if _HIDDEN_STYLE.search(attributes.get("style", "")) and "mathml" not in attributes.get(
        "class", ""
    ):
        return True
    if any(_MARK.fullmatch(word) for word in element.words()):
        return not any(child.tag in ("main", "article", "p", "h1") for child in element.elements())
    if element.tag == "sup":
        return _is_note_mark(element)
    if element.tag == "a":
        return _is_mark(element)
    return False


def _is_whole_heading(element: Element) -> bool:
    """Return whether a heading is but a button, which shows what is below it."""
    heading = element.parent
    return (
        element.tag == "button"
        and heading is not None
        and heading.tag in _HEADINGS
        and not any(
            child.shown.strip() if isinstance(child, Text) else child is not element
            for child in heading.children
        )
    )


def _is_mark(link: Element) -> bool:
    """Return whether a link is a mark such as ¶ or the number of a note."""
    if "noteref" in link.attributes.get("epub:type", "") + link.attributes.get("role", ""):
        return True
    if link.words() & {"footnote-reference", "footnote-ref"}:
        return True
    if len(link.children) > 3:
        return False
    return link.text(_LONGEST_MARK + 1).strip() in _MARK_TEXTS


def _is_note_mark(sup: Element) -> bool:
    """Return whether a superscript is the mark of a note, not an exponent or ordinal."""
    if "reference" in sup.words() or "footnote" in sup.attributes.get("class", ""):
        return True
    links = [
        child
        for child in sup.children
        if isinstance(child, Element) and child.tag == "a" and "href" in child.attributes
    ]
    return bool(links) and len(sup.text(_LONGEST_MARK + 1).strip()) <= _LONGEST_MARK


def _is_furniture(element: Element) -> bool:
    """Return whether the role of an element says that it is not content."""
    attributes = element.attributes
    role = attributes.get("role", "")
    if element.tag == "aside" or role == "complementary":
        return not _NOTES.search(
            f"{attributes.get('class', '')} {attributes.get('epub:type', '')} {role}"
        )
    if element.tag == "header" or role == "banner":  # that of the page, not that of an article
        return not any(one.tag == "article" or _is_main(one) for one in element.ancestors())
    if element.tag == "footer":
        return not any(one.tag == "blockquote" for one in element.ancestors())
    return element.tag in _FURNITURE or role in _FURNITURE_ROLES or _leads_elsewhere(element)


def _leads_elsewhere(element: Element) -> bool:
    """Return whether an element holds links to neighbouring pages: "Next: Eel, Up: Fish"."""
    links = (child for child in element.children if isinstance(child, Element))
    return any("rel" in link.attributes for link in links) and bool(
        _NEIGHBOURS.match(element.text(_LONGEST_MARK))
    )


def _is_main(element: Element) -> bool:
    return element.tag == "main" or element.attributes.get("role") == "main"


def _is_named_as_box(element: Element) -> bool:
    if element.tag in INLINE or element.tag in ("", "html", "body", "main", "p", "td", "tr"):
        return False
    return any(map(_NAVIGATION_OR_BOX.search, _names(element)))


def _names(element: Element) -> set[str]:
    """Return the words that name what an element is; the id of a section repeats its heading."""
    words = element.words()
    if element.tag == "section" or any(map(_SECTION.fullmatch, words)):
        words -= set(element.attributes.get("id", "").split())
    return words


def _may_be_box(
    element: Element, root: Element, regions: list[Element], measures: dict[Element, _Measure]
) -> bool:
    """Return whether an element is small enough to be a box: a name may describe a whole layout."""
    measure = measures[element]
    is_prose = 2 * measure.prose > measure.characters
    is_prose |= measure.prose > _ENOUGH and measure.linked < 0.2 * measure.characters
    if is_prose and not any(map(_BOX.search, _names(element))):
        return False  # such as a sidebar in a book
    if measure.unlinked <= 0.5 * measures[root].unlinked:
        return not any(child in regions or child.tag == "h1" for child in element.elements())
    return False


def _is_navigation(element: Element, measures: dict[Element, _Measure]) -> bool:
    """Return whether an element holds links and hardly anything else."""
    measure = measures[element]
    if not measure.links or measure.linked < _LINK_SHARE * measure.characters:
        return False
    if element.tag in _LISTS or element.tag in ("div", "section"):
        return measure.links > 1 and measure.linked < _SHORT_LINK * measure.links
    return element.tag == "p" and measure.linked < _SHORT_LINK and not measure.prose


def _own_text(element: Element) -> tuple[int, bool]:
    """Return the number of characters outside inner elements, and whether they end a sentence."""
    texts = [child.shown for child in element.children if isinstance(child, Text)]
    visible = "".join("".join(texts).split())
    return len(visible), _SENTENCE_END.search(visible[-10:]) is not None


def _measure(
    own: dict[Element, tuple[int, bool]], left_out: set[Element]
) -> dict[Element, _Measure]:
    """Measure every element without those that are left out."""
    measures: dict[Element, _Measure] = {}
    for element, (characters, is_sentence) in reversed(own.items()):  # children come first
        measure = measures[element] = _Measure()
        if element in left_out:
            continue
        measure.characters = characters
        for child in element.children:
            if isinstance(child, Element) and (inner := measures[child]).characters:
                measure.characters += inner.characters
                measure.linked += inner.linked
                measure.links += inner.links
                measure.headings += inner.headings
                measure.prose += inner.prose
        if element.tag == "a" and "href" in element.attributes and measure.characters:
            measure.linked, measure.links = measure.characters, 1
        if element.tag in _HEADINGS:
            measure.headings = measure.characters
        if is_sentence and element.tag not in INLINE:
            measure.prose = measure.characters
    return measures


def _regions(
    root: Element, elements: list[Element], measures: dict[Element, _Measure]
) -> list[Element]:
    """Return the main part of the page: its chief article, else its <main>, else all of it."""
    mains = [element for element in elements if _is_main(element)]
    region = [main for main in _outermost(mains) if measures[main].characters] or [root]
    within = [element for part in region for element in part.elements()]
    articles = [
        article
        for article in _outermost([element for element in within if element.tag == "article"])
        if measures[article].characters
    ]
    if not articles:
        return region
    chief = max(articles, key=lambda article: measures[article].unlinked)
    rivals = articles if region == [root] else region
    if measures[chief].unlinked > 0.5 * sum(measures[rival].unlinked for rival in rivals):
        return [chief]
    return articles if region == [root] else region


def _outermost(elements: list[Element]) -> list[Element]:
    """Leave out elements within others of the list."""
    chosen: list[Element] = []
    inside: set[Element] = set()
    for element in elements:
        if element not in inside:
            chosen.append(element)
            inside.update(element.elements())
    return chosen
