"""The Model Context Protocol server, as the SDK's own client meets it."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest

pytest.importorskip("mcp.server.mcpserver")

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

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
        assert call("search", query="herring", document=title, top_k=1) == (
            f"1. minutes · line 3 · Food · document {number[title]}, sentence 1\nThey eat herring."
        )


def test_documents_of_the_same_name_and_title_are_told_apart_by_their_numbers(index, call, fail):
    index.add(
        [
            Document.from_sections("Minutes", [("Food", f"They eat {food}.")])
            for food in ("herring", "krill")
        ]
    )
    listed = call("outline")
    numbers = [one.number for one in index.documents() if one.title == "Minutes"]
    for number, food in zip(numbers, ("herring", "krill"), strict=True):
        assert f"Minutes (document {number}; 1 sentence)" in listed
        for document in (number, str(number)):
            found = f"1. Minutes · line 3 · Food · document {number}, sentence 1\nThey eat {food}."
            assert call("search", query="food", document=document) == found
            read = call("read", document=document)
            assert read == f"[1: Minutes · line 3 · Food]\nThey eat {food}."
            digest = call("context", document=document)
            assert digest.endswith(f"[1] is sentence 1 of Minutes, document {number}")
            outline = call("outline", document=document)
            assert outline.startswith(f"Minutes (document {number})\n")
    assert fail("outline", document="Minutes") == (
        "several documents match 'Minutes': give the number of the one that you mean, "
        f"{numbers[0]} (Minutes), {numbers[1]} (Minutes)"
    )


def test_a_name_that_is_a_number(index, call, fail):
    index.add(Document.from_sections("1", [("Ice", "The ice is thick.")]))
    assert call("outline", document=1).startswith("Herring (document 1)")
    assert "several documents match '1'" in fail("outline", document="1")


def test_tools_explain_themselves(index):
    async def run():
        async with Client(make_server(index.path, model=index.encoder)) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = anyio.run(run)
    names = ["outline", "search", "context", "read"]
    assert [tool.name for tool in tools] == names
    assert all(f"`{name}`" in instructions for name in names)
    for tool in tools:
        assert len(tool.description) > 80
        assert tool.annotations.read_only_hint
        assert all("description" in one for one in tool.input_schema["properties"].values())


def test_search(call, index):
    text = call("search", query="Each count was repeated three times.")
    [hit, *_] = index.search("Each count was repeated three times.")
    first, *others = text.split("\n\n")
    assert len(others) == 4
    where, shown = first.splitlines()
    assert f" · document {hit.document_idx}, sentence" in where
    assert shown == hit.text


def test_results_are_explained(tmp_path):
    index = Index.create(tmp_path / "library")
    index.add(Document.from_sections("Fish", [("Food", "They eat herring.")]))

    async def run():
        async with Client(make_server(index.path)) as client:
            return await client.call_tool("search", {"query": "Herrings", "explain": True})

    [content] = anyio.run(run).content
    where, _ = content.text.split("\n")
    assert where.endswith("sentence 1 · Herrings → herring")


def test_results_have_their_places_without_their_documents(call, monkeypatch):
    monkeypatch.setattr(Index, "document", None)
    text = call("search", query="nets", document="herring", section="counting", top_k=2)
    place = "Herring · line 7 · Methods › Counting · document 1, sentences 2 to 4"
    assert text == f"1. {place}\n{COUNTING}"


@pytest.mark.parametrize("unit", ["section", "document"])
def test_larger_units_show_their_best_sentence(call, index, unit):
    text = call("search", query="Herring fell by a third.", by=unit, top_k=1)
    [hit] = index.search("Herring fell by a third.", by=unit, top_k=1)
    assert text.splitlines()[1:] == [hit.best.text]


def test_read(call):
    text = call("read", document="Herring")
    assert text.split("\n\n")[1] == f"[2: Herring · line 7 · Methods › Counting]\n{COUNTING}"
    last = ["[5: Herring · line 11 · Results]", "Herring fell by a third."]
    assert text.splitlines()[-2:] == last
    assert text.count(": Herring") == 3


def test_read_a_part(call):
    text = call("read", document="Herring", section="counting", first=3, sentences=1)
    assert "\nEach count was repeated three times.\n" in text
    assert text.endswith("… and 1 sentence more: give first=4")
    around = call("read", document="Herring", first=1, sentences=2)
    assert "We worked in June." in around
    assert around.endswith("… and 3 sentences more: give first=3")
    by_path = call("read", document="Herring", section="Methods › Counting")
    assert by_path == f"[2: Herring · line 7 · Methods › Counting]\n{COUNTING}"


def test_context(call):
    text = call("context", query="How often was each count repeated?", tokens=60)
    assert "# Herring" in text
    assert "document" in text.splitlines()[-1]
    digest = call("context", document="Herring", tokens=500)
    assert "## Methods\n[1] We worked in June." in digest
    assert digest.endswith("\n[1] is sentence 1 of Herring, document 1")


def test_context_says_where_to_read_on(call, sea):
    """The number of a sentence leads to the place from which to read."""
    text = call("context", query="What do fish eat?", tokens=2000)
    *_, last = text.splitlines()
    number, rest = last.removeprefix("[").split("] is sentence ")
    sentence = rest.partition(" of ")[0]
    shown = text.split(f"[{number}] ")[1].split(" [")[0].strip()
    document = int(rest.rpartition(" ")[2])
    read = call("read", document=document, first=int(sentence), sentences=1)
    assert read.splitlines()[1].endswith(shown.splitlines()[0])


def test_outline(call):
    title, *sections = call("outline", document="Herring").splitlines()
    assert title == "Herring (document 1)"
    assert [line.partition(" [")[0] for line in sections] == [
        "  Methods",
        "    Counting",
        "  Results",
    ]
    assert sections[1] == "    Counting [line 7; sentences 2 to 4]"
    assert len(call("outline", document="Herring", depth=1).splitlines()) == 3


def test_the_outline_of_a_section(call):
    assert call("outline", document="Herring", section="methods").splitlines() == [
        "Herring (document 1)",
        "Methods [line 3; sentences 1 to 4]",
        "  Counting [line 7; sentences 2 to 4]",
    ]


def test_an_outline_names_authors_and_date(call, index, sea):
    index.add(replace(sea, title="Fishes", authors=("Ada L", "Ben M"), date="2024-05"))
    text = call("outline", document="Fishes")
    assert text.startswith("Fishes (document 2; Ada L, Ben M; 2024-05)\n")


def test_untitled_sections_are_known_by_their_first_words(call, index):
    index.add(Document.from_text("Salt is white and comes from the sea near us.", title="Salt"))
    text = call("outline", document="Salt")
    assert "(Salt is white and comes from the sea …)" in text


def test_documents_are_listed(call, index):
    text = call("outline")
    assert text == "Fish of the sea (document 0; 12 sentences)\nHerring (document 1; 5 sentences)"
    index.add([Document.from_sections(f"Log {i:03}", [("", "Ice.")]) for i in range(120)])
    assert call("outline").endswith("… and 22 more: give offset=100")
    assert len(call("outline", offset=100).splitlines()) == 22


def test_nothing_is_found_in_an_empty_section(call):
    assert call("search", query="cod", section="no such title") == "Nothing was found."


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("search", {"query": " "}, "the query is empty: say what to look for"),
        ("search", {"query": "cod", "top_k": 0}, f"top_k must be from 1 to {MAX_RESULTS}, got 0"),
        ("search", {}, "query: field required"),
        ("search", {"query": "cod", "by": "page"}, "by: input should be 'passage', 'section'"),
        ("search", {"query": "cod", "document": "Herrings"}, "outline lists the documents"),
        ("context", {"query": "cod?", "document": "o'x"}, "outline lists the documents"),
        ("read", {"document": 99}, "has no document 99: outline lists the documents"),
        ("read", {"document": "Herring", "section": "Boats"}, "Herring has no section 'Boats'"),
        ("outline", {"document": "Herring", "section": ""}, "Herring has no section ''"),
        ("context", {"query": "cod", "tokens": 0}, "tokens must be from 1 to"),
        ("context", {}, "2 documents match"),
        ("outline", {"document": "Herring", "depth": 0}, "depth must be at least 1"),
        ("outline", {"offset": -1}, "offset must be at least 0"),
        ("read", {"document": "Herring", "first": 6}, "first must be from 1 to 5, got 6"),
        (
            "read",
            {"document": "Herring", "section": "Counting", "first": 1},
            "first must be from 2 to 4, got 1",
        ),
        ("search", {"query": "cod", "limit": 3}, "search takes no limit, only query, by, top_k"),
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
            await client.call_tool("outline", {})
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


def test_over_http_clients_need_the_token(tmp_path, encoder, sea):
    path = tmp_path / "library"
    Index.create(path, model=encoder).add(sea)
    command = "from foveate.cli import main; main()"
    token = "a-token-of-some-length"

    async def run(url):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            return await client.call_tool("outline", {})

    with subprocess.Popen(
        [sys.executable, "-c", command, "mcp", "--library", str(path), "--port", "0"],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "FOVEATE_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = process.stdout.readline().split()[-1]
            found = anyio.run(run, url)
            with pytest.raises(HTTPError, match="401"):
                urlopen(url, data=b"{}")
        finally:
            process.terminate()
    assert found.content[0].text == "Fish of the sea (document 0; 12 sentences)"


def test_says_if_the_answer_is_probably_not_there(call, encoder, monkeypatch):
    query = "What is the capital of Australia?"
    for least, says in ((-1.0, False), (1.1, True)):
        monkeypatch.setattr(encoder.model.config, "min_likely_score", least)
        text = call("search", query=query)
        assert text.startswith("Probably not in here; what comes closest:\n") == says
