"""What is found in a library: what `foveate.search` finds in its documents."""

import itertools
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unicodedata import normalize

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate import Document, Encoder, Index, read_documents, search, summarize
from foveate.index import search as library_search
from foveate.index.lance import LanceEngine
from foveate.tasks.surroundings import surroundings
from tests.index.library_check import problems

WORDS = ("cod", "eel", "whale", "foo_bar", "salt", "swims", "sleeps", "the", "under", "v1.2.3")
ROUNDING = 2**-11  # of a cosine with a vector in float16

sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(
    lambda words: " ".join(words).capitalize() + "."
)
texts = st.lists(sentences, max_size=4).map(" ".join)
leaves = st.tuples(st.sampled_from(("", "Food", "Cod and eel")), texts.filter(bool))
sections = st.one_of(
    leaves, st.tuples(st.just("Fish"), texts, st.lists(leaves, min_size=1, max_size=2))
)
libraries = st.lists(st.lists(sections, min_size=1, max_size=3), min_size=1, max_size=4)
queries = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    st.just("Where does the cod sleep?"),
    st.just("Cod sleeps under the whale. What is salt?"),
)


TABLE = """---
author: [Ada L, Ben M]
date: 2020-03
---

# Herring

Herring swim in shoals. They are caught with nets.

| month | catch |
|---|---|
| May | 20 herring |
| June | 30 herring |

Salt keeps them.

## Nets

They are mended.
"""


def assert_same(found, expected, everything, tolerance):
    """Check that hits are those expected, but for the order of scores that are equal."""
    assert len(found) == len(expected)
    scores = {(hit.document_idx, hit.span): (hit.score, hit.best) for hit in everything}
    for hit, other in zip(found, expected, strict=True):
        assert hit.score == pytest.approx(other.score, abs=tolerance)
        score, best = scores[hit.document_idx, hit.span]
        assert hit.score == pytest.approx(score, abs=tolerance)
        assert hit.best.document == best.document


def shown(hit):
    """Return what is shown of a hit besides its span and its score."""
    document = (hit.title, hit.authors, hit.date, hit.language)
    return hit.sentences, hit.section_idx, hit.inside, hit.best_idx, document


@pytest.mark.parametrize("by", ["passage", "section", "document"])
def test_hits_are_complete_as_those_of_search(tmp_path, small_encoder, folder, by):
    (folder / "talk.vtt").write_text(
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ada>Where are the herring?\n\n"
        "00:03.000 --> 00:04.000\n<v Ben>They are in the nets.\n"
    )
    documents = [
        *read_documents(folder),
        Document.from_text(TABLE, format="markdown"),
        Document.from_sections("海", [("魚", "鱈が泳ぐ。鰊を食べる。")], language="ja"),
    ]
    index = Index.create(tmp_path / "library", model=small_encoder)
    index.add(documents)
    for query in ("Where do herring swim?", "鱈は何を食べる?"):
        options = {"by": by, "top_k": 99, "context": 2}
        found = {(hit.span, hit.best): shown(hit) for hit in index.search(query, **options)}
        expected = {
            (hit.span, hit.best): shown(hit)
            for hit in search(query, documents, model=small_encoder, **options)
        }
        assert len(found) > 3
        both = found.keys() & expected.keys()  # scores that are equal but for rounding may differ
        assert len(both) > 0.8 * len(expected)
        assert {place: found[place] for place in both} == {x: expected[x] for x in both}
    with pytest.raises(ValueError, match="context must be at least 0, got -1"):
        index.search("herring", context=-1)


