import json

import pytest

from tests.cli.conftest import FISH
from tests.led import bpe, led


def test_keywords_with_score_and_places(foveate, fish):
    code, output, _ = foveate("keywords", fish, "-k", 3)
    assert code == 0
    assert output.startswith("Fish\n")
    assert output.count("\n") == 5
    assert "eels" in output


@pytest.mark.parametrize("method", ["phrases", "tfidf", "random", "gibberish"])
def test_keywords_for_machines(foveate, fish, method):
    code, output, _ = foveate("keywords", fish, "--top-k", 4, "--method", method, "--json")
    found = json.loads(output)
    assert code == 0
    assert len(found) == 4
    for keyword in found:
        assert set(keyword) == {"text", "score", "language", "spans"}
        for span in keyword["spans"]:
            line = int(span["place"].removeprefix("line "))
            first = keyword["text"].lower().split()[0]
            assert first in FISH.splitlines()[line - 1].lower()


def test_keywords_of_another_language(foveate, tmp_path):
    path = tmp_path / "fische.txt"
    path.write_text("Schwimmt Kabeljau?")
    _, output, _ = foveate("keywords", path, "--method", "tfidf")
    assert "no keywords: none of its words is known in 'en'; try another --language" in output
    german = ("--language", "de", "--json")
    _, output, _ = foveate("keywords", path, "--method", "tfidf", *german)
    assert [keyword["text"] for keyword in json.loads(output)] == ["schwimmt"]
    _, output, _ = foveate("keywords", path, *german)
    assert [keyword["text"] for keyword in json.loads(output)] == ["Kabeljau", "schwimmt"]


def test_phrases_are_found_by_default(foveate, tmp_path):
    path = tmp_path / "sea.md"
    path.write_text("# Life below\n\nThe deep sea is dark. Few fish live in the deep sea.\n")
    _, output, _ = foveate("keywords", path, "--json")
    best = json.loads(output)[0]
    assert best["text"] == "deep sea"
    assert [span["text"] for span in best["spans"]] == ["deep sea", "deep sea"]


def test_a_document_of_very_common_words_has_no_keywords(foveate, tmp_path):
    path = tmp_path / "common.txt"
    path.write_text("It is what it is.")
    code, output, _ = foveate("keywords", path)
    assert code == 0
    assert "no keywords: it has no words, or only very common ones" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--language", "tlh"], "there are no word frequencies for the language 'tlh'"),
        (["--method", "rake"], "there is no method 'rake'"),
    ],
)
def test_mistakes_are_one_sentence(foveate, fish, options, message):
    code, output, error = foveate("keywords", fish, *options)
    assert (code, output) == (2, "")
    assert error.startswith("foveate: ")
    assert message in error


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("led")
    tokenizer = bpe([FISH])
    tokenizer.save_pretrained(folder)
    led(len(tokenizer)).save_pretrained(folder)
    return folder


def test_keywords_that_leave_no_room(foveate, fish, checkpoint):
    many = [option for i in range(600) for option in ("--keyword", f"w{i}")]
    code, output, error = foveate("summarize", fish, "--model", checkpoint, *many)
    assert (code, output) == (2, "")
    assert "the keywords fill all 512 tokens of the input and leave no room for the text" in error


@pytest.mark.parametrize("guidance", [["--keywords", 2], ["--keyword", "cod", "--keyword", "nets"]])
def test_a_summary_is_guided(foveate, fish, checkpoint, guidance):
    arguments = ("--model", checkpoint, "--device", "cpu", "--words", 5, "--json")
    code, output, _ = foveate("summarize", fish, *arguments, *guidance)
    assert code == 0
    assert json.loads(output)[0]["sentences"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keywords", 2, "--keyword", "cod"], "not both"),
        (["--keywords", 2], "keywords guide a generative model"),
        (["--keywords", 0], "--keywords"),
        (["--keyword", " "], "a keyword is empty"),
    ],
)
def test_guidance_that_makes_no_sense(foveate, fish, options, message):
    code, _, error = foveate("summarize", fish, *options)
    assert code == 2
    assert message in error


def test_help_teaches_by_example(foveate):
    code, output, _ = foveate("keywords", "--help")
    assert code == 0
    assert "foveate keywords " in output
