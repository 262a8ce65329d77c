import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manuals import (
    Page,
    assembled,
    cleaned_title,
    fair_limit,
    has_structure,
    in_reading_order,
    is_new,
    is_prose,
    page_paths,
    read_page,
    sample,
    sentences,
    stated_license,
    without_asides,
    without_repeated,
)
from structured_documents import count_words
from training_corpus import begins_with, flat, record, write

from foveate import Document
from foveate.data import Corpus, Example, Query

PROSE = "The cod is a fish that swims in the cold water of the north."


def section(title, own, below=()):
    return {"title": title, "sentences": list(own), "sections": list(below)}


def test_a_corpus_keeps_prose_and_the_sentences_of_queries(tmp_path):
    table = "| Fish | Length |\n|---|---|\n| cod | 1 m |\n"
    text = f"# Cod\n\nCod swim.\n\n{table}\nThey eat.\n\n# Lengths\n\n{table}"
    document = Document.from_text(text, format="markdown", title="Fish")
    texts = [sentence.text for sentence in document.sentences()]
    eat = texts.index("They eat.")
    assert eat > 1
    queries = (Query("Food?", (eat,)), Query("Length?", (1,)))
    example = Example(id="1", document=document, references=("Fish.",), queries=queries)
    write(tmp_path / "a.jsonl", [record(example, "Fish", "CC0")])
    [read] = Corpus(tmp_path / "a.jsonl")
    assert (read.id, read.document.title, read.references) == ("1", "Fish", ("Fish.",))
    assert [sentence.text for sentence in read.document.sentences()] == ["Cod swim.", "They eat."]
    assert [path for path, _ in read.document.walk()] == [("Cod",)]
    assert read.queries == (Query("Food?", (1,)),)


def test_a_meeting_without_its_topics_has_the_same_sentences():
    turns = [{"speaker": "Ann", "text": f"Cod {i} swims."} for i in range(3)]
    topics = [{"topic": "Cod", "relevant_text_span": [["0", "1"]]}]
    text = json.dumps({"topics": topics, "turns": turns})
    document = Document.from_text(text, format="json")
    [section] = (one := Document.from_dict(flat({"id": "1", **document.to_dict()}))).sections
    assert section.title == ""
    assert list(one.sentences()) == list(document.sentences())
    assert {paragraph.speaker for paragraph in section.paragraphs} == {"Ann"}


@pytest.mark.parametrize(
    ("titles", "expected"), [("AB", True), ("BAC", True), ("BCA", False), ("", False)]
)
def test_whether_a_paper_begins_with_its_abstract(titles, expected):
    sections = [section(title, [f"Title {title}.", f"{title}: {PROSE}"]) for title in titles]
    assert begins_with(sections, [f"A: {PROSE}", "More."]) is expected
    assert begins_with(sections, [])


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (PROSE, True),
        ("“Cod” (a fish) doesn't swim, it glides.", True),
        ("swim(depth: int = 0, *, speed: float) -> None", False),
        ("See also swim", False),
        ("-v --verbose -q --quiet -h --help prints more", False),
    ],
)
def test_prose(sentence, expected):
    assert is_prose(sentence) is expected


def test_asides_belong_to_the_text_before_them():
    note = section("Note", ["Eels are long."], [section("Rays", ["Rays glide."])])
    parts = [section("Cod", ["Cod swim."], [note]), section("Tip:", ["Look."])]
    assert without_asides(parts) == [
        section("Cod", ["Cod swim.", "Eels are long."], [section("Rays", ["Rays glide."])]),
        section("Tip:", ["Look."]),  # what is before it has a subsection
    ]
    assert without_asides([section("Cod", ["Cod swim."]), section("Tip", ["Look."])]) == [
        section("Cod", ["Cod swim.", "Look."])
    ]


def test_a_page_is_read_without_its_code_and_signatures(tmp_path):
    html = f"""<html><head><title>Cod — Fish 1.2 documentation</title></head><body><main>
        <h1>Cod¶</h1><p>{PROSE}</p><h2>Swimming¶</h2><p>{PROSE} {PROSE}</p>
        <h2>Signatures</h2><p>swim(depth=0) -&gt; None. eat(food=None) -&gt; bool.</p>
        </main></body></html>"""
    (tmp_path / "cod.html.gz").write_bytes(gzip.compress(html.encode()))
    page = read_page(tmp_path / "cod.html.gz")
    assert page.title == "Cod"
    assert [part["title"] for part in page.sections] == ["", "Swimming"]
    german = "<p>Der Kabeljau ist ein Fisch, der in den kalten Gewässern des Nordens schwimmt.</p>"
    (tmp_path / "kabeljau.html").write_text(german * 3)
    assert read_page(tmp_path / "kabeljau.html") is None


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Cod — Fish 1.2 documentation", "Cod"),
        ("Cod (Fish (version 7.3.0))", "Cod"),
        ("5.4. Cod and eels", "5.4. Cod and eels"),
    ],
)
def test_titles_of_pages(title, expected):
    assert cleaned_title(title) == expected