@settings(max_examples=8)
@given(libraries, queries)
def test_hits_are_those_of_search(small_encoder, libraries, query):
    documents = [Document.from_sections(f"Volume {i}", parts) for i, parts in enumerate(libraries)]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(Path(folder) / "library", model=small_encoder)
        index.add(documents)
        assert problems(index) == []
        vectors = F.normalize(small_encoder.encode_queries([query]), dim=-1)
        # The cosines of a random model are all close to those of unrelated sentences.
        tolerance = 1e-4 + ROUNDING / (1 - float(vectors @ small_encoder.unrelated.mean(0)))
        for by in ("passage", "section", "document"):
            everything = search(query, documents, by=by, top_k=10**6, model=small_encoder)
            found = index.search(query, by=by, top_k=10**6)
            assert_same(found, everything, everything, tolerance)
            assert_same(index.search(query, by=by, top_k=2), everything[:2], everything, tolerance)


def test_hits_of_the_default_model_are_those_of_search(tmp_path, folder, encoder):
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(folder)
    documents = list(read_documents(sorted(p for p in folder.rglob("*") if p.is_file())))
    for query, by in itertools.product(
        ("What do fish live on?", "nets in the boat"), ("passage", "section", "document")
    ):
        found = index.search(query, by=by, top_k=3, explain=True)
        expected = search(query, documents, by=by, top_k=3, model=encoder, explain=True)
        assert [(hit.span, hit.best) for hit in found] == [(h.span, h.best) for h in expected]
        assert [hit.matches for hit in found] == [hit.matches for hit in expected]
        assert any(hit.matches for hit in found)
        for hit, other in zip(found, expected, strict=True):
            assert hit.score == pytest.approx(other.score, abs=1e-4)


def test_a_query_that_is_explained_is_encoded_once(tmp_path, folder, encoder, monkeypatch):
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(folder)
    encode, encoded = encoder.encode_query, []
    monkeypatch.setattr(encoder, "encode_query", lambda one: encoded.append(one) or encode(one))
    assert any(hit.matches for hit in index.search("nets in the boat", explain=True))
    assert encoded == ["nets in the boat"]


def test_hits_stay_the_same_whatever_was_done_before(index, folder, tmp_path, small_encoder):
    index.add(folder / "salt.txt")
    index.add([folder / "talk.vtt", Document.from_text("Gone tomorrow.", source="gone")])
    (folder / "salt.txt").write_text("Salt is not salt here. Nor is the sea.\n")
    index.add(folder)
    index.remove("gone")
    once = Index.create(tmp_path / "once", model=small_encoder)
    once.add(folder)
    for compact in (False, True):
        if compact:
            index.compact()
        assert problems(index) == []
        for by in ("passage", "section", "document"):
            found, expected = (
                [(hit.span, hit.best, hit.score) for hit in one.search("salt herring", by=by)]
                for one in (index, once)
            )
            assert found == expected


def test_a_document_leads_from_a_hit_to_what_is_around_it(index, folder):
    index.add(folder)
    [hit] = index.search("herring", path="*.md", top_k=1, where="text LIKE '%eat herring%'")
    document = index.document(hit.document_idx)
    [near] = surroundings(document, [hit.span], 1)
    assert [one.span.text for one in near] == ["Cod swim.", "They eat herring."]
    with pytest.raises(ValueError, match=r"no document number 99: documents\(\) lists"):
        index.document(99)
    with pytest.raises(TypeError, match="integer"):
        index.document("0")


