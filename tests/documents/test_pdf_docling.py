"""The mapping of docling's documents, with a stand-in: its models cannot be had offline."""

import sys
from types import SimpleNamespace

import pytest

from foveate.documents.readers.pdf.models import from_docling
from tests.documents.pdfs import document_of, letter


def test_documents_of_docling_are_mapped():
    pages = {
        1: "# On Pilots\n\n## Ships\n\nThey sail far.",
        2: "| Item | Price |\n|------|-------|\n| Rope | 3 |",
    }
    parsed = from_docling(
        SimpleNamespace(pages=pages, export_to_markdown=lambda page_no: pages[page_no])
    )
    assert parsed.title == "On Pilots"
    heading, *paragraphs = parsed.blocks
    assert heading.text == "Ships"
    assert [(str(one.text), one.kind, one.place) for one in paragraphs] == [
        ("They sail far.", "prose", "page 1"),
        ("Item: Rope; Price: 3", "table", "page 2"),
    ]


def test_docling_needs_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "docling.document_converter", None)
    monkeypatch.setitem(sys.modules, "docling.datamodel.base_models", None)
    with pytest.raises(ImportError, match=r"pip install 'foveate\[docling\]'"):
        document_of(letter("Words."), engine="docling")
