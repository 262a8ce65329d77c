"""The mapping of docling's documents, with a stand-in: its models cannot be had offline."""

import sys
from types import SimpleNamespace

import pytest

from foveate.documents.readers.pdf.models import from_docling
from tests.documents.pdfs import document_of, letter


def test_documents_of_docling_are_mapped():
    def place(page, left, top, right, bottom, start=0):
        def to_top_left_origin(page_height):
            return SimpleNamespace(l=left, t=page_height - top, r=right, b=page_height - bottom)

        box = SimpleNamespace(to_top_left_origin=to_top_left_origin)
        return SimpleNamespace(page_no=page, bbox=box, charspan=(start, start + 5))

    def item(label, text, *places, **more):
        return SimpleNamespace(label=label, text=text, prov=list(places), **more), 1

    def row(*cells, head=False):
        return [SimpleNamespace(text=c, bbox=None, column_header=head) for c in cells]

    grid = [row("Item", "Price", head=True), row("Rope", "3")]
    table = SimpleNamespace(
        label="table", prov=[place(2, 10, 90, 50, 80)], data=SimpleNamespace(grid=grid)
    )
    size = SimpleNamespace(width=100.0, height=100.0)
    items = [
        item("page_header", "Journal of Canals", place(1, 10, 98, 50, 96)),
        item("title", "On Pilots", place(1, 10, 90, 50, 80)),
        item("section_header", "Ships", place(1, 10, 70, 50, 65), level=1),
        item("text", "They sail far.", place(1, 10, 60, 50, 50), place(2, 10, 99, 50, 95, 5)),
        (table, 1),
    ]
    parsed = from_docling(
        SimpleNamespace(
            iterate_items=lambda: items,
            pages={1: SimpleNamespace(size=size), 2: SimpleNamespace(size=size)},
        )
    )
    assert parsed.title == "On Pilots"
    assert [str(block.text) for block in parsed.blocks] == [
        "Ships",
        "They sail far.",
        "Item: Rope; Price: 3",
    ]
    start, end = parsed.blocks[1].text.source_span(0, len("They sail far."))
    assert parsed.text[start:end] == "They sail far."
    boxes = parsed.layout.locate([(start, end)])[0]
    assert [tuple(box) for box in boxes] == [(1, 10, 40, 50, 50), (2, 10, 1, 50, 5)]


def test_docling_needs_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "docling.document_converter", None)
    monkeypatch.setitem(sys.modules, "docling.datamodel.base_models", None)
    with pytest.raises(ImportError, match=r"pip install 'foveate\[docling\]'"):
        document_of(letter("Words."), engine="docling")