@pytest.mark.parametrize(
    ("conditions", "files"),
    [
        ({"where": "format = 'md'"}, {"fish.md", "whale.md"}),
        ({"where": "title LIKE '%hale' OR size < 40"}, {"whale.md", "salt.txt"}),
        ({"where": "speaker = 'Ada'"}, {"talk.vtt"}),
        ({"where": ["format = 'md'", "array_has(section, 'Food')"]}, {"whale.md"}),
        ({"where": "modified > date '2020-01-01' AND language = 'en'"}, None),
        ({"where": "date >= '2020'"}, {"whale.md"}),
        ({"where": "date < '2020' OR date IS NULL"}, {"fish.md", "salt.txt", "talk.vtt"}),
        ({"where": "array_has(authors, 'Bo Ek') AND CAST(size AS string) > '1'"}, {"whale.md"}),
        ({"where": "array_to_string(section, '/') LIKE 'Foo%'"}, {"whale.md"}),
        ({"where": "coalesce(date, '2021') = '2021' AND (size < 40)"}, {"salt.txt"}),
        ({"where": "CAST(size AS decimal(9, 2)) < 40 AND title <> 'lpad('"}, {"salt.txt"}),
        ({"where": "date_part('year', modified) > 2020"}, None),
        ({"path": "*.vtt"}, {"talk.vtt"}),
        ({"where": "title = 'Fish' OR speaker = 'Ada'"}, {"fish.md", "talk.vtt"}),
        ({"section": "co"}, {"fish.md"}),
        ({"where": "page IS NOT NULL"}, set()),
    ],
)
def test_conditions_leave_out_the_rest(index, folder, conditions, files):
    index.add(folder)
    for by in ("passage", "section", "document"):
        hits = index.search("herring", by=by, top_k=99, **conditions)
        found = {Path(hit.span.document).name for hit in hits}
        assert found == files if files is not None else found
    assert {hit.span.document for hit in index.search("salt", path=folder / "deep")} == {
        str(folder / "deep" / "whale.md")
    }


def test_a_document_is_summarized_from_the_vectors_of_the_library(
    sea, encoder, tmp_path, monkeypatch
):
    library = Index.create(tmp_path / "sea", model=encoder)
    library.add([sea, Document.from_text("Salt is white.", source="salt")])
    [number] = [one.number for one in library.documents() if one.source == sea.name]
    vectors = library.vectors(number)
    for name, expected in vars(encoder.encode(sea)).items():
        got = getattr(vectors, name)
        if expected is None:
            assert got is None
        elif name == "salience":
            assert torch.allclose(got, expected, atol=1e-4)
        elif name in ("tokens", "num_tokens"):
            assert torch.equal(got, expected)
        else:
            assert F.cosine_similarity(got, expected, dim=-1).min() > 1 - 1e-5
    expected = [one.span for one in summarize(sea, sentences=2, model=encoder).sentences]
    monkeypatch.setattr(type(encoder), "encode", None)
    summary = library.summarize(sentences=2, path=sea.name)
    assert [one.span for one in summary.sentences] == expected
    assert {one.document_idx for one in summary.sentences} == {number}
    with pytest.raises(ValueError, match="2 documents match, and without a query, one is"):
        library.summarize()
    with pytest.raises(ValueError, match="no document number 99"):
        library.vectors(99)


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("fish.md", {"fish.md"}),
        ("deep", {"deep/whale.md"}),
        ("deep/whale.md", {"deep/whale.md"}),
        ("./deep/", {"deep/whale.md"}),
        ("deep/*", {"deep/whale.md"}),
        ("*.md", {"fish.md", "deep/whale.md", "doc [v1].md"}),
        ("doc [v1].md", {"doc [v1].md"}),
        ("doc*", {"doc [v1].md"}),
        ("[d]eep/?hale.md", {"deep/whale.md"}),
        ("eep", set()),
        ("ale.md", set()),
    ],
)
def test_paths_do_not_depend_on_the_current_folder(
    index, folder, tmp_path, monkeypatch, path, files
):
    (folder / "doc [v1].md").write_text("Notes on nets.")
    index.add(folder)
    for here in (folder, tmp_path):
        monkeypatch.chdir(here)
        found = {hit.span.document for hit in index.search("herring", top_k=99, path=path)}
        assert found == {str(folder / name) for name in files}


