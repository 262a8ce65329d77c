"""The Model Context Protocol server, as the SDK's own client meets it."""

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
    """Call a tool in this process; give its text."""

    async def run(name, arguments):
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return await client.call_tool(name, arguments)

    def call(name, **arguments):
        result = anyio.run(run, name, arguments)
        [content] = result.content
        assert not result.is_error, content.text
        return content.text

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
    number = {one.title: one.number for one in index.documents()}
    for title in ("Cod", "Whales"):
        for text in (
            call("search", query="herring", document=title, top_k=1),
            call("ask", query="Who eats herring?", document=title),
        ):
            assert text == (
                f"1. minutes · line 3 · Food · document {number[title]}\nThey eat herring."
            )


def test_documents_of_the_same_name_and_title_are_told_apart_by_their_numbers(index, call, fail):
    index.add(
        [
            Document.from_sections("Minutes", [("Food", f"They eat {food}.")])
            for food in ("herring", "krill")
        ]
    )
    listed = call("list_documents", contains="minutes")
    numbers = [one.number for one in index.documents() if one.title == "Minutes"]
    for number, food in zip(numbers, ("herring", "krill"), strict=True):
        assert f"Minutes (document {number}; 1 sentence)" in listed
        for document in (number, str(number)):
            found = f"1. Minutes · line 3 · Food · document {number}\nThey eat {food}."
            assert call("search", query="food", document=document) == found
            assert call("ask", query="What do they eat?", document=document) == found
            read = call("read", document=document)
            assert read == f"[Minutes · line 3 · Food]\nThey eat {food}."
            summary = call("summarize", document=document)
            assert summary == f"They eat {food}. [Minutes · line 3 · Food]"
            outline = call("outline", document=document)
            assert outline.startswith(f"Minutes (document {number}; 1 sentence)\n")
    assert fail("outline", document="Minutes") == (
        "several documents match 'Minutes': give the number of the one that you mean, "
        f"{numbers[0]} (Minutes), {numbers[1]} (Minutes)"
    )


def test_a_name_that_is_a_number(index, call):
    index.add(Document.from_sections("1", [("Ice", "The ice is thick.")]))
    for document, title in (("1", "1"), (1, "Herring")):
        assert call("outline", document=document).startswith(f"{title} (document ")


def test_tools_explain_themselves(index):
    async def run():
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = anyio.run(run)
    names = ["search", "ask", "context", "read", "summarize", "outline", "list_documents"]
    assert [tool.name for tool in tools] == names
    assert all(f"`{name}`" in instructions for name in names)
    for tool in tools:
        assert len(tool.description) > 80
        assert tool.annotations.read_only_hint
        assert all("description" in one for one in tool.input_schema["properties"].values())


def test_search(call, index):
    text = call("search", query="Each count was repeated three times.", context=1)
    [hit, *_] = index.search("Each count was repeated three times.")
    first, *others = text.split("\n\n")
    assert len(others) == 4
    assert first.splitlines()[0].endswith(f" · document {hit.document_idx}")
    assert hit.span.text in first


def test_results_have_their_places(call):
    text = call("search", query="nets", document="herring", section="counting", top_k=2)
    assert text == f"1. Herring · line 7 · Methods › Counting · document 1\n{COUNTING}"


@pytest.mark.parametrize("unit", ["section", "document"])
def test_larger_units_show_their_best_sentence(call, index, unit):
    text = call("search", query="Herring fell by a third.", by=unit, top_k=1, context=0)
    [hit] = index.search("Herring fell by a third.", by=unit, top_k=1)
    assert text.splitlines()[1:] == [hit.best.text]


def test_ask(call, index):
    text = call("ask", query="How were fish counted?", top_k=2)
    expected = index.ask("How were fish counted?", top_k=2).passages
    assert [one.splitlines()[1] for one in text.split("\n\n")] == [
        one.span.text for one in expected
    ]


def test_summarize(call, sea, monkeypatch):
    monkeypatch.setattr(Encoder, "encode", None)  # the library has the vectors
    whole = [sentence.text for sentence in sea.sentences()]
    lines = call("summarize", document="Fish of the sea", sentences=2).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.partition(" [Fish of the sea · ")[0] in whole
    part = call("summarize", document="Fish of the sea", section="cod", query="price")
    assert all(line.endswith(" · Species › Cod]") for line in part.splitlines())
    section = call("summarize", document="Fish of the sea", section="Species", sentences=9)
    titles = {line.rstrip("]").split(" · ")[-1].split(" › ")[-1] for line in section.splitlines()}
    assert titles == {"Species", "Cod", "Eel"}
    by_path = call("summarize", document="Herring", section="Methods › Counting", sentences=1)
    assert by_path.partition(" [")[0] in COUNTING


