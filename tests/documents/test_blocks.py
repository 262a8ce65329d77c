"""What readers share: tables in words, texts composed of blocks, kinds of paragraphs."""

import pytest

from foveate.documents import Document, DocumentError, Landmark
from foveate.documents.blocks import (
    Heading,
    MappedText,
    ParsedText,
    Prose,
    build_sections,
    compose_text,
    landmarks,
    table_row,
)

SOURCE = "Item | Price\nSupport | 450 euros\nLicence | \n"


def cell(text):
    start = SOURCE.index(text)
    return MappedText.from_text(text, start)


def test_a_row_of_a_table_is_said_with_its_heads():
    row = table_row([cell("Item"), cell("Price")], [cell("Support"), cell("450 euros")])
    assert str(row) == "Item: Support; Price: 450 euros"
    start, end = row.source_span(0, len(str(row)))
    assert SOURCE[start:end] == "Support | 450 euros"


def test_a_row_without_heads_is_its_cells_and_empty_cells_are_left_out():
    assert str(table_row([], [cell("Support"), MappedText(), cell("450 euros")])) == (
        "Support; 450 euros"
    )
    assert not table_row([cell("Item")], [MappedText()])


def test_rows_form_one_paragraph_of_a_sentence_each():
    rows = [
        Prose(cell("Support | 450 euros"), kind="table"),
        Prose(cell("Licence |"), kind="table"),
    ]
    blocks = [Prose(cell("Item")), *rows, Prose(cell("Price")), Prose(cell("450"), kind="code")]
    [section] = build_sections(blocks, "en")
    kinds = [(paragraph.kind, len(paragraph.sentences)) for paragraph in section.paragraphs]
    assert kinds == [("prose", 1), ("table", 2), ("prose", 1), ("code", 1)]


def test_composed_texts_hold_headings_and_paragraphs():
    text = "<h1>A  title</h1> <p>Some\n text. More.</p>"
    start = text.index("Some")
    prose = Prose(MappedText.from_text(text[start : start + 17], start), place="cell 2")
    code = Prose(MappedText.from_text("if x:\n    y"), kind="code")
    parsed = compose_text("A title", [Heading(1, "A  title"), prose, code])
    assert parsed.text == "A title\n\nSome text. More.\n\nif x:\n    y"
    sections = build_sections(parsed.blocks, "en")
    sentences = [
        sentence for paragraph in sections[0].paragraphs for sentence in paragraph.sentences
    ]
    assert [parsed.text[s.start : s.end] for s in sentences[:2]] == ["Some text.", "More."]
    assert landmarks(parsed) == ((9, "cell 2"),)


def test_kinds_and_landmarks_survive_a_round_trip():
    sections = build_sections([Prose(cell("Support"), kind="footnote")], "en")
    document = Document("", sections, SOURCE, landmarks=(Landmark(13, "paragraph 1"),))
    assert Document.from_dict(document.to_dict()) == document
    assert document.spans()[0].place == "paragraph 1"
    damaged = document.to_dict()
    damaged["sections"][0]["paragraphs"][0]["kind"] = "poem"
    with pytest.raises(DocumentError, match="poem"):
        Document.from_dict(damaged)


def test_readers_of_text_point_into_the_text_they_were_given():
    assert ParsedText(None, []).text is None