@pytest.mark.parametrize("typed", ["NFC", "NFD"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
def test_accents_of_paths_and_titles_may_be_composed_or_not(index, tmp_path, stored, typed):
    folder = tmp_path / normalize(stored, "Hérons")
    folder.mkdir()
    (folder / "a.md").write_text(
        normalize(stored, "# Birds\n\n## Élevage\n\nHerons eat herring.\n")
    )
    index.add(folder)
    assert index.search("herring", path=normalize(typed, "Hérons"))
    assert index.search("herring", section=normalize(typed, "élevage"))
    assert index.search("herring", where=normalize(typed, "array_has(section, 'Élevage')"))
    assert not index.search("herring", where=normalize(typed, "NOT array_has(section, 'Élevage')"))


def test_a_path_that_exists_is_that_file(index, folder, tmp_path, monkeypatch):
    index.add(folder)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path)
    assert index.search("herring", path="deep") == []
    assert index.search("herring", path="files/deep")
    assert index.search("herring", path=tmp_path / "files" / "*.md")


def test_documents_of_the_same_name_are_told_apart(index):
    index.add(
        [
            Document.from_sections("Minutes", [("Fish", "They eat herring."), ("Salt", "White.")]),
            Document.from_sections("Minutes", [("Whales", "Whales eat herring and krill.")]),
        ]
    )
    for one in index.documents():
        text = index.document(one.number).text
        for by in ("passage", "section", "document"):
            hits = index.search("herring", by=by, top_k=9, document=one.number)
            assert {hit.document_idx for hit in hits} == {one.number}
        summary = index.summarize("herring", document=one.number)
        assert all(sentence.span.text in text for sentence in summary.sentences)
    assert index.search("herring", document=2) == []
    with pytest.raises(TypeError, match="integer"):
        index.search("herring", document="0")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("author = 'Ada'", "No field named author. Did you mean 'authors'.*: write it as after"),
        ("title = = 'a'", "Expected: an expression, found: ="),
        ("size > 1 -- at least", "Expected: "),
        ("lpat(title) = 'a'", "Invalid function 'lpat'"),
        ("CAST(text AS int) > 1", "cannot be evaluated .*Cannot cast string 'Eel' to value"),
    ],
)
def test_conditions_that_make_no_sense_are_explained(index, folder, where, reason):
    index.add(folder)
    with pytest.raises(ValueError, match=reason) as caught:
        index.search("cod", where=where)
    assert "\n" not in str(caught.value)


def test_summaries_take_sentences_about_the_query_from_the_best_documents(tmp_path, encoder):
    texts = {
        "fish": "The cod of cold seas eats herring and crabs. Nobody has ever farmed it well.",
        "whale": "Whales are the largest animals of all. Most whales eat krill and small fish.",
        "salt": "Salt was once worth as much as gold. It is now spread on icy roads.",
    }
    index = Index.create(tmp_path / "library", model=encoder)
    index.add([Document.from_text(text, source=name) for name, text in texts.items()])
    query = "What do whales eat?"
    summary = index.summarize(query, sentences=2)
    assert summary.sentences[0].span.document == "whale"
    assert "Most whales eat krill and small fish." in summary.text
    for one in summary.sentences:
        assert index.document(one.document_idx).name == one.span.document
        assert one.span in index.document(one.document_idx).spans()
    assert summary.text == " ".join(one.span.text for one in summary.sentences)
    hits = index.search(query, top_k=99)
    scores = {hit.best: hit.score for hit in hits}
    few = index.summarize(query, words=16, path="fish")
    assert {one.span.document for one in few.sentences} == {"fish"}
    assert sum(len(one.span.text.split()) for one in few.sentences) <= 16
    assert all(scores.get(one.span, one.score) == one.score for one in few.sentences)
    assert any(one.span in scores for one in few.sentences)
    assert index.summarize(query, where="text LIKE '%herring%'").text.startswith("The cod")
    with pytest.raises(ValueError, match="give a number of sentences or of words, not both"):
        index.summarize(query, sentences=1, words=1)
    with pytest.raises(ValueError, match="words must be at least 1, got 0"):
        index.summarize(query, words=0)


