"""Jupyter notebooks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.documents import Document, DocumentError

CELLS = [
    {"cell_type": "markdown", "source": ["# Fish\n", "\n", "Cod swim. *They* eat."]},
    {
        "cell_type": "code",
        "source": "import fish\n\nfor one in fish:\n    one.swim()",
        "outputs": [{"text": "an output"}],
    },
    {"cell_type": "raw", "source": "raw text"},
    {"cell_type": "markdown", "source": "## Eels\n\n- long\n- thin"},
]


def notebook(cells, **fields):
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | fields)


def test_cells():
    document = Document.from_bytes(notebook(CELLS).encode())  # recognized by its content
    assert document.title == "Fish"
    assert [section.title for section in document.sections] == ["", "Eels"]
    texts = [one.text for one in document.sentences()]
    assert texts[:3] == [
        "Cod swim.",
        "They eat.",
        "import fish\n\nfor one in fish:\n    one.swim()",
    ]
    assert "    one.swim()" in document.text
    assert [p.kind for p in document.paragraphs()][:2] == ["prose", "code"]
    places = [span.place for span in document.spans()]
    assert places[:3] == ["cell 1", "cell 1", "cell 2"]
    assert set(places[3:]) == {"cell 4"}
    assert "an output" not in document.text


def test_a_heading_in_a_later_cell_keeps_its_level():
    cells = [
        {"cell_type": "markdown", "source": f"{'#' * level} H{level}\n\nText."}
        for level in (2, 3, 2)
    ]
    paths = [path for path, _ in Document.from_text(notebook(cells), format="notebook").walk()]
    assert paths == [("H2",), ("H2", "H3"), ("H2",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a notebook"),
        ("[" * 100_000, "is not a notebook"),
        ('{"cells": {}}', "has no cells"),
        ("[1]", "has no cells"),
        (notebook([{"cell_type": "code", "source": ""}, 3]), "no sentence"),
    ],
)
def test_what_is_no_notebook(text, message):
    with pytest.raises(DocumentError, match=message):
        Document.from_text(text, format="notebook")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)))
def test_every_cell_is_found_in_its_place(sources):
    kinds = ["markdown", "code"]
    cells = [
        {"cell_type": kinds[index % 2], "source": source} for index, source in enumerate(sources)
    ]
    try:
        document = Document.from_text(notebook(cells), format="notebook")
    except DocumentError:
        return
    end = 0
    for span in document.spans():
        assert end <= span.start < span.end <= len(document.text)
        assert int(span.place.removeprefix("cell ")) <= len(cells)
        end = span.end
