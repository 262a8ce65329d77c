"""`foveate ask` as a user meets it."""

import json

import pytest

from tests.cli.conftest import FISH


@pytest.fixture
def ask(foveate, fish):
    """Ask a file; give exit code, standard output and standard error."""
    return lambda *arguments: foveate("ask", fish, *arguments)


def test_passages_are_shown_with_their_places(ask):
    code, output, _ = ask("how are cod caught?", "--top", "1")
    assert code == 0
    assert "They eat small fish. Fishermen catch them with nets.\n      Cod, line 5" in output


def test_json_points_into_the_file(ask):
    code, output, _ = ask("how are cod caught?", "--json")
    found = json.loads(output)
    assert code == 0
    assert (found["title"], found["question"], found["answer"]) == (
        "Fish",
        "how are cod caught?",
        None,
    )
    assert len(found["passages"]) == 2
    for passage in found["passages"]:
        assert FISH[passage["start"] : passage["end"]] == passage["text"]


def test_mistakes_are_one_sentence(ask):
    code, output, error = ask(" ")
    assert (code, output, error) == (
        2,
        "",
        "foveate: the question is empty: say what to look for\n",
    )


def test_help_shows_examples(ask):
    code, output, _ = ask("--help")
    assert code == 0
    assert 'foveate ask contract.docx "who pays for delays?"' in output