def test_read(call):
    text = call("read", document="Herring")
    assert text.split("\n\n")[1] == f"[Herring · line 7 · Methods › Counting]\n{COUNTING}"
    assert text.splitlines()[-2:] == ["[Herring · line 11 · Results]", "Herring fell by a third."]
    assert text.count("[Herring") == 3
    text = call("read", document="Herring", section="counting", offset=1, sentences=1)
    assert "\nEach count was repeated three times.\n" in text
    assert text.endswith("… and 1 sentence more: give offset=2")


def test_context(call):
    text = call("context", query="How often was each count repeated?", tokens=60)
    assert "# Herring" in text
    assert "document" in text.splitlines()[-1]
    digest = call("context", document="Herring", tokens=500)
    assert "## Methods\n[1] We worked in June." in digest
    assert digest.endswith("[1] to [5]: Herring · document 1")


def test_outline(call):
    title, *sections = call("outline", document="Herring").splitlines()
    assert title == "Herring (document 1; 5 sentences)"
    assert [line.partition(" [")[0] for line in sections] == [
        "  Methods",
        "    Counting",
        "  Results",
    ]
    assert sections[1] == "    Counting [line 7; 3 sentences]"
    assert len(call("outline", document="Herring", max_depth=1).splitlines()) == 3


def test_an_outline_names_authors_and_date(call, index, sea):
    index.add(replace(sea, title="Fishes", authors=("Ada L", "Ben M"), date="2024-05"))
    text = call("outline", document="Fishes")
    assert text.startswith("Fishes (document 2; Ada L, Ben M; 2024-05; 12 sentences)\n")


def test_untitled_sections_are_known_by_their_first_words(call, index):
    index.add(Document.from_text("Salt is white and comes from the sea near us.", title="Salt"))
    text = call("outline", document="Salt")
    assert "(Salt is white and comes from the sea …)" in text


def test_documents_are_listed(call, index):
    text = call("list_documents")
    assert text == "Fish of the sea (document 0; 12 sentences)\nHerring (document 1; 5 sentences)"
    assert call("list_documents", contains="HERR") == "Herring (document 1; 5 sentences)"
    index.add([Document.from_sections(f"Log {i:02}", [("", "Ice.")]) for i in range(60)])
    text = call("list_documents", contains="log")
    assert text.endswith("… and 10 more: give offset=50")
    assert len(call("list_documents", contains="log", offset=50).splitlines()) == 10


def test_nothing_is_found_in_an_empty_section(call):
    assert call("search", query="cod", section="no such title") == "Nothing was found."


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("search", {"query": " "}, "the query is empty: say what to look for"),
        ("search", {"query": "cod", "top_k": 0}, f"top_k must be from 1 to {MAX_RESULTS}, got 0"),
        ("search", {"query": "cod", "context": -1}, "context must be from 0 to 20, got -1"),
        ("search", {}, "query: field required"),
        ("search", {"query": "cod", "by": "page"}, "by: input should be 'passage', 'section'"),
        ("search", {"query": "cod", "document": "Herrings"}, "did you mean Herring?"),
        ("ask", {"query": "cod?", "document": "o'x"}, "list_documents shows what there is"),
        ("read", {"document": 99}, "has no document 99: list_documents shows what there is"),
        (
            "summarize",
            {"document": "Herring", "section": "Boats"},
            "Herring has no section 'Boats'",
        ),
        ("summarize", {"document": "Herring", "section": ""}, "Herring has no section ''"),
        ("context", {"query": "cod", "tokens": 0}, "tokens must be from 1 to"),
        ("context", {}, "2 documents match"),
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
    assert str(tmp_path / "b" / "log.md") in call("read", document="b/log.md")


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
    assert found.content[0].text.startswith("1. Fish of the sea · ")
    assert failed.is_error
    assert errors.read_text() == ""


def test_says_if_the_answer_is_probably_not_there(call, encoder, monkeypatch):
    query = "What is the capital of Australia?"
    for least, says in ((-1.0, False), (1.1, True)):
        monkeypatch.setattr(encoder.model.config, "min_likely_score", least)
        for tool in ("ask", "search"):
            text = call(tool, query=query)
            assert text.startswith("Probably not in here; what comes closest:\n") == says
