"""The sentences around results."""

import pytest

from foveate import Document
from foveate.tasks.surroundings import surroundings

TEXT = """# Fish

## Cod

Cod swim. They eat. They sleep.

They breed. They die.

| item | price |
|------|-------|
| cod  | 4     |
| eel  | 9     |

## Eel

Eels are long. Nobody knows why.
"""


@pytest.fixture
def document():
    return Document.from_text(TEXT, format="markdown")


def shown(document, text, number):
    [span] = [span for span in document.spans() if span.text == text]
    [near] = surroundings(document, [span], number)
    assert [one.span.text for one in near if one.is_marked] == [text]
    return [one.span.text for one in near]


def test_neighbours_on_both_sides(document):
    assert shown(document, "They eat.", 1) == ["Cod swim.", "They eat.", "They sleep."]
    assert shown(document, "They eat.", 0) == ["They eat."]


def test_neighbours_are_of_the_same_section(document):
    assert shown(document, "Cod swim.", 1) == ["Cod swim.", "They eat."]
    assert shown(document, "Eels are long.", 5) == ["Eels are long.", "Nobody knows why."]
    assert shown(document, "They die.", 9)[0] == "Cod swim."
    assert "Eels are long." not in shown(document, "They die.", 9)


def test_paragraphs_open_lines(document):
    spans = [span for span in document.spans() if span.text == "They sleep."]
    [near] = surroundings(document, spans, 1)
    assert [one.separator for one in near] == [" ", " ", "\n"]


def test_a_passage_of_several_sentences(document):
    first, *_, last = [span for span in document.spans() if span.path[-1] == "Eel"]
    passage = document.span(first.start, last.end, path=first.path)
    [near] = surroundings(document, [passage], 0)
    assert [one.is_marked for one in near] == [True, True]


def test_a_part_of_a_sentence(document):
    [sentence] = [span for span in document.spans() if span.text == "Eels are long."]
    word = document.span(sentence.start + 5, sentence.start + 8)
    [near] = surroundings(document, [word], 0)
    assert [one.span.text for one in near] == ["Eels are long."]


def test_only_a_part_of_a_result_is_marked(document):
    first, last = [span for span in document.spans() if span.path[-1] == "Eel"]
    passage = document.span(first.start, last.end, path=first.path)
    [near] = surroundings(document, [passage], 0, [last])
    assert [one.is_marked for one in near] == [False, True]


def test_chinese_has_no_spaces_between_sentences():
    document = Document.from_text("鳕鱼在游泳。它们吃小鱼。", language="zh")
    [near] = surroundings(document, document.spans()[1:], 1)
    assert [one.separator for one in near] == ["\n", ""]


def test_the_number_is_not_negative(document):
    with pytest.raises(ValueError, match="at least 0, got -1"):
        surroundings(document, [], -1)
