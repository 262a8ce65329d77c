"""The Model Context Protocol server, as the SDK's own client meets it."""

import json
import os
import sys
from dataclasses import replace
from functools import partial

import anyio
import pytest

pytest.importorskip("mcp.server.mcpserver")

from mcp import Client, StdioServerParameters, stdio_client

from foveate import Document, Encoder, Index
from foveate.mcp import make_server
from foveate.mcp.tools import MAX_RESULTS
from tests.tree_bert import save_tree_bert

COUNTING = "We counted fish with nets. Each count was repeated three times. Ice delayed us."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("tree_bert")
    save_tree_bert(folder, tokenizer)
    return Encoder.from_pretrained(folder, device="cpu")


@pytest.fixture
def index(tmp_path, encoder, sea):
    index = Index.create(tmp_path / "library", model=encoder)
    methods = ("Methods", "We worked in June.", [("Counting", COUNTING)])
    results = ("Results", "Herring fell by a third.")
    index.add([sea, Document.from_sections("Herring", [methods, results])])
    return index


@pytest.fixture
def call(index):
    """Call a tool in this process; give its structured result and its text."""

    async def run(name, arguments):
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return await client.call_tool(name, arguments)

    def call(name, **arguments):
        result = anyio.run(run, name, arguments)
        [content] = result.content
        assert not result.is_error, content.text
        return result.structured_content, content.text

    return call


@pytest.fixture
def fail(index):
    """Call a tool that must fail; give its error."""

    async def run(name, arguments):
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return await client.call_tool(name, arguments)

    def fail(name, **arguments):
        result = anyio.run(run, name, arguments)
        assert result.is_error
        [content] = result.content
        assert "\n" not in content.text
        return content.text

    return fail


def test_documents_of_the_same_name_are_told_apart_by_their_titles(index, call):
    food = [("Food", "They eat herring.")]
    index.add(
        [
            replace(Document.from_sections(title, food), source="minutes")
            for title in ("Cod", "Whales")
        ]
    )
    for title in ("Cod", "Whales"):
        found, _ = call("search", query="herring", document=title)
        asked, _ = call("ask", query="Who eats herring?", document=title)
        for results in (found["results"], asked["results"]):
            assert {one["title"] for one in results} == {title}


def test_documents_of_the_same_name_and_title_are_told_apart_by_their_numbers(index, call, fail):
    index.add(
        [
            Document.from_sections("Minutes", [("Food", f"They eat {food}.")])
            for food in ("herring", "krill")
        ]
    )
    listed, list_text = call("list_documents", contains="minutes")
    numbers = [one["document_number"] for one in listed["documents"]]
    assert len(set(numbers)) == 2
    for number, food in zip(numbers, ("herring", "krill"), strict=True):
        assert f"Minutes (document {number}; 1 sentence)" in list_text
        for document in (number, str(number)):
            found, text = call("search", query="food", document=document)
            assert [one["text"] for one in found["results"]] == [f"They eat {food}."]
            assert {one["document_number"] for one in found["results"]} == {number}
            assert f"Minutes · line 3 · Food · document {number}\n" in text
            asked, _ = call("ask", query="What do they eat?", document=document)
            assert {one["document_number"] for one in asked["results"]} == {number}
            read, _ = call("read", document=document)
            summary, _ = call("summarize", document=document)
            for part in (*read["parts"], *summary["sentences"]):
                assert (part["text"], part["document_number"]) == (f"They eat {food}.", number)
            outline, text = call("outline", document=document)
            assert outline["document_number"] == number
            assert text.startswith(f"Minutes (document {number}; 1 sentence)\n")
    assert fail("outline", document="Minutes") == (
        "several documents match 'Minutes': give the number of the one that you mean, "
        f"{numbers[0]} (Minutes), {numbers[1]} (Minutes)"
    )


def test_a_name_that_is_a_number(index, call):
    index.add(Document.from_sections("1", [("Ice", "The ice is thick.")]))
    for document, title in (("1", "1"), (1, "Herring")):
        assert call("outline", document=document)[0]["title"] == title


def test_tools_explain_themselves(index):
    async def run():
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = anyio.run(run)
    names = ["search", "ask", "read", "summarize", "outline", "list_documents"]
    assert [tool.name for tool in tools] == names
    assert all(f"`{name}`" in instructions for name in names)
    for tool in tools:
        assert len(tool.description) > 80
        assert tool.annotations.read_only_hint
        assert all("description" in one for one in tool.input_schema["properties"].values())
        assert tool.output_schema["type"] == "object"


