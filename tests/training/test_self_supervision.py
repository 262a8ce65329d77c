"""What is asked about a document, and what of it the model sees, compared by their words.

Every sentence, heading and question has words of its own, so that a text says where it is from.
"""

import re

import pytest
import torch

from foveate import Document
from foveate.data import Example, Query
from foveate.training.objectives.self_supervision import read

SECTIONS = {"A": range(2, 6), "B": range(6, 9), "B1": range(9, 12), "C": range(12, 13)}


def sentence(i):
    return " ".join(f"word{i}{letter}" for letter in "abcdef") + "."


def texts(numbers):
    return [sentence(i) for i in numbers]


ABSTRACT = range(2)
EXAMPLE = Example(
    document=Document.from_sections(
        "Title of all",
        [
            ("Abstract", texts(ABSTRACT)),
            ("1. Heading A", texts(SECTIONS["A"])),
            ("Heading B", texts(SECTIONS["B"]), [("2.1 Heading B1", texts(SECTIONS["B1"]))]),
            ("Heading C", texts(SECTIONS["C"])),
        ],
    ),
    references=(" ".join(texts(ABSTRACT)),),
    queries=(Query("Question of three", (3, 7)), Query("Question of the abstract", (0,))),
)


def readings(example=EXAMPLE, max_queries=2, number=60):
    for seed in range(number):
        yield read(example, None, torch.Generator().manual_seed(seed), max_queries, max_queries)


def number_of(text):
    """The number of the sentence that a text is from, None for other texts."""
    found = re.match(r"word(\d+)[a-f]", text)
    return None if found is None else int(found[1])


def found_by(reading, query):
    """The sentences, the headings' sections (by their sentences) and the documents found."""
    anchors = reading.anchors
    sentences, sections, documents = [], [], []
    for i in query.finds:
        if anchors[i].kind == "sentence":
            sentences.append(number_of(anchors[i].text))
        elif anchors[i].kind == "document":
            documents.append(i)
        else:
            sections.append(i)
    return sentences, sections, documents


def shown(reading):
    return [number_of(x.text) for x in reading.anchors if number_of(x.text) is not None]


def below(reading, section):
    """The sentences below an anchor."""
    inside, numbers = {section}, []
    for i, anchor in enumerate(reading.anchors):
        if anchor.parent in inside:
            inside.add(i)
            if (number := number_of(anchor.text)) is not None:
                numbers.append(number)
    return numbers


def test_readings_are_trees_of_what_is_left():
    for reading in readings():
        anchors = reading.anchors
        assert (anchors[0].kind, anchors[0].parent) == ("document", -1)
        assert all(0 <= x.parent < i for i, x in enumerate(anchors) if i)
        assert shown(reading) == sorted(shown(reading))
        for anchor in anchors:
            if anchor.sentence_idx is not None:
                assert anchor.text == sentence(anchor.sentence_idx)
        assert all(query.text.strip() for query in reading.queries)
        assert all(0 <= i < len(anchors) for query in reading.queries for i in query.finds)


def test_headings_are_left_out_and_ask_for_what_is_below_them():
    asked = set()
    for reading in readings(max_queries=8):
        texts_shown = [anchor.text for anchor in reading.anchors]
        for query in reading.queries:
            if query.text == "Title of all":
                assert query.finds == (0,)
            if not (heading := re.fullmatch(r"Heading (\w+)", query.text)):
                continue
            asked.add(heading[1])
            # It was asked without its number, and no form of it is left in the input.
            assert not any(text.endswith(query.text) for text in texts_shown)
            numbers, sections, documents = found_by(reading, query)
            assert documents == []
            own = SECTIONS[heading[1]]
            inside = {*own, *SECTIONS["B1"]} if heading[1] == "B" else set(own)
            expected = [i for i in shown(reading) if i in inside]
            if len(expected) < 2:
                assert query.finds == ()
            else:
                assert numbers == expected
                assert [below(reading, i) for i in sections] == [expected]
    assert asked == SECTIONS.keys()


@pytest.mark.parametrize("max_queries", [2, 8])
def test_sentences_ask_for_themselves_or_for_their_neighbors(max_queries):
    num_left_out = 0
    for reading in readings(max_queries=max_queries):
        for query in reading.queries:
            number = number_of(query.text)
            numbers, sections, documents = found_by(reading, query)
            if number is None or not query.finds:
                continue
            assert set(query.text.split()) <= set(sentence(number).split())  # thinned
            assert sections == []
            if number in shown(reading):
                assert (numbers, documents) == ([number], [])
                continue
            num_left_out += 1
            assert documents == [0]
            own = next(own for own in (ABSTRACT, *SECTIONS.values()) if number in own)
            near = [i for i in shown(reading) if i in own]
            before, after = [i for i in near if i < number][-1:], [i for i in near if i > number]
            assert sorted(numbers) == before + after[:1]
    assert num_left_out > 0


def test_the_abstract_is_left_out_whole_or_not_at_all_and_then_asks_for_the_document():
    with_abstract = without = 0
    for reading in readings(max_queries=8):
        text = " ".join(anchor.text for anchor in reading.anchors)
        of_reference = [x for x in reading.queries if x.text in texts(ABSTRACT)]
        if set(ABSTRACT) <= set(shown(reading)):
            with_abstract += 1
            assert not any(0 in query.finds for query in of_reference)
            best = {number_of(reading.anchors[i].text) for i in reading.salient}
            assert best == set(ABSTRACT)
        else:
            without += 1
            assert not re.search(r"word[01][a-f]|Abstract", text)
            assert not any(query.text == "Abstract" for query in reading.queries)
            assert {query.text for query in of_reference} == set(texts(ABSTRACT))
            assert all(query.finds == (0,) for query in of_reference)
    assert min(with_abstract, without) > 15


def test_given_queries_ask_for_the_sentences_that_are_left():
    for reading in readings():
        for query in reading.queries:
            if query.text == "Question of three":
                assert found_by(reading, query)[0] == [i for i in (3, 7) if i in shown(reading)]
            if query.text == "Question of the abstract":
                assert found_by(reading, query)[0] == [i for i in (0,) if i in shown(reading)]


def test_there_are_not_too_many_queries():
    plain = Example(document=EXAMPLE.document)
    for reading in readings(plain, max_queries=2, number=10):
        assert len(reading.queries) <= 2 + 2 + 1
        assert reading.salient == frozenset()
        assert any(not query.finds for query in reading.queries)  # read for its own sake


def test_readings_depend_on_the_generator_alone():
    first, again = (list(readings(number=5)) for _ in range(2))
    assert first == again
    assert len({str(reading) for reading in first}) == 5
