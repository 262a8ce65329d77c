"""`foveate ask --llm` and `foveate summarize --llm` as a user meets them."""

import json

import pytest

pytest.importorskip("openai", reason="servers need the extra `llm`")

from tests.cli.conftest import FISH
from tests.llm import serving_llm

QUESTION = "what do cod eat?"


@pytest.fixture
def llm():
    """Run a server; give the options that name it."""
    servers = []

    def run(*script):
        server = serving_llm(*script)
        servers.append(server)
        url, _ = server.__enter__()
        return "--llm", url, "--llm-model", "small"

    yield run
    for server in servers:
        server.__exit__(None, None, None)


def test_an_answer_is_shown_with_what_it_cites(foveate, fish, llm):
    said = "They eat small fish [2]. Whales sing [4]. Eels too [9]. So it is."
    code, output, errors = foveate("ask", QUESTION, fish, *llm(said))
    assert (code, errors) == (0, "")
    assert output == (
        f"{said}\n\n"
        "check: “Whales sing [4].” is weakly supported by what it cites\n"
        "check: “Eels too [9].” cites what was not shown: 9\n"
        "check: “So it is.” cites nothing\n\n"
        "[2] They eat small fish.\n    line 5 · Cod\n"
        "[4] Eels are long.\n    line 9 · Eel\n\n"
    )


def test_json_points_into_the_file(foveate, fish, llm):
    code, output, _ = foveate("ask", QUESTION, fish, *llm("They eat small fish [2]."), "--json")
    found = json.loads(output)
    assert code == 0
    assert (found["question"], found["text"], found["found"]) == (
        QUESTION,
        "They eat small fish [2].",
        True,
    )
    [written], [cited] = found["written"], found["cited"]
    assert (written["cites"], written["supported"]) == ([2], True)
    assert FISH[cited["start"] : cited["end"]] == cited["text"] == "They eat small fish."


def test_not_in_the_document(foveate, fish, llm):
    code, output, _ = foveate("ask", QUESTION, fish, *llm("Not in the document."))
    assert (code, output) == (0, "Not in the document.\n\n")


def test_summaries(foveate, fish, llm):
    options = llm("Cod swim in cold seas [1].")
    code, output, _ = foveate("summarize", fish, *options)
    assert code == 0
    assert output.startswith("Fish")
    assert "Cod swim in cold seas [1].\n\n[1] Cod swim in cold seas.\n    line 5 · Cod\n" in output
    code, output, _ = foveate("summarize", fish, fish, *options, "--json", "--words", "20")
    assert code == 0
    assert [one["text"] for one in json.loads(output)] == ["Cod swim in cold seas [1]."] * 2


def test_a_library(foveate, fish, tmp_path, llm):
    pytest.importorskip("lance", reason="a library needs the extra `index`")
    library = tmp_path / "sea.library"
    foveate("index", fish, "--library", library)
    options = (*llm("They eat small fish [2]."), "--library", library)
    for arguments in (("ask", QUESTION), ("summarize", "--query", "cod"), ("summarize",)):
        code, output, _ = foveate(*arguments, *options)
        assert code == 0
        assert "[2] They eat small fish.\n    line 5 · Cod" in output
    code, output, _ = foveate("summarize", *options, "--json")
    assert json.loads(output)["written"][0]["supported"]


def test_mistakes_are_one_sentence(foveate, fish, llm):
    for options, expected in (
        (("--llm", "http://127.0.0.1:9/v1", "--llm-model", "m"), "is the server running?"),
        (("--llm", "http://127.0.0.1:9/v1"), "--llm needs --llm-model"),
        (("--llm-model", "m"), "--llm-model goes with --llm"),
        (("--tokens", "9"), "--tokens goes with --llm"),
        ((*llm(404),), "refuses: Error code: 404 - no such model"),
        ((*llm(b"<html></html>"),), "does not answer as OpenAI's API does"),
        ((*llm("Fine."), "--tokens", "2"), "2 tokens are too few even for the title"),
        ((*llm("Fine."), "--choice", "a"), "leave out --llm"),
    ):
        code, output, errors = foveate("ask", QUESTION, fish, *options)
        assert (code, output, errors.count("\n")) == (2, "", 1)
        assert expected in errors
    code, _, errors = foveate("summarize", fish, *llm("Fine."), "--keywords", "3")
    assert code == 2
    assert "leave out --llm" in errors
