"""What is asked of documents: the answers are those of the library's functions."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from foveate import LLM, Document, Encoder, Index, ask, context, keywords, search, summarize
from foveate.service.app import create_app
from tests.llm import serving_llm
from tests.service.conftest import FISH, serving
from tests.tree_bert import save_tree_bert

QUERY = "What does the cod eat?"


@pytest.fixture(scope="module")
def document():
    return Document.from_text(FISH, format="markdown")


def answer(served, path, **arguments):
    """Send a request in JSON, and return the answer."""
    given = served.client.post(path, json=arguments)
    assert given.status_code == 200, given.text
    return given.json()


def place(span):
    """Return the parts of a span that do not depend on the document's name."""
    return span["path"], span["start"], span["end"], span["text"]


@pytest.mark.parametrize("by", ["passage", "section", "document"])
def test_search_in_a_document(served, document, small_encoder, by):
    document_id = served.upload()
    found = answer(served, "/search", query=QUERY, document=document_id, by=by, top_k=9)
    expected = search(QUERY, document, by=by, top_k=9, model=small_encoder)
    assert len(found["hits"]) == len(expected)
    for hit, other in zip(found["hits"], expected, strict=True):
        assert place(hit["span"])[1:] == (other.span.start, other.span.end, other.span.text)
        assert hit["best"]["start"] == other.best.start
        assert hit["score"] == pytest.approx(other.score, abs=1e-4)
        assert document.spans()[hit["sentence_idx"]].start == other.best.start
        assert hit["document"] == document_id
        assert hit["title"] == "Fish of the sea"
    sections = search(QUERY, document, by="section", top_k=9, model=small_encoder)
    spans = document.section_spans()
    of_sections = dict(enumerate(found["section_scores"]))
    for hit in sections:
        assert of_sections[spans.index(hit.span)] == pytest.approx(hit.score, abs=1e-4)


@pytest.mark.parametrize("query", [QUERY, None])
@pytest.mark.parametrize("tokens", [40, 4000])
def test_a_prompt_of_a_document(served, document, small_encoder, query, tokens):
    document_id = served.upload()
    found = answer(served, "/context", query=query, document=document_id, tokens=tokens)
    expected = context(query, document, tokens=tokens, model=small_encoder)
    assert (found["text"], found["tokens"]) == (expected.text, expected.tokens)
    for one, (number, span) in zip(found["sentences"], expected.spans.items(), strict=True):
        assert (one["number"], one["document"]) == (number, document_id)
        assert place(one["span"])[1:] == (span.start, span.end, span.text)


def test_a_prompt_of_the_library(served, library_folder, small_encoder):
    index = Index.open(library_folder, model=small_encoder)
    expected = index.context(QUERY, tokens=100)
    found = answer(served, "/context", query=QUERY, tokens=100)
    assert found["text"] == expected.text
    assert [one["document"] for one in found["sentences"]] == [
        f"l-{number}" for number in expected.document_idx.values()
    ]
    small = served.client.post("/context", json={"query": QUERY, "tokens": 1})
    assert small.status_code == 422
    assert "too few even for the title" in small.json()["detail"]
    in_section = answer(served, "/context", query=QUERY, section="cod")
    assert {path for one in in_section["sentences"] for path in one["span"]["path"]} >= {"Cod"}
    assert all("Cod" in one["span"]["path"] for one in in_section["sentences"])


def test_context(served):
    found = answer(served, "/search", query=QUERY, text=FISH, format="markdown", top_k=9)
    document = Document.from_text(FISH, format="markdown")
    own = [one.num_own_sentences for _, one in document.walk()]
    for hit in found["hits"]:
        inside = slice(hit["first_sentence"], hit["first_sentence"] + hit["num_sentences"])
        texts = [span.text for span in document.spans()]
        assert " ".join(texts[inside]) == hit["span"]["text"]
        assert inside.start <= hit["sentence_idx"] < inside.stop
        assert hit["document"] is None
        start = sum(own[: hit["section_idx"]])
        before, after = (
            texts[start : inside.start],
            texts[inside.stop : start + own[hit["section_idx"]]],
        )
        assert (hit["before"], hit["after"]) == (" ".join(before[-1:]), " ".join(after[:1]))


