"""PDF read with docling, whose models find the parts of a page."""

from io import BytesIO
from typing import Any

from foveate.documents.blocks import (
    Block,
    Heading,
    MappedText,
    ParsedText,
    Prose,
    TextComposer,
    collapse,
    table_row,
)
from foveate.documents.layout import Layout, PlacedWord
from foveate.documents.structure import DocumentError, Kind

_KINDS: dict[str, Kind] = {
    "text": "prose",
    "paragraph": "prose",
    "list_item": "item",
    "caption": "caption",
    "footnote": "footnote",
    "formula": "formula",
    "code": "code",
    "reference": "reference",
}
"""What docling's labels mean; running heads, feet and tables of contents have others."""


def read_with_docling(data: bytes) -> ParsedText:
    """Read a PDF with docling.

    Raises:
        DocumentError: docling cannot read it, or has no models and cannot get them.
        ImportError: docling is not installed.
    """
    try:
        from docling.datamodel.base_models import DocumentStream
        from docling.document_converter import DocumentConverter
    except ImportError as error:
        raise ImportError(
            "Reading PDF with docling needs the extra: pip install 'foveate[docling]'."
        ) from error
    try:
        stream = DocumentStream(name="document.pdf", stream=BytesIO(data))
        converted = DocumentConverter().convert(stream).document
    except Exception as error:  # docling and the libraries of its models raise many types
        raise DocumentError(
            f"cannot be read with docling ({type(error).__name__}): check that its models are "
            "installed (docling-tools models download), or read it without docling."
        ) from error
    return from_docling(converted)


def from_docling(document: Any) -> ParsedText:
    """Turn docling's document into blocks with their places.

    Args:
        document: A `docling_core.types.doc.DoclingDocument`.
    """
    composer = _DoclingComposer(document)
    title: str | None = None
    blocks: list[Block] = []
    for item, _ in document.iterate_items():
        label = str(getattr(item.label, "value", item.label))
        if label == "table":
            blocks += composer.add_table(item)
            continue
        text = collapse(getattr(item, "text", ""))
        if not text:
            continue
        if label == "title":
            composer.add(text, item)
            title = title or text
        elif label == "section_header":
            composer.add(text, item)
            blocks.append(Heading(int(getattr(item, "level", 1)), text))
        elif label in _KINDS:
            blocks.append(Prose(composer.add(text, item), kind=_KINDS[label]))
    return composer.finish(title, blocks)


class _DoclingComposer:
    """Writes the text and records where its parts are: docling knows the boxes of paragraphs."""

    def __init__(self, document: Any) -> None:
        self._pages = {int(number): page.size for number, page in document.pages.items()}
        self._composer = TextComposer()
        self._words: list[PlacedWord] = []
        self._num_boxes = 0

    def add(self, text: str, item: Any) -> MappedText:
        """Write the text of an item."""
        mapped = self._composer.add(text)
        start = mapped.source_span(0, 1)[0]
        for number, provenance in enumerate(item.prov):
            first = min(provenance.charspan[0], len(text) - 1) if number else 0
            self._note(start + first, provenance.page_no, provenance.bbox)
        return mapped

    def add_table(self, item: Any) -> list[Prose]:
        """Write the rows of a table."""
        rows: list[Prose] = []
        heads: list[MappedText] = []
        for cells in item.data.grid:
            mapped = [self._composer.add(collapse(cell.text), "; ") for cell in cells]
            self._composer.add("", "\n")
            if not rows and all(cell.column_header for cell in cells):
                heads = mapped
                continue
            row = table_row(heads, mapped)
            if not row:
                continue
            for cell, text in zip(cells, mapped, strict=True):
                box = cell.bbox or (item.prov[0].bbox if item.prov else None)
                if text and box is not None and item.prov:
                    self._note(text.source_span(0, 1)[0], item.prov[0].page_no, box)
            rows.append(Prose(row, kind="table"))
        return rows

    def finish(self, title: str | None, blocks: list[Block]) -> ParsedText:
        count = max(self._pages, default=0)
        sizes = [
            (float(self._pages[n].width), float(self._pages[n].height))
            if n in self._pages
            else (612.0, 792.0)
            for n in range(1, count + 1)
        ]
        layout = Layout.from_words(sizes, self._words)
        return ParsedText(title, blocks, self._composer.text, layout)

    def _note(self, start: int, page: int, box: Any) -> None:
        """Record a box, which may be measured from the lower edge of its page."""
        shown = box.to_top_left_origin(page_height=self._pages[page].height)
        self._words.append(
            PlacedWord(start, self._num_boxes, page, shown.l, shown.t, shown.r, shown.b)
        )
        self._num_boxes += 1
