"""The command as a user meets it: exit codes, output, and one clear sentence per mistake."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile

import pytest
from rich.console import Console

from foveate import Embeddings
from tests.cli.conftest import FISH
from tests.paths import ROOT
from tests.profiles import NIGHTLY

EXAMPLE = str(ROOT / "examples" / "pep-0703.rst")


def test_summarize_shows_sentences_with_their_place(foveate, fish):
    code, output, _ = foveate("summarize", fish, "--sentences", 2)
    assert code == 0
    assert "Fish" in output
    assert "Cod swim in cold seas.\n  line 5 · Cod\n" in output


def test_summarize_json_points_into_the_file(foveate, fish):
    code, output, _ = foveate("summarize", fish, "--words", 8, "--json")
    [summary] = json.loads(output)
    assert code == 0
    assert 0 < len(summary["text"].split()) <= 8
    for sentence in summary["sentences"]:
        assert FISH[sentence["start"] : sentence["end"]] == sentence["text"]
        line = int(sentence["place"].removeprefix("line "))
        assert FISH.splitlines()[line - 1].count(sentence["text"])


def test_summaries_of_several_documents(foveate, fish, tmp_path):
    other = tmp_path / "cows.txt"
    other.write_text("Cows eat grass all day long. They give milk to those who ask for it.")
    code, output, _ = foveate("summarize", fish, other, "--sentences", 1)
    assert code == 0
    assert output.index("fish.md") < output.index("cows.txt")
    code, output, _ = foveate("summarize", fish, other, "--sentences", 1, "--json")
    first, second = json.loads(output)
    assert [one["document"] for one in first["sentences"]] == [str(fish)]
    assert [one["document"] for one in second["sentences"]] == [str(other)]
    assert (first["language"], second["title"]) == ("en", "")


@pytest.mark.skipif(not NIGHTLY, reason="a long document takes long; README summarizes it, too")
def test_summarize_a_real_paper_by_a_query(foveate):
    code, output, _ = foveate("summarize", EXAMPLE, "-s", 2, "-q", "garbage collection", "--json")
    sections = [" › ".join(sentence["path"]) for sentence in json.loads(output)[0]["sentences"]]
    assert code == 0
    assert all("Garbage Collect" in section for section in sections)


def test_search_many_documents(foveate, fish, tmp_path):
    other = tmp_path / "cows.txt"
    other.write_text("Cows eat grass all day long. They give milk.")
    code, output, _ = foveate("search", "what do cows eat?", fish, other, "--top-k", 1, "--json")
    [hit] = json.loads(output)
    assert code == 0
    assert hit["text"] == "Cows eat grass all day long. They give milk."
    assert hit["best"]["text"] == "Cows eat grass all day long."
    assert hit["document"] == str(other)
    code, output, _ = foveate("search", "what do cows eat?", fish, other, "--top-k", 1)
    assert f"{other} · line 1" in output


def test_search_by_section_and_document(foveate, fish, tmp_path):
    other = tmp_path / "cows.md"
    other.write_text("# Cows\n\nCows eat grass all day long.")
    query = ("search", "who catches cod with nets?", fish, other, "--top-k", 1, "--context", 0)
    code, output, _ = foveate(*query, "--by", "section")
    assert code == 0
    assert re.fullmatch(
        rf"0\.\d\d  Fishermen catch them with nets.\n      {fish} · line 5 · Cod\n\n", output
    )
    code, output, _ = foveate(*query, "--by", "document")
    assert output.endswith(f"  Fishermen catch them with nets.\n      {fish} · Fish\n\n")
    [hit] = json.loads(foveate(*query, "--by", "section", "--json")[1])
    assert (hit["text"], hit["best"]["text"]) == ("Cod", "Fishermen catch them with nets.")
    assert FISH[hit["start"] : hit["end"]].count(".") == 3
    [hit] = json.loads(foveate(*query, "--by", "section", "--json", "--context", 1)[1])
    assert (hit["before"], hit["after"]) == ("They eat small fish.", "")
    code, _, error = foveate(*query, "--by", "page")
    assert code == 2
    assert "'page' is not one of" in error


def test_hits_are_marked_among_their_neighbours(foveate, fish):
    query = ("search", "small fish", fish, "--top-k", 1)
    code, output, _ = foveate(*query)
    assert code == 0
    assert output.endswith(
        "  Cod swim in cold seas. **They eat small fish.** Fishermen catch them with nets.\n"
        "      line 5 · Cod\n\n"
    )
    assert foveate(*query, "--context", -1)[0] == 2


def test_results_are_explained_by_words(foveate, fish):
    query = ("search", "who uses a net?", fish, "--top-k", 1)
    _, plain, _ = foveate(*query)
    code, output, _ = foveate(*query, "--explain")
    assert code == 0
    assert output == f"{plain.rstrip()}\n      net → nets\n\n"
    [hit] = json.loads(foveate(*query, "--explain", "--json")[1])
    [match] = hit["matches"]
    assert (match["query_word"], match["word"]) == ("net", "nets")
    assert hit["best"]["text"][match["start"] : match["end"]] == "nets"
    [passage] = json.loads(foveate("ask", *query[1:], "--explain", "--json")[1])["passages"]
    assert passage["matches"] == hit["matches"]


def test_on_a_terminal_hits_are_bold_and_wrapped(foveate, fish, monkeypatch):
    terminal = Console(
        highlight=False, soft_wrap=True, force_terminal=True, width=40, color_system="standard"
    )
    monkeypatch.setattr("foveate.cli.common.console", terminal)
    code, output, _ = foveate("search", "small fish", fish, "--top-k", 1)
    assert code == 0
    assert "**" not in output
    assert "\x1b[1mThey eat" in output
    assert "\x1b[2mCod swim" in output
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    assert max(map(len, plain.splitlines())) <= 40


def test_json_has_the_neighbours_and_the_language(foveate, fish):
    query = ("search", "small fish", fish, "--top-k", 1, "--by", "section", "--json")
    [hit] = json.loads(foveate(*query, "--context", 1)[1])
    assert hit["best"]["text"] == "They eat small fish."
    assert hit["before"] == "Cod swim in cold seas."
    assert hit["after"] == "Fishermen catch them with nets."
    assert hit["language"] == "en"
    assert hit["boxes"] == []
    [hit] = json.loads(foveate(*query)[1])
    assert (hit["before"], hit["after"]) == ("", "")


@pytest.mark.parametrize("command", ["search", "summarize", "ask", "embed", "inspect", "plot"])
def test_a_mistyped_model_is_refused_before_anything_is_read(
    foveate, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    query = {"search": ["cod"], "ask": ["cod?"], "plot": ["tree"], "embed": ["-o", "a.parquet"]}
    code, _, error = foveate(command, *query.get(command, []), "no.txt", "--model", "./modle")
    assert (code, error) == (2, "foveate: there is no folder ./modle\n")


def test_embed_writes_vectors_of_all_levels(foveate, fish, tmp_path):
    path = tmp_path / "fish.safetensors"
    code, output, _ = foveate("embed", fish, "--output", path, "--json")
    assert code == 0
    counts = {"document": 1, "section": 2, "sentence": 5}
    printed = json.loads(output)
    encoder = printed.pop("encoder")
    assert printed == {"output": str(path), **counts}
    assert (encoder["runner"], encoder["dimension"]) == ("foveate", 384)
    assert Embeddings.load(path).vectors.shape == (8, 384)


def test_embed_counts_in_words(foveate, tmp_path):
    text, vectors = tmp_path / "cod.txt", tmp_path / "cod.safetensors"
    text.write_text("Cod swim. They eat small fish.")
    code, output, _ = foveate("embed", text, "--output", vectors)
    assert code == 0
    assert output == f"{vectors}: 1 document, 1 section, 2 sentences; 384 dimensions\n"


def test_standard_input(foveate):
    code, output, _ = foveate("inspect", "-", "--format", "markdown", "--json", stdin=FISH.encode())
    assert code == 0
    assert json.loads(output)["title"] == "Fish"


def test_who_says_it(foveate, tmp_path):
    path = tmp_path / "meeting.json"
    turns = [("Ann", "We buy two boats."), ("Bob", "The cod is gone.")]
    topics = [{"topic": "Fleet", "relevant_text_span": [[0, 1]]}]
    meeting = {"turns": [{"speaker": who, "text": said} for who, said in turns], "topics": topics}
    path.write_text(json.dumps(meeting))
    for command in (["summarize", path], ["search", "boats", path], ["ask", "boats", path]):
        code, output, _ = foveate(*command)
        assert code == 0
        assert "Ann · turn 1 · Fleet" in output or "Ann: **We buy two boats.**\n" in output
        assert "Ann" in {
            one.get("speaker") for one in _dicts(json.loads(foveate(*command, "--json")[1]))
        }


def _dicts(found):
    if isinstance(found, dict):
        yield found
    for one in found.values() if isinstance(found, dict) else found:
        if isinstance(one, dict | list):
            yield from _dicts(one)


def test_compressed_standard_input(foveate):
    data = gzip.compress(b"Cod swim. Eels, too.")
    code, output, _ = foveate("inspect", "-", "--json", stdin=data)
    assert code == 0
    assert json.loads(output)["num_sentences"] == 2


def test_damaged_standard_input(foveate):
    code, _, error = foveate("summarize", "-", stdin=gzip.compress(b"Cod swim.")[:-4])
    assert code == 2
    assert error.startswith("foveate: standard input is not a whole gzip file")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["summarize", "search", "embed", "inspect"])
def test_help_teaches_by_example(foveate, command):
    code, output, _ = foveate(command, "--help")
    assert code == 0
    assert f"foveate {command} " in output


def zip_bomb():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b"\0" * (300 << 20))
    return content.getvalue()


BOMB = b'<!DOCTYPE article [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><article><p>&b;</p></article>'
OUTSIDE = (
    b'<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/passwd">]><article><p>&x;</p></article>'
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "does not exist"),
        ("empty.txt", b"", "is empty"),
        ("binary.txt", b"MZ\0\0\1", "is not text"),
        ("table.xls", b"PK\3\4\0", "ends in .xls"),
        ("bodiless.html", b"<html><head><title>t</title></head></html>", "bodiless.html"),
        ("bomb.xml", BOMB, "entit"),
        ("outside.xml", OUTSIDE, "entit"),
        ("bomb.docx", zip_bomb, "bomb.docx"),
        ("corrupt.pdf", b"%PDF-1.7 and then nothing", "corrupt.pdf"),
        ("folder", "folder", "holds no file"),
    ],
)
def test_unreadable_input_is_one_sentence(foveate, tmp_path, name, content, message):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content() if callable(content) else content)
    code, output, error = foveate("inspect", path)
    assert code == 2
    assert output == ""
    assert error.startswith("foveate: ")
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert "root:" not in error  # of /etc/passwd


def test_a_model_folder_without_weights(foveate, fish, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "hdt"}')
    code, _, error = foveate("search", "fish", fish, "--model", tmp_path)
    assert code == 2
    assert "model.safetensors" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "cod", "no.txt", "--top-k", "0"], "(see `foveate search --help`)"),
        (["search", "cod", "no.txt", "--top-k", "many"], "'--top-k'"),
        (["summarize", "no.txt", "--devise", "cpu"], "--device"),
        (["sumarize", "no.txt"], "'summarize'? (see `foveate --help`)"),
        (["embed", "no.txt"], "'--output'"),
        (["plot", "trees"], "'tree'? (see `foveate plot --help`)"),
        (["search"], "'QUERY'"),
    ],
)
def test_a_mistyped_command_is_one_sentence(foveate, arguments, message):
    code, output, error = foveate(*arguments)
    assert (code, output) == (2, "")
    assert error.startswith("foveate: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["library"], ["plot"]])
def test_without_a_command_the_help_is_shown(foveate, arguments):
    code, output, error = foveate(*arguments)
    assert (code, error) == (2, "")
    assert "Commands" in output


def test_an_empty_name_is_not_the_current_folder(foveate, fish, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = "foveate: the name of a file is empty: give one"
    for arguments in (["summarize"], ["search", "cod"], ["index", "--library", "new"]):
        code, output, error = foveate(*arguments, "")
        assert (code, output) == (2, "")
        assert error.rstrip(".\n") == message
    assert not (tmp_path / "new").exists()


def test_contradicting_options(foveate, fish):
    code, _, error = foveate("summarize", fish, "--words", 5, "--sentences", 1)
    assert code == 2
    assert "not both" in error


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["search", "cod"], "--top-k"),
        (["ask", "cod"], "--top-k"),
        (["keywords"], "--top-k"),
        (["summarize"], "--sentences"),
        (["summarize"], "--words"),
    ],
)
def test_numbers_are_checked_before_anything_is_read(foveate, command, option):
    code, output, error = foveate(*command, "no.txt", option, 0)
    assert (code, output) == (2, "")
    assert option in error
    assert "no.txt" not in error


def test_an_empty_query_is_refused_before_anything_is_read(foveate):
    for command in ("search", "ask"):
        code, _, error = foveate(command, " ", "no.txt")
        assert (code, error) == (2, "foveate: the query is empty: say what to look for\n")


@pytest.mark.parametrize("output", ["nowhere/x.safetensors", "x.csv", "."])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    foveate, fish, tmp_path, monkeypatch, output
):
    monkeypatch.chdir(tmp_path)
    code, _, error = foveate("embed", fish, "--output", output)
    assert code == 2
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [fish]


def test_two_hundred_thousand_words_without_punctuation(foveate, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("word " * 200_000)
    code, output, _ = foveate("inspect", path, "--json")
    assert code == 0
    assert json.loads(output)["longest"]["num_tokens"] == 200


def test_sixty_nested_headings(foveate, tmp_path):
    path = tmp_path / "deep.html"
    path.write_text(
        "".join(f"<h{min(i, 6)}>H{i}</h{min(i, 6)}><p>Text {i}.</p>" for i in range(1, 61))
    )
    assert foveate("inspect", path)[0] == 0


@pytest.mark.parametrize("command", [("search",), ("plot", "vip")])
def test_the_query_comes_first(foveate, fish, command):
    code, output, error = foveate(*command, fish, "how are cod caught?")
    assert (code, output) == (2, "")
    name = " ".join(("foveate", *command))
    assert error == f"foveate: the query comes first: {name} 'how are cod caught?' {fish}\n"


def test_a_query_may_be_the_name_of_a_file(foveate, fish):
    assert foveate("search", fish, fish)[0] == 0


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("foveate.cli.app", {"torch", "transformers", "pydantic"}),
        ("foveate.tasks.keywords", {"torch", "transformers"}),
        ("foveate.training.recipes", {"torch", "transformers"}),
    ],
)
def test_what_needs_no_model_starts_without_loading_what_takes_long(module, heavy):
    code = f"import sys, {module}; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recipes_are_listed(foveate):
    code, output, _ = foveate("train", "--recipes")
    assert code == 0
    assert "hdt-e " in output


def test_training_needs_a_recipe(foveate):
    code, output, error = foveate("train")
    assert (code, output) == (2, "")
    assert error == "foveate: name a recipe, or list the installed ones with --recipes\n"


def test_the_version(foveate):
    code, output, _ = foveate("--version")
    assert (code, output) == (0, "0.1.0\n")


def test_the_shell_completes_options(foveate, monkeypatch):
    monkeypatch.setenv("_FOVEATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "foveate summarize --wo")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert foveate() == (0, "--words\n", "")


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "foveate", "--version"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"0.1.0\n"


def test_warnings_are_one_sentence(foveate, fish, monkeypatch):
    def search(*arguments, **options):
        warnings.warn("the sea is rough", stacklevel=2)
        return []

    monkeypatch.setattr("foveate.tasks.search.search", search)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, error = foveate("search", "cod", fish)
    assert (code, error) == (0, "foveate: the sea is rough\n")


def test_what_a_terminal_has_no_code_for_is_replaced(tmp_path):
    (tmp_path / "mill.md").write_text("It costs “5 €”.", encoding="utf-8")
    command = [sys.executable, "-m", "foveate", "search", "cost", tmp_path / "mill.md"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    found = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"It costs ?5 ??." in found.stdout
