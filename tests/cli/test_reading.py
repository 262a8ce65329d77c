"""The options that say how files are read, which all commands share."""

import json
import os
import sys
import zipfile
from types import SimpleNamespace

import pytest


@pytest.fixture
def folder(tmp_path):
    """A folder with two documents, and a file that cannot be read."""
    (tmp_path / "bad.txt").write_bytes(b"\0")
    (tmp_path / "cod.txt").write_text("Cod swim in cold seas.")
    (tmp_path / "deep").mkdir()
    with zipfile.ZipFile(tmp_path / "deep" / "more.zip", "w") as archive:
        archive.writestr("eel.txt", "Eels are long fish.")
    return tmp_path


def test_what_cannot_be_read_is_said_at_the_end(foveate, folder):
    code, output, error = foveate("search", "long fish", folder, "--json")
    assert code == 1
    assert [hit["document"] for hit in json.loads(output)] == [
        f"{folder}/deep/more.zip/eel.txt",
        f"{folder}/cod.txt",
    ]
    assert error == (
        f"foveate: {folder}/bad.txt is not text (byte 0 at offset 0): convert it, or name its "
        "format.\n"
    )


def test_of_very_many_files_that_cannot_be_read_some_are_named(foveate, tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text('{"text": "Cod swim."}\n' + '{"number": 1}\n' * 100)
    code, _, error = foveate("search", "fish", path)
    lines = error.splitlines()
    assert (code, len(lines)) == (1, 20)
    assert lines[0].startswith(f"foveate: {path}:2 is JSON, but neither")
    assert lines[-2] == "foveate: 81 other documents could not be read"
    assert lines[-1].startswith(f"foveate: {path}:101 is JSON, but neither")


def test_an_unknown_format_is_reported_once(foveate, folder):
    code, _, error = foveate("search", "fish", folder, folder, "--format", "klingon")
    assert code == 2
    assert error.startswith("foveate: There is no format 'klingon': use one of ")
    assert error.count("\n") == 1


def test_an_unknown_language_is_reported_before_anything_is_read(foveate):
    for language in ("german", ""):
        message = f"foveate: there is no language {language!r}: give a code such as de\n"
        assert foveate("summarize", "no.txt", "--language", language) == (2, "", message)


def test_strict_stops_at_once(foveate, folder):
    code, output, error = foveate("search", "long fish", folder, "--strict")
    assert (code, output) == (2, "")
    assert "bad.txt is not text" in error


def test_nothing_could_be_read(foveate, folder):
    (folder / "worse.txt").write_bytes(b"")
    code, output, error = foveate("summarize", folder / "bad.txt", folder / "worse.txt", "no.txt")
    assert (code, output) == (2, "")
    assert [line.split()[1] for line in error.splitlines()] == [
        str(folder / "bad.txt"),
        str(folder / "worse.txt"),
        "no.txt",
    ]


def test_a_later_error_hides_no_earlier_one(foveate, folder):
    code, _, error = foveate("search", "fish", folder, "--model", folder)
    assert code == 2
    assert error.count("\n") == 2
    assert "bad.txt is not text" in error


def test_a_command_for_one_document_takes_one(foveate, folder):
    code, _, error = foveate("inspect", folder)
    assert code == 2
    assert f"{folder} holds 2 documents, and this command takes one" in error
    (folder / "bad.txt").unlink()
    (folder / "cod.txt").unlink()
    assert foveate("inspect", folder)[0] == 0


def test_the_encoding_may_be_given(foveate, folder):
    path = folder / "word.txt"
    path.write_bytes("Łódź ma dużo ryb.".encode("cp1250"))
    code, output, _ = foveate(
        "summarize", path, "--encoding", "cp1250", "--language", "en", "--json"
    )
    assert code == 0
    assert json.loads(output)[0]["text"] == "Łódź ma dużo ryb."
    code, _, error = foveate("summarize", path, "--encoding", "klingon")
    assert code == 2
    assert "there is no encoding 'klingon'" in error


def test_options_for_pdf_leave_other_formats_alone(foveate, folder):
    code, _, error = foveate("search", "fish", folder / "cod.txt", "--ocr", "--pdf", "docling")
    assert (code, error) == (0, "")


def test_records_on_standard_input(foveate):
    records = b'{"title": "Cod", "text": "Cod swim."}\n{"text": "Eels are long."}\n'
    code, output, _ = foveate("search", "long", "-", "--top-k", 1, "--json", stdin=records)
    [hit] = json.loads(output)
    assert code == 0
    assert (hit["document"], hit["place"]) == ("standard input:2", "line 2")


def test_standard_input_can_be_read_once(foveate):
    code, _, error = foveate("search", "fish", "-", "-", stdin=b"Cod.")
    assert code == 2
    assert "can be read only once" in error


def test_formats_are_listed(foveate):
    code, output, _ = foveate("formats")
    assert code == 0
    assert ".mbox" in output
    code, output, _ = foveate("formats", "--json")
    formats = {one["name"]: one for one in json.loads(output)}
    assert formats["vtt"] == {
        "name": "vtt",
        "suffixes": [".vtt"],
        "description": "WebVTT subtitles",
        "readable": True,
        "extra": None,
    }


def test_formats_that_an_extra_would_add(foveate, monkeypatch):
    from foveate.documents import FORMATS, Format

    added = Format("x", "X", (".x",), "x", extra="office", requires=("no_such_module",))
    monkeypatch.setitem(FORMATS, "x", added)
    assert "pip install 'foveate[office]'" in foveate("formats")[1]
    assert not json.loads(foveate("formats", "--json")[1])[-1]["readable"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux alone")
def test_a_name_that_is_not_utf_8(foveate, tmp_path):
    latin = tmp_path / os.fsdecode(b"K\xf6hler.txt")
    latin.write_text("Cod swim in cold seas.")
    (tmp_path / "eel.txt").write_text("Eels are long.")
    library, vectors = tmp_path / "library", tmp_path / "a.safetensors"
    code, output, _ = foveate("search", "cod", tmp_path, "-k", 1, "--json")
    assert code == 0
    [hit] = json.loads(output)
    assert hit["document"] == str(tmp_path / r"K\udcf6hler.txt")
    assert foveate("embed", latin, "--output", vectors)[0] == 0
    code, output, errors = foveate("index", tmp_path, "--library", library)
    assert code == 1
    assert errors.endswith(f"foveate: {hit['document']} has a name that is not UTF-8: rename it\n")
    assert "1 added" in output


@pytest.mark.parametrize(
    "arguments", [["summarize", "-"], ["index", "-", "--library", "a.library"]]
)
def test_standard_input_that_is_closed(foveate, monkeypatch, arguments):
    from foveate.cli import reading

    monkeypatch.setattr(reading, "sys", SimpleNamespace(stdin=None))
    error = "standard input is closed: give the command something to read from it"
    assert foveate(*arguments) == (2, "", f"foveate: {error}\n")


@pytest.mark.parametrize(
    "arguments",
    [["search", "\udcf6", "a.txt"], ["ask", "\udcf6", "a.txt"], ["plot", "vip", "\udcf6", "a.txt"]],
)
def test_a_query_that_is_not_utf_8(foveate, arguments):
    assert foveate(*arguments) == (
        2,
        "",
        "foveate: the query has the character U+DCF6 at 0, which is not text: remove it.\n",
    )


def test_second_question_is_answered_from_the_cache(foveate, fish, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, first, _ = foveate("ask", "what do cod eat?", fish)
    assert code == 0
    _, shown, _ = foveate("cache", "show", "--json")
    assert json.loads(shown)["files"] == 2
    assert foveate("ask", "what do cod eat?", fish)[1] == first
    assert json.loads(foveate("cache", "show", "--json")[1])["files"] == 2
    foveate("cache", "clear")
    assert foveate("ask", "what do cod eat?", fish, "--no-cache")[1] == first
    assert json.loads(foveate("cache", "show", "--json")[1])["files"] == 0
