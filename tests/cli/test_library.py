"""`foveate index` and `foveate library` as a user meets them."""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from subprocess import PIPE

import pytest


@pytest.fixture
def library(foveate, fish, tmp_path):
    folder = tmp_path / "sea.library"
    code, output, _ = foveate("index", fish, "--library", folder)
    assert code == 0
    assert output == f"{folder}: 1 added; 1 document, 5 sentences\n"
    return folder


def test_a_library_is_searched_like_files(foveate, fish, library):
    for command in ("search", "ask"):
        found, expected = (
            json.loads(foveate(command, "what do cod eat?", *source, "--explain", "--json")[1])
            for source in (("--library", library), (fish,))
        )
        if command == "ask":
            found, expected = found["passages"], expected["passages"]
        for result, other in zip(found, expected, strict=True):
            assert result.pop("score") == pytest.approx(other.pop("score"), abs=2e-4)
        assert found == expected
        assert found[0]["matches"]


def test_results_name_their_file(foveate, fish, library):
    code, output, _ = foveate("search", "what do cod eat?", "--library", library, "-k", "1")
    assert code == 0
    assert "Cod swim in cold seas. **They eat small fish.** Fishermen" in output
    assert f"{fish} · line 5 · Cod\n" in output


def test_a_library_is_summarized_by_a_query(foveate, fish, library):
    arguments = ("--query", "what do cod eat?", "--library", library, "-s", "1")
    code, output, _ = foveate("summarize", *arguments)
    assert code == 0
    assert "Cod swim in cold seas." in output
    assert f"{fish} · line 5 · Cod\n" in output
    found = json.loads(foveate("summarize", *arguments, "--path", fish, "--json")[1])
    assert found["text"] == "Cod swim in cold seas."
    assert [one["document"] for one in found["sentences"]] == [str(fish)]


def test_indexing_again_brings_it_up_to_date(foveate, fish, library, tmp_path):
    other = tmp_path / "salt.txt"
    other.write_text("Salt is white.")
    lists = f"{fish}\n{other}\n".encode()
    _, output, _ = foveate("index", "-", "--library", library, "--json", stdin=lists)
    counts = json.loads(output)
    assert (counts["added"], counts["unchanged"], counts["failed"]) == (1, 1, 0)
    other.unlink()
    _, output, _ = foveate("index", tmp_path, "--library", library, "--prune")
    assert "1 unchanged, 1 removed; 1 document, 5 sentences" in output


@pytest.mark.skipif(not find_spec("watchfiles"), reason="watchfiles is not installed")
def test_a_library_is_kept_current_while_files_change(fish, small_model, tmp_path):
    folder, library = fish.parent, tmp_path / "sea.library"  # which is in the folder

    def write(name, text):
        """Write as many editors do: a hidden file, which is then renamed."""
        (folder / f".{name}.swp").write_text(text)
        (folder / f".{name}.swp").rename(folder / name)

    command = [sys.executable, "-m", "foveate", "index", folder, "--library", library, "--watch"]
    command += ["--model", small_model]
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True)

    def said():
        return process.stdout.readline().partition(f"{library}: ")[2]

    try:
        assert said() == "1 added; 1 document, 5 sentences\n"
        write("eel.txt", "Eels are long.")
        assert said() == "1 added, 1 unchanged; 2 documents, 6 sentences\n"
        write("eel.txt", "Eels are long. They hide.")
        assert said() == "1 updated, 1 unchanged; 2 documents, 7 sentences\n"
        fish.unlink()
        assert said() == "1 unchanged, 1 removed; 1 document, 2 sentences\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()


def test_failures_are_named_at_the_end(foveate, fish, tmp_path):
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    library = tmp_path / "library"
    code, output, errors = foveate("index", tmp_path, "--library", library)
    assert code == 1
    assert "1 added" in output
    assert errors.count("\n") == 1
    assert "bad.pdf cannot be read as PDF" in errors
    code, _, errors = foveate("index", tmp_path, "--library", library, "--strict")
    assert (code, errors.count("\n")) == (2, 1)


def test_what_is_in_a_library_is_shown(foveate, fish, library):
    [entry] = json.loads(foveate("library", "list", library, "--json")[1])
    assert (entry["source"], entry["title"], entry["num_sentences"]) == (str(fish), "Fish", 5)
    assert "Fish" in foveate("library", "list", library)[1]
    assert json.loads(foveate("library", "show", library, "--json")[1])["documents"] == 1
    assert "  Cod (3)\n  Eel (2)\n" in foveate("library", "show", library, fish)[1]


