"""The places of words on pages."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.documents import Box, Document, DocumentError
from foveate.documents.layout import pack_layout, unpack_layout
from tests.documents.layouts import PlacedWord, layout_of

coordinates = st.integers(0, 500)


@st.composite
def layouts(draw):
    """Draw a text and its words, line by line; lines change at random, pages with lines only."""
    words, start, line, page = [], 0, 0, 1
    for length in draw(st.lists(st.integers(1, 5), min_size=1, max_size=30)):
        left, top = draw(coordinates), draw(coordinates)
        right, bottom = left + draw(coordinates), top + draw(coordinates)
        words.append(PlacedWord(start, line, page, left, top, right, bottom))
        start += length + 1
        if draw(st.booleans()):
            line += 1
            page += draw(st.integers(0, 1))
    return start, words, layout_of([(600, 800)] * page, words)


def dense_boxes(words, text_length, start, end):
    """Unite, line by line, the boxes of the words that share a character with the stretch."""
    ends = [word.start for word in words[1:]] + [text_length]
    touched = [
        word
        for word, word_end in zip(words, ends, strict=True)
        if word.start < end and start < word_end
    ]
    lines = dict.fromkeys(word.line for word in touched)
    return tuple(
        Box(
            next(word.page for word in touched if word.line == line),
            min(word.left for word in touched if word.line == line),
            min(word.top for word in touched if word.line == line),
            max(word.right for word in touched if word.line == line),
            max(word.bottom for word in touched if word.line == line),
        )
        for line in lines
    )


@given(layouts(), st.data())
def test_a_stretch_has_one_box_for_each_line(drawn, data):
    length, words, layout = drawn
    starts = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=5))
    spans = [(start, data.draw(st.integers(start + 1, length))) for start in starts]
    assert layout.locate(spans) == [dense_boxes(words, length, *span) for span in spans]


@given(layouts())
def test_layouts_survive_json(drawn):
    length, _, layout = drawn
    packed = json.loads(json.dumps(pack_layout(layout)))
    assert unpack_layout(packed, length) == layout


def test_a_document_with_pages_says_where_its_sentences_stand():
    layout = layout_of(
        [(600, 800), (600, 800)],
        [
            PlacedWord(0, 0, 1, 50, 60, 80, 70),
            PlacedWord(4, 1, 2, 50, 90, 90, 100),
            PlacedWord(10, 1, 2, 95, 90, 120, 100),
        ],
    )
    sections = Document.from_text("Cod swim. They eat.").sections
    document = Document("Sea", sections, "Cod swim. They eat.", layout=layout)
    first, second = document.spans()
    assert (first.page, first.place) == (1, "page 1")
    assert first.boxes == (Box(1, 50, 60, 80, 70), Box(2, 50, 90, 90, 100))
    assert (second.page, second.place) == (2, "page 2")
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document


def test_a_layout_without_words_locates_nothing():
    assert layout_of([(600, 800)], []).locate([(0, 3)]) == [()]


@pytest.mark.parametrize(
    "damage",
    [
        {"starts": None},
        {"starts": [0]},
        {"starts": [5, 0]},
        {"starts": [0, 99]},
        {"pages": [0, 1]},
        {"pages": [1, 2]},
        {"boxes": [[1, 2, 3]]},
        {"boxes": "none"},
    ],
)
def test_damaged_layouts_are_refused(damage):
    words = [PlacedWord(0, 0, 1, 0, 0, 5, 5), PlacedWord(4, 0, 1, 6, 0, 9, 5)]
    packed = pack_layout(layout_of([(600, 800)], words))
    with pytest.raises(DocumentError, match="layout"):
        unpack_layout({**packed, **damage}, 10)


def test_equal_layouts_have_equal_words():
    layout = layout_of([(600, 800)], [PlacedWord(0, 0, 1, 0, 0, 5, 5)])
    assert layout == layout_of([(600, 800)], [PlacedWord(0, 0, 1, 0, 0, 5, 5)])
    assert layout != layout_of([(600, 800)], [PlacedWord(0, 0, 1, 0, 0, 5, 6)])
    assert layout != "a layout"
    assert layout.boxes.dtype == np.float32