def test_a_text_is_answered_like_an_upload(served):
    kept = answer(served, "/search", query=QUERY, document=served.upload())
    as_text = answer(served, "/search", query=QUERY, text=FISH, format="markdown")
    places = [[hit["sentence_idx"] for hit in one["hits"]] for one in (kept, as_text)]
    assert places[0] == places[1]
    assert as_text["section_scores"] == kept["section_scores"]


def test_search_in_the_library(served, library_folder, small_encoder):
    index = Index.open(library_folder, model=small_encoder)
    found = answer(served, "/search", query=QUERY, top_k=9)
    expected = index.search(QUERY, top_k=9)
    assert found["section_scores"] is None
    assert len(found["hits"]) == len(expected) > 5
    for hit, other in zip(found["hits"], expected, strict=True):
        assert (hit["name"], hit["span"]["start"]) == (other.span.document, other.span.start)
        assert hit["document"] == f"l-{other.document_idx}"
        document = index.document(other.document_idx)
        assert document.spans()[hit["sentence_idx"]] == other.best
    only = answer(served, "/search", query=QUERY, top_k=9, where="format = 'txt'")
    assert {Path(hit["name"]).name for hit in only["hits"]} == {"salt.txt"}
    in_sections = answer(served, "/search", query=QUERY, by="section", section="cod")
    assert {hit["span"]["text"] for hit in in_sections["hits"]} == {"Cod", "Nets"}


@pytest.mark.parametrize("in_library", [False, True])
def test_hits_are_explained_if_that_is_asked_for(encoder, tmp_path, in_library):
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(Document.from_text(FISH, format="markdown", source="fish"))
    expected = index.search(QUERY, top_k=3, explain=True)
    assert any(hit.matches for hit in expected)
    with serving(encoder, library=index.path) as served:
        text = {} if in_library else {"text": FISH, "format": "markdown"}
        for path, name in (("/search", "hits"), ("/ask", "passages")):
            found = answer(served, path, query=QUERY, top_k=3, explain=True, **text)[name]
            assert [hit["matches"] for hit in found] == [
                [asdict(one) for one in hit.matches] for hit in expected
            ]
            plain = answer(served, path, query=QUERY, top_k=3, **text)[name]
            assert [hit["matches"] for hit in plain] == [[], [], []]


def test_a_model_without_vectors_of_tokens_cannot_explain(served):
    assert not served.client.get("/healthz").json()["explain"]
    for text in ({}, {"text": FISH}):
        refused = served.client.post("/search", json={"query": QUERY, "explain": True, **text})
        assert refused.status_code == 422
        assert "has no vectors of tokens" in refused.json()["detail"]


def test_one_document_of_the_library(served, small_encoder, library_folder):
    [entry] = served.client.get("/documents?query=fish.md").json()["documents"]
    found = answer(served, "/search", query=QUERY, document=entry["id"], top_k=99)
    assert {hit["document"] for hit in found["hits"]} == {entry["id"]}
    assert sum(hit["num_sentences"] for hit in found["hits"]) == entry["num_sentences"]
    index = Index.open(library_folder, model=small_encoder)
    document = index.document(int(entry["id"].removeprefix("l-")))
    sections = index.search(QUERY, by="section", top_k=99, where="format = 'md'")
    expected = {document.section_spans().index(hit.span): hit.score for hit in sections}
    assert found["section_scores"] == pytest.approx(
        [expected[i] for i in range(entry["num_sections"])], abs=1e-4
    )
    asked = answer(served, "/ask", query=QUERY, document=entry["id"], top_k=1)
    assert asked["passages"][0]["document"] == entry["id"]
    assert len(asked["section_scores"]) == entry["num_sections"]


