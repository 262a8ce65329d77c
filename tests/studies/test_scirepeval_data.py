"""The reader of SciRepEval."""

import pytest

from scirepeval_data import parse_judgements, parse_labels, parse_papers


def scientific(identity, title, abstract, **more):
    return {"doc_id": identity, "title": title, "abstract": abstract, **more}


def test_papers_of_rankings():
    full = [{"title": "Introduction", "sentences": ["Cod swim.", "They eat."]}]
    cod = scientific("1", "Cod", "Of cod.", full_text=full)
    record = {"query": cod, "candidates": [scientific("2", "Eel", None)]}
    search = {"query": "what swims", "doc_id": "q", "candidates": [cod]}
    papers = dict(parse_papers([("line 1", record), ("line 2", search)]))
    assert [section.title for section in papers["1"].sections] == ["Abstract", "Introduction"]
    assert papers["2"].title == "Eel"
    assert papers["q"].text == "what swims"


def test_papers_are_parsed_once_and_only_if_wanted():
    cod, eel = scientific("1", "Cod", "Of cod."), scientific("2", "Eel", "Of eels.")
    empty = scientific("3", None, None)
    records = [
        ("line 1", {"query": "what swims", "doc_id": "q", "candidates": [empty, cod, eel]}),
        ("line 2", {"query": eel, "candidates": [cod, empty]}),
    ]
    with pytest.warns(UserWarning, match="line 1 is skipped") as warned:
        found = dict(parse_papers(records))
    assert len(warned) == 1
    assert list(found) == ["q", "1", "2"]
    assert [name for name, _ in parse_papers(records, only={"2", "q"})] == ["q", "2"]
    with pytest.raises(ValueError, match=r"line 3 is not a record .*'doc_id' is missing"):
        list(parse_papers([("line 3", {"query": cod, "candidates": [{"title": "Eel"}]})]))


def test_judgements():
    records = [("", {"query_id": 1, "cand_id": name, "score": 1}) for name in "23"]
    assert parse_judgements(records) == {"1": {"2": 1.0, "3": 1.0}}


def test_labels():
    def label(value):
        [found] = parse_labels([("", {"paper_id": 1, "label": value})])
        return found

    assert label("2.5") == ("1", ("2.5",), 2.5)
    assert label("Biology") == ("1", ("Biology",), None)
    assert label("nan").number is None
    assert label(["a", "b"]).names == ("a", "b")
    assert label([1, 0, 1]).names == ("0", "2")
    with pytest.raises(ValueError, match=r"record 2 is not a record .*'label' is missing"):
        list(parse_labels([("record 2", {"paper_id": 1})]))