def test_search(call, index):
    found, text = call("search", query="Each count was repeated three times.", context=1)
    first = found["results"][0]
    [hit, *_] = index.search("Each count was repeated three times.")
    assert first["text"] == hit.span.text
    assert first["score"] == pytest.approx(hit.score, abs=1e-4)
    document = index.document(hit.document_idx)
    assert document.text[first["start"] : first["end"]] == first["text"]
    assert first["text"] in first["context"]
    assert first["context"] in text
    assert len(found["results"]) == 5


def test_results_have_their_places(call):
    found, text = call("search", query="nets", document="herring", section="counting", top_k=2)
    for result in found["results"]:
        assert result["document"] == "Herring"
        assert result["section_path"] == ["Methods", "Counting"]
    assert result["context"] == COUNTING
    assert "1. Herring · line 7 · Methods › Counting · document 1\n" in text


@pytest.mark.parametrize("unit", ["section", "document"])
def test_larger_units_show_their_best_sentence(call, index, unit):
    found, _ = call("search", query="Herring fell by a third.", by=unit, top_k=1)
    [hit] = index.search("Herring fell by a third.", by=unit, top_k=1)
    [result] = found["results"]
    assert result["text"] == hit.best.text
    assert (result["start"], result["end"]) == (hit.span.start, hit.span.end)


def test_ask(call, index):
    found, text = call("ask", query="How were fish counted?", top_k=2)
    expected = index.ask("How were fish counted?", top_k=2).passages
    assert [one["text"] for one in found["results"]] == [one.span.text for one in expected]
    assert all(one["text"] in text for one in found["results"])


def test_summarize(call, sea, monkeypatch):
    monkeypatch.setattr(Encoder, "encode", None)  # the library has the vectors
    found, text = call("summarize", document="Fish of the sea", sentences=2)
    assert len(found["sentences"]) == 2
    for sentence in found["sentences"]:
        assert sea.text[sentence["start"] : sentence["end"]] == sentence["text"]
        assert sentence["text"] in text
    part, _ = call("summarize", document="Fish of the sea", section="cod", query="price")
    assert {tuple(one["section_path"]) for one in part["sentences"]} == {("Species", "Cod")}
    whole, _ = call("summarize", document="Fish of the sea", section="Species", sentences=9)
    assert {one["section_path"][-1] for one in whole["sentences"]} == {"Species", "Cod", "Eel"}
    by_path, _ = call("summarize", document="Herring", section="Methods › Counting")
    assert by_path["text"] in COUNTING


def test_read(call, sea):
    found, text = call("read", document="Herring")
    assert [one["section_path"] for one in found["parts"]] == [
        ["Methods"],
        ["Methods", "Counting"],
        ["Results"],
    ]
    assert found["parts"][1]["text"] == COUNTING
    assert (found["num_sentences"], found["next_offset"]) == (5, None)
    assert text.splitlines()[-2:] == ["[Herring · line 11 · Results]", "Herring fell by a third."]
    found, text = call("read", document="Herring", section="counting", offset=1, sentences=1)
    [part] = found["parts"]
    assert part["text"] == "Each count was repeated three times."
    assert (found["num_sentences"], found["next_offset"]) == (3, 2)
    assert text.endswith("… and 1 sentence more: give offset=2")


def test_outline(call):
    found, text = call("outline", document="Herring")
    assert [one["section_path"] for one in found["sections"]] == [
        ["Methods"],
        ["Methods", "Counting"],
        ["Results"],
    ]
    assert [one["num_sentences"] for one in found["sections"]] == [4, 3, 1]
    assert found["sections"][1]["begins"] == "We counted fish with nets."
    assert text.splitlines()[2] == "    Counting [line 7; 3 sentences]"
    assert len(call("outline", document="Herring", max_depth=1)[0]["sections"]) == 2


def test_an_outline_names_authors_and_date(call, index, sea):
    index.add(replace(sea, title="Fishes", authors=("Ada L", "Ben M"), date="2024-05"))
    found, text = call("outline", document="Fishes")
    assert (found["authors"], found["date"]) == (["Ada L", "Ben M"], "2024-05")
    assert text.startswith("Fishes (document 2; Ada L, Ben M; 2024-05; 12 sentences)\n")


