"""`foveate inspect` as a user meets it."""

import json

import pytest


def test_inspect_and_its_picture(foveate, fish, tmp_path):
    code, output, _ = foveate("inspect", fish, "--plot", tmp_path / "pattern.png")
    assert code == 0
    assert "Cod" in output
    assert "of dense attention" in output
    assert (tmp_path / "pattern.png").read_bytes().startswith(b"\x89PNG")
    code, output, _ = foveate("inspect", fish, "--json")
    found = json.loads(output)
    assert (found["sentences"], len(found["sections"])) == (5, 2)
    assert found["longest_sentence"]["section"] == "Cod"


def test_long_titles_leave_room_for_the_numbers(foveate, tmp_path):
    path = tmp_path / "long.md"
    path.write_text(f"# Fish\n\n## {'long ' * 40}\n\nCod swim.\n")
    code, output, _ = foveate("inspect", path)
    assert code == 0
    [row] = [line for line in output.splitlines() if "long long" in line and "…" in line]
    assert row.split()[-2] == "1"
    assert "sentences" in output


@pytest.mark.parametrize(
    "options",
    [["--pattern", "fovea"], ["--pattern", "windows"], ["--query", "who eats small fish?"]],
)
def test_other_pictures(foveate, fish, tmp_path, options):
    code, output, _ = foveate("inspect", fish, "--plot", tmp_path / "a.png", *options)
    assert code == 0
    assert output.endswith("a.png\n")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pattern", "moire"], "there is no pattern moire: choose among tree, fovea, windows"),
        (["--pattern", "fovea"], "--pattern fovea says what to draw: name a picture with --plot"),
        (["--query", "cod"], "--query says what to draw: name a picture with --plot"),
        (["--plot", "a.png", "--pattern", "tree", "--query", "cod"], "draw one, not both"),
        (["--plot", "a.png", "--query", " "], "the query is empty"),
        (["--plot", "a.txt"], "must end in the name of an image format"),
        (["--plot", "nowhere/a.png"], "cannot be written"),
    ],
)
def test_mistakes_are_one_sentence(foveate, fish, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, output, error = foveate("inspect", fish, *options)
    assert (code, output) == (2, "")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [fish]