def test_pages_in_english_in_reading_order(tmp_path):
    (tmp_path / "doc" / "api").mkdir(parents=True)
    names = ["z.html", "s10.html", "s9.html", "index.html", "cod.de.html", "genindex.html"]
    for name in [*names, "doc/api/cod.html", "notes.md"]:
        (tmp_path / name).write_text("<p>Cod.</p>")
    (tmp_path / "index.html").write_text('<a href="index.html">Up</a> <a href="./z.html#a">Z</a>')
    ordered = [path.name for path in in_reading_order(page_paths(tmp_path, ""))]
    assert ordered == ["index.html", "z.html", "s9.html", "s10.html"]
    assert [path.name for path in page_paths(tmp_path, r"z\.html$")] == ["z.html"]


def test_pages_that_name_the_next_one(tmp_path):
    for name, following in [("index", "b"), ("b", "a"), ("a", "../c"), ("c", "")]:
        link = f'<link rel="next" href="{following}.html">' if following else ""
        (tmp_path / f"{name}.html").write_text(f"<head>{link}</head><p>Cod.</p>")
    ordered = [path.name for path in in_reading_order(page_paths(tmp_path, ""))]
    assert ordered == ["index.html", "b.html", "a.html", "c.html"]


def pages(folder, sizes):
    return [
        Page(folder / f"{i}.html", f"Page {i}", [section("", [f"word{i} " * size])])
        for i, size in enumerate(sizes)
    ]


def test_small_pages_are_joined(tmp_path):
    large = [section(str(i), ["word " * 600]) for i in range(3)]
    parts = pages(tmp_path, [100, 200, 300])
    parts.insert(2, Page(tmp_path / "large.html", "Large", large))
    joined = list(assembled(parts))
    assert [page.title for page in joined] == ["", "Large", "Page 2"]
    assert [part["title"] for part in joined[0].sections] == ["Page 0", "Page 1"]
    assert [page.num_words for page in joined] == [300, 1800, 300]


def test_chapters_begin_documents_and_large_pages_are_split(tmp_path):
    chapter = Page(tmp_path / "c.html", "Chapter 2. Eels", [section("", ["eel " * 50])])
    first, last = pages(tmp_path, [100, 100])
    joined = list(assembled([first, chapter, last]))
    assert [(page.title, page.num_words) for page in joined] == [
        ("Page 0", 100),
        ("Chapter 2. Eels", 150),
    ]
    parts = [section(f"{i}", [], [section("", ["word " * 5000])] * 2) for i in range(4)]
    split = list(assembled([Page(tmp_path / "a.html", "All", parts)]))
    assert [page.num_words for page in split] == [10_000] * 4


def test_what_pages_repeat_is_left_out(tmp_path):
    many = [
        Page(tmp_path / f"{i}.html", "", [section("", ["Top.", f"Cod {i}."])]) for i in range(9)
    ]
    assert [list(sentences(page.sections)) for page in without_repeated(many)] == [
        [f"Cod {i}."] for i in range(9)
    ]
    seen = set()
    page = Page(tmp_path / "a.html", "", [section("", [PROSE, f"{PROSE} Really.", "Short."])])
    copy = Page(tmp_path / "b.html", "", [section("", [PROSE, f"{PROSE} Really.", "Other one."])])
    assert is_new(page, seen)
    assert not is_new(copy, seen)


def test_licenses_are_left_out(tmp_path):
    parts = [section("Cod", ["Cod swim."]), section("GNU General Public License", [PROSE])]
    page = Page(tmp_path / "a.html", "Cod", parts)
    license = Page(tmp_path / "b.html", "Appendix C. GNU Free Documentation License", parts)
    assert [kept.sections for kept in without_repeated([page, license])] == [parts[:1]]


@pytest.mark.parametrize(
    ("headings", "expected"),
    [("ABC", True), ("AB", False), ("AABBC", True), ("AAAABB", False), (["", "A", "B"], False)],
)
def test_structure(headings, expected):
    nested = [section(headings[0], ["x"], [section(title, ["x"]) for title in headings[1:]])]
    assert has_structure(nested) is expected


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(0, 2000))
def test_a_fair_limit_uses_up_the_total(sizes, total):
    limit = fair_limit(sizes, total)
    used = sum(min(size, limit) for size in sizes)
    assert used <= max(total, 0)
    assert used == sum(sizes) or total - used < len(sizes)


def test_a_sample_depends_on_the_documents_only():
    documents = [{"id": str(i), "sections": [section("", ["word " * 100])]} for i in range(20)]
    chosen = sample(documents, 550)
    assert len(chosen) == 5
    assert {one["id"] for one in sample(documents[::-1], 550)} == {one["id"] for one in chosen}
    assert count_words(chosen[0]["sections"]) == 100


def test_licenses(tmp_path):
    path = tmp_path / "usr/share/doc/cod-doc/copyright"
    path.parent.mkdir(parents=True)
    path.write_text(
        "Format: 1.0\n\nFiles: debian/*\nLicense: Expat\n\n"
        "Files: *\nCopyright: 2001 Cod\nLicense: GPL-2+\n Free.\n"
    )
    assert stated_license(tmp_path, "cod-doc") == "GPL-2+"
    assert stated_license(tmp_path, "eel-doc") == "unknown"
