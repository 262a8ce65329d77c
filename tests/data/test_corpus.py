import gzip
import json
import pickle

import pytest

from foveate import Document, DocumentError
from foveate.data import Corpus, Query

LINES = [
    {"title": "A", "sections": [{"heading": "One", "sentences": ["Cod swim.", "They eat."]}]},
    {"text": "# B\n\nEels are long.", "format": "markdown"},
    {"text": "Rays glide."},
    {"turns": [{"speaker": "X", "text": "Let us begin ."}]},
    {"title": "Cod", "section_titles": ["Introduction"], "section_texts": ["Cod swim."]},
    Document.from_sections("C", [("Two", "Whales dive.")]).to_dict(),
]


def first_sentence(example):
    return next(example.document.sentences()).text


@pytest.mark.parametrize("compressed", [False, True])
def test_every_form_of_line_is_read(compressed, tmp_path):
    text = "\n\n".join(json.dumps(line) for line in LINES).encode()
    file = tmp_path / ("c.jsonl.gz" if compressed else "c.jsonl")
    file.write_bytes(gzip.compress(text) if compressed else text)
    corpus = Corpus(file)
    assert len(corpus) == len(corpus.sizes) == 6
    found = [first_sentence(corpus[i]) for i in (0, 1, 2, 3, 5)]
    assert found == ["Cod swim.", "Eels are long.", "Rays glide.", "Let us begin .", "Whales dive."]
    assert corpus[4].document.sections[0].title == "Introduction"
    assert corpus[0].document.sections[0].title == "One"
    assert corpus.sizes[2] == len(json.dumps(LINES[2]))


def test_files_folders_and_patterns(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.md").write_text("# A\n\nCod swim.")
    (tmp_path / "b.txt").write_text("Eels are long.")
    (tmp_path / "c.jsonl").write_text(json.dumps(LINES[2]))
    assert {first_sentence(example) for example in Corpus(tmp_path)} == {
        "Cod swim.",
        "Eels are long.",
        "Rays glide.",
    }
    assert len(Corpus([tmp_path / "*.txt", tmp_path / "*.jsonl"])) == 2
    assert len(Corpus(tmp_path / "**" / "*.md")) == 1
    with pytest.raises(FileNotFoundError, match=r"\*\.html does not exist"):
        Corpus(tmp_path / "*.html")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(FileNotFoundError, match="holds no document"):
        Corpus(tmp_path / "empty.jsonl")


def test_labels_of_sections(tmp_path):
    nested = {"heading": "Two", "sentences": ["They eat.", "Often."]}
    line = {"sections": [{"heading": "One", "sentences": ["Cod swim."], "sections": [nested]}]}
    line |= {"section_labels": ["a", ["b", "c"]]}
    (tmp_path / "c.jsonl").write_text(json.dumps(line))
    [example] = Corpus(tmp_path / "c.jsonl")
    assert example.section_labels == (("a",), ("b", "c"))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("section_labels", [["a"]] * 2, "one list for each of the document's 1 sections, got 2"),
        ("section_labels", "a", "section_labels: .* got 'a'"),
        ("section_labels", [3], "section_labels: 0: .* got 3"),
    ],
)
def test_labels_of_parts_that_do_not_fit(field, value, message, tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({**LINES[0], field: value}))
    with pytest.raises(DocumentError, match=f"line 1 of .*{message}"):
        list(Corpus(tmp_path / "c.jsonl"))


def test_related_documents(tmp_path):
    file = tmp_path / "t.jsonl"
    pair = {"anchor": LINES[0], "positive": LINES[1]}
    file.write_text(json.dumps(pair) + "\n" + json.dumps({**pair, "negative": LINES[2]}) + "\n")
    assert [len(example.related) for example in Corpus(file)] == [1, 2]


def test_what_a_task_has(tmp_path):
    file = tmp_path / "t.jsonl"
    task = {"query": "Who?", "choices": ["x", "y"], "references": ["y"], "labels": ["a"]}
    file.write_text(json.dumps(LINES[0]) + "\n" + json.dumps({**LINES[0], **task}))
    bare, asked = Corpus(file)
    assert (bare.query, bare.choices, bare.references, bare.labels) == ("", (), (), ())
    assert (asked.query, asked.choices) == ("Who?", ("x", "y"))
    assert (asked.references, asked.labels) == (("y",), ("a",))