@pytest.mark.usefixtures("without_processes")
def test_documents_of_the_same_name_are_told_apart(small_encoder, tmp_path):
    fish = Document.from_sections("Minutes", [("Fish", "They eat herring."), ("Salt", "White.")])
    whales = Document.from_sections("Minutes", [("Whales", "They eat krill. They dive deep.")])
    index = Index.create(tmp_path / "library", model=small_encoder)
    index.add([fish, whales])
    with serving(small_encoder, library=index.path) as served:
        for number in (0, 1):
            document, of = index.document(number), {"document": f"l-{number}"}
            texts = {span.text for span in document.spans()}
            num_sections = len(list(document.walk()))
            found = answer(served, "/search", query=QUERY, top_k=9, **of)
            assert {hit["best"]["text"] for hit in found["hits"]} <= texts
            assert len(found["section_scores"]) == num_sections
            asked = answer(served, "/ask", query=QUERY, **of)
            assert {passage["document"] for passage in asked["passages"]} == {f"l-{number}"}
            assert len(asked["section_scores"]) == num_sections
            summary = answer(served, "/summarize", **of)
            assert {one["span"]["text"] for one in summary["sentences"]} <= texts
            for keyword in answer(served, "/keywords", **of)["keywords"]:
                assert keyword["text"].lower() in document.text.lower()
            sections = served.client.get(f"/documents/l-{number}/outline").json()
            assert len(sections) == num_sections


@pytest.mark.usefixtures("without_processes")
def test_a_library_that_is_replaced_by_another(small_encoder, tmp_path):
    folder = tmp_path / "library"
    Index.create(folder, model=small_encoder).add(Document.from_text("Cod swim.", source="cod"))
    with serving(small_encoder, library=folder) as served:
        before = answer(served, "/search", query=QUERY, document="l-0")
        shutil.rmtree(folder)
        Index.create(folder, model=small_encoder).add(
            Document.from_text("Eels hide.", source="eel")
        )
        after = answer(served, "/search", query=QUERY, document="l-0")
    assert before["hits"][0]["best"]["text"] == "Cod swim."
    assert after["hits"][0]["best"]["text"] == "Eels hide."


def test_ask(served, document, small_encoder):
    found = answer(served, "/ask", query=QUERY, document=served.upload(), top_k=2)
    expected = ask(QUERY, document, top_k=2, model=small_encoder).passages
    assert found["question"] == QUERY
    for passage, other in zip(found["passages"], expected, strict=True):
        assert place(passage["span"]) == (
            list(other.span.path),
            other.span.start,
            other.span.end,
            other.span.text,
        )
        inside = document.spans()[passage["first_sentence"] :][: passage["num_sentences"]]
        assert (inside[0].start, inside[-1].end) == (other.span.start, other.span.end)
        assert document.spans()[passage["sentence_idx"]].start == other.best.start
    in_library = answer(served, "/ask", query=QUERY, top_k=2)
    assert len(in_library["passages"]) == 2


def test_a_document_of_the_library_is_summarized_from_its_vectors(
    served, small_encoder, monkeypatch
):
    [entry] = served.client.get("/documents", params={"query": "fish.md"}).json()["documents"]
    expected = summarize(Document.from_text(FISH, format="markdown"), model=small_encoder)
    monkeypatch.setattr(type(served.service.encoder), "encode", None)
    found = answer(served, "/summarize", document=entry["id"])
    assert found["text"] == expected.text


@pytest.mark.parametrize("options", [{"sentences": 2}, {"words": 12}, {"query": QUERY}])
def test_summarize(served, document, small_encoder, options):
    found = answer(served, "/summarize", document=served.upload(), **options)
    expected = summarize(document, model=small_encoder, **options)
    assert found["text"] == expected.text
    assert [one["span"]["start"] for one in found["sentences"]] == [
        one.span.start for one in expected.sentences
    ]
    indices = [one["sentence_idx"] for one in found["sentences"]]
    assert [document.spans()[i].text for i in indices] == [
        one.span.text for one in expected.sentences
    ]