def test_untitled_sections_are_known_by_their_first_words(call, index):
    index.add(Document.from_text("Salt is white and comes from the sea near us.", title="Salt"))
    _, text = call("outline", document="Salt")
    assert "(Salt is white and comes from the sea …)" in text


def test_documents_are_listed(call, index):
    found, text = call("list_documents")
    assert [one["document"] for one in found["documents"]] == ["Fish of the sea", "Herring"]
    assert [one["document_number"] for one in found["documents"]] == [0, 1]
    assert text == "Fish of the sea (document 0; 12 sentences)\nHerring (document 1; 5 sentences)"
    assert call("list_documents", contains="HERR")[0]["total"] == 1
    index.add([Document.from_sections(f"Log {i:02}", [("", "Ice.")]) for i in range(60)])
    _, text = call("list_documents", contains="log")
    assert text.endswith("… and 10 more: give offset=50")
    last, _ = call("list_documents", contains="log", offset=50)
    assert (last["total"], len(last["documents"])) == (60, 10)


def test_nothing_is_found_in_an_empty_section(call):
    assert call("search", query="cod", section="no such title") == (
        {"results": []},
        "Nothing was found.",
    )


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("search", {"query": " "}, "the query is empty: say what to look for"),
        ("search", {"query": "cod", "top_k": 0}, f"top_k must be from 1 to {MAX_RESULTS}, got 0"),
        ("search", {"query": "cod", "context": -1}, "context must be from 0 to 20, got -1"),
        ("search", {}, "query: field required"),
        ("search", {"query": "cod", "by": "page"}, "by: input should be 'sentence', 'section'"),
        ("search", {"query": "cod", "document": "Herrings"}, "did you mean Herring?"),
        ("ask", {"query": "cod?", "document": "o'x"}, "list_documents shows what there is"),
        ("read", {"document": 99}, "has no document 99: list_documents shows what there is"),
        (
            "summarize",
            {"document": "Herring", "section": "Boats"},
            "Herring has no section 'Boats'",
        ),
        ("summarize", {"document": "Herring", "section": ""}, "Herring has no section ''"),
        ("outline", {"document": "Herring", "max_depth": 0}, "max_depth must be at least 1"),
        ("read", {"document": "Herring", "offset": 5}, "offset must be from 0 to 4, got 5"),
        ("list_documents", {"offset": -1}, "offset must be at least 0"),
    ],
)
def test_errors_are_a_sentence(fail, name, arguments, error):
    assert error in fail(name, **arguments)


def test_names_that_several_documents_have(fail, call, index, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.md").write_text(f"Ice in folder {folder}.")
    index.add([tmp_path / "a", tmp_path / "b"])
    assert "several documents match 'log.md'" in fail("outline", document="log.md")
    assert str(tmp_path / "a" / "log.md") in fail("outline", document="log")
    assert call("outline", document="b/log.md")[0]["document"] == str(tmp_path / "b" / "log.md")


def test_the_model_is_loaded_once_and_only_when_it_is_needed(tmp_path, encoder, sea, monkeypatch):
    path = tmp_path / "library"
    Index.create(path, model=encoder).add(sea)
    loaded = []
    load = Encoder.from_pretrained

    def counted(*arguments, **options):
        loaded.append(arguments)
        return load(*arguments, **options)

    monkeypatch.setattr(Encoder, "from_pretrained", counted)

    async def run():
        async with Client(make_server(path)) as client:
            await client.call_tool("list_documents", {})
            assert not loaded
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    search = partial(client.call_tool, "search", {"query": "cod"})
                    group.start_soon(search)

    anyio.run(run)
    assert len(loaded) == 1


def test_the_command_speaks_nothing_but_the_protocol(tmp_path, encoder, sea):
    """Started as assistants start it, with the SDK's client at the other end."""
    path = tmp_path / "library"
    Index.create(path, model=encoder).add(sea)
    command = "from foveate.cli import main; main()"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", command, "mcp", "--library", str(path)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    errors = tmp_path / "stderr"

    async def run(log):
        async with Client(stdio_client(server, errlog=log), mode="legacy") as client:
            found = await client.call_tool("search", {"query": "The cod is a fish of cold seas."})
            failed = await client.call_tool("outline", {"document": "nothing"})
            return found, failed

    with errors.open("w+") as log:
        found, failed = anyio.run(run, log)
    assert found.structured_content["results"][0]["document"] == "Fish of the sea"
    assert json.loads(json.dumps(found.structured_content)) == found.structured_content
    assert failed.is_error
    assert errors.read_text() == ""
