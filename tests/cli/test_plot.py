"""`foveate plot` as a user meets it."""

import pytest

from tests.docs.example_files import pdf


def test_a_plot_of_a_document(foveate, fish, tmp_path):
    code, output, _ = foveate("plot", "tree", fish, "-o", tmp_path / "a.png")
    assert code == 0
    assert output.endswith("a.png\n")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_query_makes_a_model_look_at(foveate, fish, tmp_path):
    query, picture = "who eats small fish?", tmp_path / "a.svg"
    code, output, _ = foveate("plot", "vip", query, fish, "-o", picture, "--device", "cpu")
    assert code == 0
    assert output.endswith("a.svg\n")
    assert b"<svg" in picture.read_bytes()


def test_highlights_in_a_pdf(foveate, tmp_path):
    report, copy = tmp_path / "report.pdf", tmp_path / "copy.pdf"
    report.write_bytes(pdf("The bridge was closed for repairs in March."))
    for options in (["--search", "why was the bridge closed?"], []):
        code, output, _ = foveate("plot", "pdf", report, *options, "-o", copy)
        assert (code, output) == (0, f"PDF: {copy}\n")
        assert b"/Highlight" in copy.read_bytes()
        copy.unlink()


def test_highlights_need_pages(foveate, fish, tmp_path):
    code, _, error = foveate("plot", "pdf", fish, "-o", tmp_path / "copy.pdf")
    assert code == 2
    assert "fish.md has no pages to highlight anything on: give a PDF" in error
    assert list(tmp_path.iterdir()) == [fish]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vip", " ", "fish.md"], "the query is empty"),
        (["tree", "fish.md", "-o", "a.txt"], "must end in the name of an image format"),
        (["tree", "fish.md", "-o", "nowhere/a.png"], "cannot be written"),
        (["vip", "cod", "fish.md", "-o", "nowhere/a.png"], "cannot be written"),
        (["tree", "fish.md", "--window", "0"], "--window"),
        (["tree", "eel.md"], "eel.md does not exist"),
    ],
)
def test_mistakes_are_one_sentence(foveate, fish, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, output, error = foveate("plot", *arguments)
    assert (code, output) == (2, "")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [fish]


def test_there_is_no_other_plot(foveate):
    code, output, error = foveate("plot", "moire")
    assert (code, output) == (2, "")
    assert "moire" in error


@pytest.mark.parametrize("name", ["pdf", "tree", "vip"])
def test_help_teaches_by_example(foveate, name):
    code, output, _ = foveate("plot", name, "--help")
    assert code == 0
    assert f"foveate plot {name}" in output
    _, output, _ = foveate("plot", "--help")
    assert f"foveate plot {name}" in output


def test_a_jpeg_may_have_its_long_suffix(foveate, fish, tmp_path):
    picture = tmp_path / "tree.jpeg"
    assert foveate("plot", "tree", fish, "-o", picture)[0] == 0
    assert picture.read_bytes().startswith(b"\xff\xd8\xff")