@pytest.mark.parametrize("method", ["phrases", "tfidf"])
def test_keywords(served, document, method):
    found = answer(served, "/keywords", document=served.upload(), top_k=4, method=method, places=1)[
        "keywords"
    ]
    expected = keywords(document, top_k=4, method=method)
    assert [one["text"] for one in found] == [one.text for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["num_places"] == len(other.spans)
        [first] = one["places"]
        sentence = document.spans()[first["sentence_idx"]]
        assert sentence.start <= first["span"]["start"] <= first["span"]["end"] <= sentence.end


def test_requests_that_make_no_sense(served):
    document_id = served.upload()
    for path, arguments, words in (
        ("/search", {"query": "cod", "document": "u-none"}, (404, "id")),
        ("/search", {"query": " ", "document": document_id}, (422, "query")),
        ("/search", {"document": document_id}, (422, "query: Field required")),
        ("/search", {"query": "cod", "top_k": 0}, (422, "top_k")),
        ("/search", {"query": "cod", "top_k": "5"}, (422, "top_k")),
        ("/search", {"query": "cod", "topk": 5}, (422, "topk")),
        ("/search", {"query": "cod", "text": "A.", "document": "u-1"}, (422, "either")),
        ("/search", {"query": "cod", "document": document_id, "path": "x"}, (422, "path")),
        ("/search", {"query": "cod", "where": "colour = 'red'"}, (422, "colour")),
        ("/search", {"query": "cod", "where": "length(repeat(title, 9)) > 1"}, (422, "repeat")),
        ("/search", {"query": "cod", "where": "left(title, 9) = 'Cod'"}, (422, "left")),
        (
            "/ask",
            {
                "query": "cod",
                "where": "'' = array_to_string(section, array_to_string(section, ''))",
            },
            (422, "array_to_string"),
        ),
        ("/search", {"query": "cod", "where": "title ="}, (422, "title =")),
        ("/search", {"query": "cod", "where": "title = ?"}, (422, "title = ?")),
        (
            "/search",
            {"query": "cod", "where": "title <> '' -- '\n AND length(repeat(title, 9)) > 1 -- '"},
            (422, "comments"),
        ),
        (
            "/search",
            {"query": "cod", "where": "title <> '' /* ' */ AND repeat(title, 9) > '1' /* ' */"},
            (422, "comments"),
        ),
        ("/summarize", {}, (422, "document")),
        ("/summarize", {"document": document_id, "words": 5, "sentences": 5}, (422, "both")),
        ("/keywords", {"text": "   "}, (422, "empty")),
        ("/keywords", {"text": "Cod.", "format": "pdf"}, (422, "not text")),
        ("/keywords", {"text": "Cod.", "format": "runes"}, (422, "runes")),
        ("/keywords", {"text": "Cod.", "language": "English"}, (422, "language")),
    ):
        given = served.client.post(path, json=arguments)
        status, part = words
        assert given.status_code == status, (arguments, given.text)
        detail = given.json()["detail"]
        assert part in detail
        assert "\n" not in detail


@pytest.mark.usefixtures("without_processes")
def test_without_a_library(strict):
    with strict() as served:
        given = served.client.post("/search", json={"query": "cod"})
        assert (given.status_code, "no library" in given.json()["detail"]) == (422, True)
        assert served.client.get("/documents").json() == {"total": 0, "documents": []}
        assert served.client.get("/documents/l-0").status_code == 404


def test_a_library_that_another_model_made(tmp_path, tokenizer, library_folder):
    save_tree_bert(tmp_path, tokenizer, hidden_size=8)
    with pytest.raises(ValueError, match="model"):
        create_app(Encoder.from_pretrained(tmp_path), library=library_folder)


@pytest.mark.usefixtures("without_processes")
def test_a_library_that_is_removed(small_encoder, library_folder, tmp_path):
    """Uploads are answered as before."""
    folder = tmp_path / "library"
    shutil.copytree(library_folder, folder)
    with serving(small_encoder, library=folder) as served:
        assert served.client.post("/search", json={"query": "cod"}).status_code == 200
        shutil.rmtree(folder / "library.lance" / "_versions")
        assert served.client.get("/documents").status_code == 503
        shutil.rmtree(folder)
        for path, arguments in (("/search", {"query": "cod"}), ("/ask", {"query": "cod"})):
            assert served.client.post(path, json=arguments).status_code == 503
        assert served.client.get("/documents").status_code == 503
        assert served.client.get("/documents/l-0").status_code == 503
        served.upload()


def test_searches_of_the_library_do_not_wait_for_each_other(served):
    """Sentences of a query are encoded during the search, by more requests than have a turn."""
    queries = [f"What does the cod eat {number}? Who eats it {number}?" for number in range(12)]

    def status(query):
        request = {"query": query, "by": "document"}
        return served.client.post("/search", json=request, timeout=60).status_code

    with ThreadPoolExecutor(len(queries)) as threads:
        assert [*threads.map(status, queries)] == [200] * len(queries)


@pytest.mark.parametrize(("least", "likely"), [(None, None), (-1.0, True), (1.1, False)])
def test_results_say_whether_they_are_likely(served, small_encoder, monkeypatch, least, likely):
    config = small_encoder.model.config
    monkeypatch.setattr(config, "min_likely_score", least, raising=False)
    document = served.upload()
    for given in ({"document": document}, {}):
        hits = answer(served, "/search", query=QUERY, **given)["hits"]
        passages = answer(served, "/ask", query=QUERY, **given)["passages"]
        assert {one["likely"] for one in [*hits, *passages]} == {likely}


def test_an_answer_is_streamed(small_encoder, library_folder):
    said = "Trawlers drag nets [5]. Whales sing [99]."
    with (
        serving_llm(said) as (url, _),
        serving(small_encoder, library=library_folder, llm=LLM(url, "small")) as served,
    ):
        assert served.client.get("/healthz").json()["llm"]
        document_id = served.upload()
        request = {"query": QUERY, "document": document_id}
        *pieces, last = lines(served, request)
        assert pieces[0]["title"] == ""
        assert pieces[0]["shown"][:6] == [0, 1, 2, 3, 4, 5]
        assert "".join(one["text"] for one in pieces[1:]) == last["written"] == said
        assert len(pieces) > 5
        first, second = last["sentences"]
        assert (first["numbers"], second["missing"]) == ([5], [99])
        assert not second["is_supported"]
        [cited] = last["cited"]
        assert (cited["number"], cited["sentence_idx"]) == (5, 4)
        assert cited["document"] == document_id
        assert cited["span"]["text"] == "Trawlers drag nets behind them."
        [cited] = lines(served, {"query": QUERY})[-1]["cited"]
        assert cited["document"].startswith("l-")
        *_, summary = lines(served, {"document": document_id, "sentences": 2})
        assert summary["written"] == said
        assert served.client.post("/write", json={}).status_code == 422


def test_a_language_model_that_fails(served, small_encoder):
    refused = served.client.post("/write", json={"query": QUERY})
    assert refused.status_code == 422
    assert "start it with --llm" in refused.json()["detail"]
    with serving_llm(500) as (url, _), serving(small_encoder, llm=LLM(url, "small")) as other:
        *_, last = lines(other, {"query": QUERY, "text": FISH})
        assert "refuses" in last["detail"]


def lines(served, request):
    answered = served.client.post("/write", json=request)
    assert answered.status_code == 200, answered.text
    return [json.loads(line) for line in answered.text.splitlines()]