def test_a_library_is_kept_in_order(foveate, fish, library):
    assert foveate("library", "compact", library)[0] == 0
    assert "1 document removed" in foveate("library", "remove", library, fish)[1]
    code, output, errors = foveate("search", "cod", "--library", library)
    assert (code, output) == (2, "")
    assert errors.startswith(f"foveate: no document of {library} matches a query: ")


def test_damage_is_said_in_a_sentence(foveate, fish, library):
    for path in (library / "library.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for command in (("search", "cod", "--library", library), ("library", "list", library)):
        code, output, errors = foveate(*command)
        assert (code, output, errors.count("\n")) == (2, "", 1)
        assert "restore it from a copy, or index the files into a new one" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "cod"), "nothing to search: name files (- for standard input), or a library"),
        (("search", "cod", "a.txt", "--library", "b"), "name either files or --library"),
        (("search", "cod", "a.txt", "--where", "page = 1"), "--where goes with --library"),
        (("search", "cod", "-l", "b", "--format", "pdf"), "--format says how files are read"),
        (("ask", "cod?", "--library", "b", "--strict"), "--strict says how files are read"),
        (("ask", "cod?", "--library", "none"), "there is no library in none: make one with"),
        (("ask", "cod?", "--library", "b", "--choice", "a"), "--choice is for a generative model"),
        (("summarize", "--library", "b"), "there is no library in b: make one with"),
        (("summarize", "a.txt", "--where", "page = 1"), "--where goes with --library"),
        (("summarize",), "nothing to summarize: name files (- for standard input), or a"),
        (("library", "list", "none"), "there is no library in none: make one with"),
        (("index", "none.txt", "--library", "none"), "none.txt does not exist: check the path"),
        (("index", "a.txt", "-l", "b", "--engine", "spark"), "there is no engine spark: name ray"),
        (("index", "a.txt", "-l", "b", "--workers", "2"), "--workers goes with --engine ray"),
        (("index", "a.txt", "-l", "b", "--watch"), "--watch goes with folders, and a.txt is none"),
        (
            ("index", "a.txt", "-l", "b", "--engine", "ray", "--device", "cpu"),
            "--device does not go with --engine ray: --gpus-per-worker says where workers run",
        ),
        (("index", "-", "--library", "none"), "standard input lists no paths: give one per line"),
    ],
)
def test_mistakes_are_explained(foveate, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, errors = foveate(*arguments)
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())  # no library, in particular


def test_a_folder_without_readable_files_is_said(foveate, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, errors = foveate("index", empty, "--library", tmp_path / "library")
    assert (code, errors) == (
        2,
        f"foveate: there is no file in a format that can be read in {empty}\n",
    )
    assert not (tmp_path / "library").exists()


def test_that_no_document_matches_is_said(foveate, library):
    for command in (["search", "cod"], ["ask", "cod?"], ["summarize", "--query", "cod"]):
        conditions = ("--library", library, "--section", "Whales", "--path", "sea/*.pdf")
        code, output, errors = foveate(*command, *conditions)
        assert (code, output) == (2, "")
        assert errors.startswith(
            f"foveate: no document of {library} matches --path sea/*.pdf and --section Whales: "
        )


def test_names_are_printed_whole_and_as_they_are(foveate, library, tmp_path):
    name = f"{'long ' * 40}[/red] [v1].md"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("# [bold]Nets[/]\n\nNets are [red]. They hold fish.")
    assert foveate("index", tmp_path / name, "--library", library)[0] == 0
    listed = foveate("library", "list", library)[1]
    assert f" {tmp_path / name}" in listed
    assert "[bold]Nets[/]" in listed
    code, output, _ = foveate("search", "nets", "-k", "1", "--library", library, "--path", name)
    assert (code, str(tmp_path / name) in output) == (0, True)
    assert foveate("library", "remove", library, tmp_path / name)[0] == 0


def test_what_no_reader_takes_is_named(foveate, fish, library, tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    code, output, errors = foveate("index", tmp_path, "--library", library)
    assert (code, "1 unchanged" in output) == (0, True)
    left_out = [str(tmp_path / f"{number}.png") for number in range(5)]
    assert errors == (
        "foveate: left out of the folders, since no reader takes their format: "
        f"{', '.join(left_out[:3])} and 2 more (see `foveate formats`); a file that is named "
        "itself is read as text\n"
    )
    made = json.loads(foveate("index", tmp_path, "--library", library, "--json")[1])
    assert made["skipped"] == left_out
    assert foveate("search", "cod", tmp_path)[2] == errors
