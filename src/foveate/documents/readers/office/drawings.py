"""Charts and SmartArt, which office documents keep in parts of their own."""

from collections.abc import Iterator

from foveate.documents.blocks import Prose, collapse
from foveate.documents.markup import Element, attribute, integer, local
from foveate.documents.readers.office.package import Package
from foveate.documents.readers.office.paragraphs import table_cell
from foveate.documents.tables import table_blocks

_STRUCTURE = ("doc", "pres", "parTrans", "sibTrans")  # points of SmartArt that hold no text


def drawn_blocks(package: Package, name: str) -> Iterator[Prose]:
    """Yield the texts of the chart or SmartArt in a part: titles, rows of numbers, items."""
    root = package.xml(name)
    if root is None:
        return
    if local(root) == "dataModel":
        for point in root.iter("{*}pt"):
            if attribute(point, "type") not in _STRUCTURE and (shown := shown_text(point)):
                yield Prose(table_cell(shown, 0).text, kind="item")
        return
    for title in root.iter("{*}title"):
        if shown := shown_text(title):
            yield Prose(table_cell(shown, 0).text, kind="caption")
    series = [
        (shown_text(one.find("{*}tx")), _points(one, "cat", "xVal"), _points(one, "val", "yVal"))
        for one in root.iter("{*}ser")
    ]
    labels: dict[int, str] = {}
    for _, categories, values in series:
        for index in values:
            labels.setdefault(index, categories.get(index, ""))
    rows = [["", *(name for name, _, _ in series)]]
    rows += [
        [label, *(values.get(index, "") for _, _, values in series)]
        for index, label in sorted(labels.items())
    ]
    yield from table_blocks([[table_cell(text, 0) for text in row] for row in rows], 1)


def shown_text(element: Element | None) -> str:
    """Return the text in an element of DrawingML, with a space between its paragraphs."""
    shown = ""
    for part in () if element is None else element.iter("{*}p", "{*}t", "{*}v", "{*}br"):
        shown += " " if local(part) in ("p", "br") else part.text or ""
    return collapse(shown)


def _points(series: Element, *names: str) -> dict[int, str]:
    """Return the cached values of a series by their indices."""
    points: dict[int, str] = {}
    for values in (part for name in names for part in series.iterfind(f"{{*}}{name}")):
        for point in values.iter("{*}pt"):
            index = integer(attribute(point, "idx"), 0)
            points[index] = collapse(f"{shown_text(point)} {points.get(index, '')}")
    return points