def test_sentences_that_are_given_are_not_split_and_sections_nest(tmp_path):
    inner = {"title": "Food", "sentences": ["They eat. Herring, etc. and so on"]}
    outer = {"heading": "Cod", "sentences": ["Cod swim. Far."], "sections": [inner]}
    line = {"title": "Fish", "sections": [outer], "license": "CC0", "language": "en"}
    (tmp_path / "t.jsonl").write_text(json.dumps(line))
    [example] = Corpus(tmp_path / "t.jsonl")
    assert [path for path, _ in example.document.walk()] == [("Cod",), ("Cod", "Food")]
    assert [sentence.text for sentence in example.document.sentences()] == [
        "Cod swim. Far.",
        "They eat. Herring, etc. and so on",
    ]
    assert example.document.language == "en"


def test_a_language_that_is_given_is_not_detected(tmp_path):
    lines = [{"text": "Cod swim. They eat.", "language": "de"}, {**LINES[3], "language": "fr"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [one.document.language for one in Corpus(tmp_path / "t.jsonl")] == ["de", "fr"]


def test_queries_with_the_sentences_that_answer_them(tmp_path):
    queries = [{"text": "Who eats?", "sentence_ids": [1]}, {"text": "Cod", "sentence_ids": [0, 1]}]
    (tmp_path / "t.jsonl").write_text(json.dumps({**LINES[0], "queries": queries}))
    [example] = Corpus(tmp_path / "t.jsonl")
    assert example.queries == (Query("Who eats?", (1,)), Query("Cod", (0, 1)))


@pytest.mark.parametrize(
    ("queries", "reason"),
    [
        (
            [{"text": "Who?", "sentence_ids": [1, 2]}],
            "sentence_ids of the query 'Who\\?' must be between 0 and 1, "
            "as the document has 2 sentences, got .1, 2.",
        ),
        ([{"text": "Who?", "sentence_ids": [-1]}], "must be between 0 and 1"),
        ([{"text": "Who?"}], "queries: 0: sentence_ids: Field required"),
        ([{"text": 5, "sentence_ids": [0]}], "queries: 0: text: .* got 5"),
        ([{"text": "Who?", "sentence_ids": [0.5]}], "queries: 0: sentence_ids: 0: .* got 0.5"),
        (["Who?"], "queries: 0: .* got 'Who?"),
        ("Who?", "queries: .* got 'Who"),
    ],
)
def test_queries_of_another_form(queries, reason, tmp_path):
    (tmp_path / "t.jsonl").write_text(json.dumps({**LINES[0], "queries": queries}))
    with pytest.raises(ValueError, match=rf"line 1 of .*t\.jsonl is not a document: .*{reason}"):
        list(Corpus(tmp_path / "t.jsonl"))


def test_a_text_stands_for_a_list_of_one(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({**LINES[0], "references": "All cod swim", "labels": "3"}))
    [example] = Corpus(file)
    assert (example.references, example.labels) == (("All cod swim",), ("3",))
    file.write_text(json.dumps({**LINES[0], "labels": [3]}))
    with pytest.raises(DocumentError, match=r"labels: 0: .* got 3"):
        Corpus(file)[0]


def test_a_corpus_takes_one_index_at_a_time(corpus_file):
    with pytest.raises(TypeError, match="one index at a time: give an integer, got slice"):
        Corpus(corpus_file)[0:1]


@pytest.mark.parametrize(
    "line",
    [
        *("{", '{"title": "no text"}', "[1]", '{"text": ""}', '{"title": ["x"], "text": "Cod."}'),
        '{"title": 5, "sections": [["A", "Cod."]]}',
        '{"text": "Cod.", "query": 5}',
        '{"text": "Cod.", "language": 5}',
        '{"sections": [{"heading": "A", "sentences": ["Cod \\ud800."]}]}',
    ],
)
def test_a_line_that_is_no_document_is_named(line, tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps(LINES[2]) + "\n" + line)
    with pytest.raises(DocumentError, match=r"line 2 of .*c\.jsonl is not a document: "):
        Corpus(file)[1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", r"it must be an object, got \[1\]"),
        (b'{"anchor": {"text": "Cod."}, "negative": {"text": "Eels."}}', "it .* no positive"),
        (b'{"anchor": "Cod.", "positive": "Rays."}', "a document must be an object, got 'Cod.'"),
        (b"Cod.", r"it is not valid JSON \(Expecting value\)"),
        ('{"text": "Café."}'.encode("latin1"), "it is not valid UTF-8"),
    ],
)
def test_a_line_in_another_format_is_named(line, reason, tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_bytes(json.dumps(LINES[2]).encode() + b"\n" + line)
    with pytest.raises(DocumentError, match=f"line 2 of .*c.jsonl is not a document: {reason}"):
        Corpus(file)[1]
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DocumentError, match="give it some text"):
        Corpus(tmp_path / "empty.txt")[0]


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(json.dumps(LINES[2]).encode())
    for damaged in (whole[:-9], whole[:15] + b"xx" + whole[17:], b"Hello."):
        (tmp_path / "c.jsonl.gz").write_bytes(damaged)
        with pytest.raises(DocumentError, match=r"c\.jsonl\.gz is not a whole gzip file"):
            Corpus(tmp_path / "c.jsonl.gz")


def test_a_worker_started_anew_can_read(corpus_file):
    corpus = Corpus(corpus_file)
    assert first_sentence(pickle.loads(pickle.dumps(corpus))[3]) == first_sentence(corpus[3])


def test_hidden_files_of_a_folder_are_skipped(tmp_path):
    (tmp_path / "cod.txt").write_text("Cod swim.")
    (tmp_path / ".DS_Store").write_bytes(b"\0\1")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    assert [example.document.text for example in Corpus(tmp_path)] == ["Cod swim."]


# As in the published doc/data_format.md of unarXive, shortened.
UNARXIVE = {
    "paper_id": "2105.05862",
    "_pdf_hash": None,
    "metadata": {"id": "2105.05862", "title": "Gravitational\n  memory"},
    "discipline": "Physics",
    "abstract": {"section": "Abstract", "text": "  We study memory.\n", "cite_spans": []},
    "body_text": [
        {
            "section": "Introduction",
            "sec_number": "1",
            "sec_type": "section",
            "content_type": "paragraph",
            "text": "Waves leave a memory {{cite:bc9a8c}}. It is known.",
            "cite_spans": [],
            "ref_spans": [],
        },
        {
            "section": "Introduction",
            "sec_number": "1",
            "sec_type": "section",
            "content_type": "paragraph",
            "text": "The source is {{formula:7fd8-91}} here.",
            "cite_spans": [],
            "ref_spans": [],
        },
        {
            "section": "Memory wave form",
            "sec_number": "2.1",
            "sec_type": "subsection",
            "content_type": "paragraph",
            "text": "The gauge choice is not complete.",
            "cite_spans": [],
            "ref_spans": [],
        },
    ],
    "bib_entries": {},
    "ref_entries": {"7fd8-91": {"latex": "S_{\\mu \\nu }", "type": "formula"}},
}
HUPD = {
    "application_number": "13530119",
    "title": "FISH TRAP",
    "decision": "ACCEPTED",
    "abstract": "A trap for cod.",
    "claims": "1. A trap for cod. 2. The trap of claim 1, of wire.",
    "background": "Traps were of wood.",
    "summary": "The trap is of wire.",
    "full_description": "Traps were of wood.\n\nThe trap is of wire.\n\nFIG. 1 shows a trap.",
}


def test_papers_of_unarxive_as_published(tmp_path):
    (tmp_path / "arXiv_src_2105_034.jsonl").write_text(json.dumps(UNARXIVE) + "\n")
    [example] = Corpus(tmp_path)
    assert (example.id, example.document.title) == ("2105.05862", "Gravitational memory")
    titles = ["Abstract", "Introduction", "Memory wave form"]
    assert [section.title for section in example.document.sections] == titles
    text = example.document.text
    assert "The source is S_{\\mu \\nu } here." in text
    assert "{{" not in text
    assert len(list(example.document.sections[1].paragraphs)) == 2


@pytest.mark.parametrize("name", ["13530119.json", "applications.jsonl"])
def test_applications_of_hupd_as_published(name, tmp_path):
    (tmp_path / name).write_text(json.dumps(HUPD))
    [example] = Corpus(tmp_path)
    assert example.document.title == "FISH TRAP"
    titles = ["Abstract", "Background", "Summary", "Description", "Claims"]
    assert [section.title for section in example.document.sections] == titles
    assert example.document.text.count("Traps were of wood.") == 1
    assert "FIG. 1 shows a trap." in example.document.text


def test_a_damaged_application_is_named(tmp_path):
    (tmp_path / "1.json").write_text(json.dumps(HUPD | {"full_description": 3}))
    with pytest.raises(DocumentError, match=r"1\.json is not an application of HUPD"):
        Corpus(tmp_path)[0]
