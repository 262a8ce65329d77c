"""Real documents, where they are at hand."""

import gzip
import json
import re
from itertools import islice

from foveate.documents import Document
from tests.paths import shared


def records(path, every):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in islice(lines, 0, None, every):
            yield json.loads(line)


def test_war_and_peace():
    document = Document.from_file(shared("data/books/war_and_peace.txt.gz"))
    leading, *books = document.sections
    assert [len(book.sections) for book in books] == [
        *(28, 21, 19, 16, 22, 26, 13, 22, 23, 39, 34, 16, 19, 19, 20),
        *(16, 12),
    ]
    assert books[0].title == "BOOK ONE: 1805"
    assert [book.title for book in books[15:]] == ["FIRST EPILOGUE: 1813 - 20", "SECOND EPILOGUE"]
    assert leading.title == ""
    for sentence in document.sentences():
        assert " ".join(document.text[sentence.start : sentence.end].split()) == sentence.text


def test_moby_dick():
    titles = [s.title for s in Document.from_file(shared("data/books/moby_dick.txt.gz")).sections]
    assert titles[:3] == ["", "ETYMOLOGY.", "EXTRACTS. (Supplied by a Sub-Sub-Librarian)."]
    assert titles[3] == "EXTRACTS."
    assert [title.split(".")[0] for title in titles[4:-1]] == [
        f"CHAPTER {number}" for number in range(1, 136)
    ]
    assert titles[-1] == "Epilogue"


def test_peps():
    for pep in records(shared("data/peps/train.jsonl.gz"), every=20):
        if pep["id"] == "pep-0210":
            continue  # a header and nothing else
        document = Document.from_text(pep["text"], format="rst", source=pep["id"])
        assert document.title in " ".join(pep["text"].replace("\\", "").split())
        end = 0
        for sentence in document.sentences():
            assert end <= sentence.start < sentence.end
            end = sentence.end


def test_papers():
    for paper in records(shared("data/scisummnet/train.jsonl.gz"), every=50):
        sections = [(section["heading"], section["sentences"]) for section in paper["sections"]]
        document = Document.from_sections(paper["title"], sections)
        for sentence in document.sentences():
            assert document.text[sentence.start : sentence.end] == sentence.text


def test_meetings():
    for meeting in records(shared("data/qmsum/train.jsonl.gz"), every=20):
        document = Document.from_text(json.dumps(meeting), format="json")
        spoken = {turn["speaker"].strip() for turn in meeting["turns"]}
        assert {paragraph.speaker for paragraph in document.paragraphs()} <= spoken
        for sentence in document.sentences():
            written = document.text[sentence.start : sentence.end]
            assert "{" not in sentence.text
            words = iter(re.findall(r"\S+", written))
            assert all(word in words for word in sentence.text.split())  # in this order