def test_a_summary_of_one_document_has_the_sentences_of_summarize(tmp_path, encoder):
    parts = [
        ("Cod", "The cod is a fish of cold seas. It eats herring and crabs. Nobody farms it yet."),
        ("Eel", "The eel is a long fish. It eats worms at night. Its way to the sea is long."),
    ]
    sea = Document.from_sections("Fish of the sea", parts)
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(sea)
    found = index.summarize("What do they eat?", sentences=2)
    expected = summarize(sea, query="What do they eat?", sentences=2, model=encoder)
    assert found.text == expected.text


def test_an_empty_library_has_no_hits(index, folder):
    index.add(folder)
    index.remove(folder)
    assert index.summarize("cod").sentences == ()
    for _ in range(2):  # the second time, there are no terms
        index.compact()
    assert index.search("cod") == []
    assert index.search("cod", where="size > 1", by="document") == []
    assert problems(index) == []


def slowly(function, calls):
    """Return a function that says that it was called, and gives other threads time to call it."""

    def call(*arguments, **options):
        calls.append(function.__name__)
        time.sleep(0.05)
        return function(*arguments, **options)

    return call


def test_threads_share_the_model_and_what_was_read(index, folder, small_encoder, monkeypatch):
    index.add(folder)
    expected = index.search("cod")
    calls = []

    def load(name, **options):
        return small_encoder

    monkeypatch.setattr(Encoder, "from_pretrained", slowly(load, calls))
    monkeypatch.setattr(LanceEngine, "__init__", slowly(LanceEngine.__init__, calls))
    shared = Index.open(index.path)
    start = threading.Barrier(4)

    def find(_):
        start.wait()
        return shared.search("cod")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(find, range(4))) == [expected] * 4
    assert sorted(calls) == ["__init__", "load"]


def test_few_candidates_find_the_best(tmp_path, encoder, monkeypatch):
    """Of many sentences, Lance proposes a few, by their vectors and by their words."""
    animals = ("cod", "eel", "whale", "crab", "gull", "ray", "seal", "squid")
    documents = [
        Document.from_sections(
            f"Volume {i}",
            [
                (f"The {animal}", f"The {animal} eats item{i}{j}. It sleeps in bay {j}.")
                for j, animal in enumerate(animals)
            ],
        )
        for i in range(8)
    ]
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(documents)
    monkeypatch.setattr(library_search, "LEAST_CANDIDATES", 10)
    queries = ("Who eats item63?", "seal", "Where does the whale of volume 3 sleep?")
    for query in (*queries, " ".join(queries)):
        for by in ("passage", "section", "document"):
            found = index.search(query, by=by, top_k=1)
            expected = search(query, documents, by=by, top_k=1, model=encoder)
            assert [(hit.span, hit.best) for hit in found] == [(h.span, h.best) for h in expected]


def test_a_query_of_the_default_model_needs_no_torch(tmp_path, folder):
    index = Index.create(tmp_path / "library")
    index.add(folder)
    code = (
        "import sys; from foveate import Index\n"
        f"hits = Index.open({str(index.path)!r}).search('What do whales eat?')\n"
        "print(hits); sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == f"{index.search('What do whales eat?')}\n"
    [long] = Index.open(index.path).search("What do whales eat? " * 80, top_k=1)
    assert long.best == index.search("What do whales eat? " * 80, top_k=1)[0].best


def test_identical_documents_are_shown_once(index):
    text = "Cod swim in cold water. They eat herring."
    names = ("b", "a", "c")
    index.add([Document.from_text(text, source=name) for name in names])
    index.add(Document.from_text("Eels swim in rivers.", source="eel"))
    for by in ("passage", "section", "document"):
        hits = index.search("herring", by=by, top_k=9)
        assert sorted(hit.span.document for hit in hits) == ["a", "eel"]
        assert {hit.span.document: hit.copies for hit in hits} == {"a": ("b", "c"), "eel": ()}
    assert {hit.span.document for hit in index.search("herring", where="file != 'a'")} == {
        "b",
        "eel",
    }
    assert len(index) == 4
