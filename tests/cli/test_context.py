"""`foveate context` as a user meets it."""

import json

import pytest

from tests.cli.conftest import FISH


def test_a_prompt_is_written(foveate, fish):
    code, output, errors = foveate("context", "what do cod eat?", fish, "--tokens", "32")
    assert (code, errors) == (0, "")
    assert output.startswith("# Fish\n\n## Cod")
    assert "[2] They eat small fish." in output
    assert "## Eel [… 2]" in output


def test_json_points_into_the_file(foveate, fish):
    code, output, _ = foveate("context", "what do cod eat?", fish, "-t", "40", "--json")
    found = json.loads(output)
    assert code == 0
    assert found["query"] == "what do cod eat?"
    assert found["tokens"] <= 40
    assert 2 in [one["number"] for one in found["sentences"]]
    for one in found["sentences"]:
        assert FISH[one["start"] : one["end"]] == one["text"]
        assert f"[{one['number']}] {one['text']}" in found["text"]


def test_a_digest(foveate, fish):
    code, output, _ = foveate("context", "", fish, "--tokens", "300")
    assert code == 0
    assert "[5] Nobody has seen them breed." in output


def test_a_library_is_shown_like_its_file(foveate, fish, tmp_path):
    pytest.importorskip("lance", reason="a library needs the extra `index`")
    library = tmp_path / "sea.library"
    foveate("index", fish, "--library", library)
    for query in ("what do cod eat?", ""):
        arguments = ("context", query, "--tokens", "40")
        _, expected, _ = foveate(*arguments, fish)
        assert foveate(*arguments, "--library", library) == (0, expected, "")
    code, output, _ = foveate("context", "fish", "--library", library, "--section", "Eel")
    assert code == 0
    assert "## Cod [… 3]" in output
    assert "[4] Eels are long." in output


def test_mistakes_are_one_sentence(foveate, fish, tmp_path):
    for arguments, expected in (
        ((fish, "--tokens", "2"), "2 tokens are too few even for the title"),
        ((fish, "--tokenizer", tmp_path / "none"), "there is no folder"),
        ((), "there is nothing to search"),
    ):
        code, output, errors = foveate("context", "cod", *arguments)
        assert (code, output, errors.count("\n")) == (2, "", 1)
        assert expected in errors
