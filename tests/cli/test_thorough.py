"""Long files are read closely where the words of a query point."""

from foveate.tasks import closely
from tests.tasks.test_closely import ANSWER, chapters


def test_commands_say_what_they_read_closely(foveate, tmp_path, monkeypatch):
    monkeypatch.setattr(closely, "WHOLE", 2_000)
    monkeypatch.setattr(closely, "PARTS", 2)
    file = tmp_path / "harbour.md"
    file.write_text("\n\n".join(f"# {title}\n\n{' '.join(texts)}" for title, texts in chapters()))
    code, found, said = foveate("search", "How are cod caught?", file, "--no-cache")
    assert (code, ANSWER in found) == (0, True)
    assert "of the text was read closely" in said
    code, found, said = foveate("search", "How are cod caught?", file, "--no-cache", "--thorough")
    assert (code, ANSWER in found, said) == (0, True, "")


def test_a_library_is_not_read_thoroughly(foveate, tmp_path):
    code, _, said = foveate("search", "cod", "--library", tmp_path, "--thorough")
    assert code == 2
    assert "--thorough says how files are read" in said
