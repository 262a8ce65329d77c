import gzip
import io
import json
import lzma
import tarfile

import pytest
from structured_documents import (
    answers,
    meetings,
    papers,
    peps,
    plos,
    proposals,
    without_abstract,
)

from foveate import Document
from foveate.data import Example

ABSTRACT = "We study how cod swim in winter, and find that they swim slowly."
BODY = "Cod were first studied in 1801. They eat herring."


def write(path, records):
    content = "\n".join(map(json.dumps, records)).encode()
    path.write_bytes((lzma if path.suffix == ".xz" else gzip).compress(content))
    return path


def texts(document):
    return [sentence.text for sentence in document.sentences()]


def test_papers(tmp_path):
    sections = [
        {"heading": "", "sentences": [ABSTRACT]},
        {"heading": "Empty", "sentences": []},
        {"heading": "1 Introduction", "sentences": ["Cod (cf. Ray, 1801) swim.", "They eat."]},
        {"heading": "2 Again", "sentences": ["In short:", ABSTRACT, *BODY.split(". ")]},
    ]
    record = {
        "id": "P01",
        "title": "Cod",
        "abstract": [ABSTRACT],
        "sections": sections,
        "summary": ["Cod swim.", "Slowly."],
    }
    [paper] = papers(write(tmp_path / "a.jsonl.gz", [record]))
    assert (paper.id, paper.references) == ("P01", ("Cod swim. Slowly.",))
    assert texts(paper.document)[:2] == [ABSTRACT, "Cod (cf. Ray, 1801) swim."]
    assert texts(without_abstract(paper)) == ["Cod (cf. Ray, 1801) swim.", "They eat."]


def test_proposals(tmp_path):
    heading, summary = "- Start: today\n\n", f"# Summary\n\n{ABSTRACT}\n\n## More\n\nMore.\n\n"
    text = f"{heading}{summary}# Motivation\n\n{BODY}\n"
    located = {
        "id": "1.md",
        "source": "fish/rfcs",
        "license": "MIT",
        "format": "markdown",
        "title": "Cod",
        "text": text,
        "abstract": f"{ABSTRACT} More.",
        "abstract_at": [len(heading), len(heading + summary)],
    }
    bare = {**located, "abstract": None, "abstract_at": None}
    first, second = proposals(write(tmp_path / "a.jsonl.xz", [located, bare]))
    assert first.labels == ("fish/rfcs", "MIT")
    assert (first.references, second.references) == ((f"{ABSTRACT} More.",), ())
    assert [path for path, _ in without_abstract(first).walk()] == [("",), ("Motivation",)]
    assert without_abstract(second) == second.document


def pep(number, abstract="Abstract"):
    text = (
        f"PEP: {number}\nTitle: Cod\n\n{abstract}\n========\n\n{ABSTRACT}\n\n"
        f"Motivation\n==========\n\n{BODY}\n"
    )
    return {"id": f"pep-{number:04}", "format": "rst", "text": text}


def test_peps_and_their_parts(tmp_path):
    path = write(tmp_path / "a.jsonl.gz", [pep(i) for i in reversed(range(17))])
    dev, train = [[one.id for one in peps(path, part)] for part in ("dev", "train")]
    assert dev == ["pep-0000", "pep-0008", "pep-0016"]
    assert sorted(dev + train) == [one.id for one in peps(path)]
    example = next(peps(path))
    assert example.references == (ABSTRACT,)
    assert texts(without_abstract(example)) == [f"{part}." for part in BODY[:-1].split(". ")]


def test_a_pep_without_abstract(tmp_path):
    [example] = peps(write(tmp_path / "a.jsonl.gz", [pep(1, "Overview")]))
    assert example.references == ()
    assert without_abstract(example) == example.document


def test_queries_of_meetings_are_mapped_from_turns_to_sentences(tmp_path):
    turns = [
        {"speaker": "A", "text": "Cod swim. They eat ?"},
        {"speaker": "B", "text": "{vocalsound}"},  # is left out of the document
        {"speaker": "B", "text": 'Herring, "I think" … 鱈 .'},
        {"speaker": "A", "text": "Eels are long."},
        {"speaker": "B", "text": "Rays glide."},
    ]
    record = {
        "id": "M1",
        "domain": "product",
        "topics": [
            {"topic": "Cod", "relevant_text_span": [["0", "2"]]},
            {"topic": "Eels", "relevant_text_span": [["3", "3"]]},
        ],
        "turns": turns,
        "queries": [
            {"kind": "general", "query": "Summarize", "answer": "Fish."},
            {
                "kind": "specific",
                "query": "Food?",
                "answer": "?",
                "spans": [["1", "2"], ["4", "4"]],
            },
        ],
    }
    path = write(tmp_path / "a.jsonl.gz", [record])
    [meeting] = meetings(path)
    assert (meeting.references, meeting.labels) == (("Fish.",), ("product",))
    assert list(answers(path)) == [("Food?", 'Herring, "I think" … 鱈 . Rays glide.', "?")]
    assert [path for path, _ in meeting.document.walk()] == [("Cod",), ("Eels",), ("",)]
    sentences = texts(meeting.document)
    (query,) = meeting.queries
    assert query.text == "Food?"
    assert [sentences[i] for i in query.sentence_ids] == [
        'Herring, "I think" … 鱈 .',
        "Rays glide.",
    ]


def test_plos(tmp_path):
    article = f"""<article><front><article-meta>
        <title-group><article-title>Cod</article-title></title-group>
        <abstract><sec><title>Background</title><p>{ABSTRACT}</p></sec></abstract>
        <abstract abstract-type="summary"><title>Author Summary</title><p>Cod swim.</p></abstract>
        </article-meta></front>
        <body><sec><title>Introduction</title><p>They eat herring.</p></sec></body></article>"""
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as archive:
        member = tarfile.TarInfo("./journal.1.xml")
        member.size = len(article)
        archive.addfile(member, io.BytesIO(article.encode()))
    [example] = plos(tmp_path / "a.tar.xz")
    assert (example.id, example.references) == ("journal.1", (ABSTRACT,))
    assert texts(without_abstract(example)) == ["They eat herring."]


@pytest.mark.parametrize(("reference", "kept"), [(ABSTRACT, ["Body"]), ("Eels.", ["A", "Body"])])
def test_the_abstract_of_any_example(reference, kept):
    document = Document.from_sections("", [("A", ABSTRACT), ("Body", BODY)])
    left = without_abstract(Example(document=document, references=(reference,)))
    assert [section.title for section in left.sections] == kept
