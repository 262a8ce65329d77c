"""`foveate inspect` as a user meets it."""

import json


def test_inspect(foveate, fish):
    code, output, _ = foveate("inspect", fish)
    assert code == 0
    assert "Cod" in output
    assert "of dense attention" in output
    code, output, _ = foveate("inspect", fish, "--json")
    found = json.loads(output)
    assert (found["num_sentences"], len(found["sections"])) == (5, 2)
    assert found["longest"]["path"] == ["Cod"]


def test_authors_and_date(foveate, tmp_path):
    path = tmp_path / "fish.md"
    names = [f"Ann {letter}. Lee" for letter in "ABCDEFG"]
    path.write_text(f"---\nauthors: [{', '.join(names)}]\ndate: May 2024\n---\n\nCod swim.\n")
    code, output, _ = foveate("inspect", path)
    assert code == 0
    assert "Ann A. Lee" in output
    assert "Ann E. Lee, 2 more, 2024-05" in " ".join(output.split())
    code, output, _ = foveate("inspect", path, "--json")
    found = json.loads(output)
    assert (found["authors"], found["date"]) == (names, "2024-05")


def test_long_titles_are_whole_where_there_is_no_terminal(foveate, tmp_path):
    path = tmp_path / "long.md"
    path.write_text(f"# Fish\n\n## {'long ' * 40}\n\nCod swim.\n")
    code, output, _ = foveate("inspect", path)
    assert code == 0
    rows = [line.split() for line in output.splitlines() if f" {'long ' * 39}long" in line]
    assert any(row[-2] == "1" for row in rows)
    assert "sentences" in output
