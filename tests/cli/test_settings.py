"""Settings, `foveate doctor`, `foveate completion` and `--verbose`."""

import json

import pytest

from foveate.cli.settings import user_file


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The current folder, in a project; the file of a user is above it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user_file().parent.mkdir(parents=True)
    folder = tmp_path / "project" / "part"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def model_of(foveate, *arguments):
    """Return the model that a command looks for: there is none in these tests."""
    code, _, error = foveate("search", "cod", *arguments)
    assert code == 2
    return error.removeprefix("foveate: there is no folder ").strip()


def test_what_is_nearer_comes_first(foveate, project, monkeypatch):
    user_file().write_text('model = "./of-user"')
    assert model_of(foveate, "no.txt") == "./of-user"
    (project.parent / "pyproject.toml").write_text('[tool.foveate]\nmodel = "./of-project"')
    assert model_of(foveate, "no.txt") == "./of-project"
    (project / "pyproject.toml").write_text("[tool.other]")
    assert model_of(foveate, "no.txt") == "./of-project"
    (project / "foveate.toml").write_text('model = "./of-folder"')
    assert model_of(foveate, "no.txt") == "./of-folder"
    monkeypatch.setenv("FOVEATE_MODEL", "./of-environment")
    assert model_of(foveate, "no.txt") == "./of-environment"
    assert model_of(foveate, "no.txt", "--model", "./named") == "./named"


def test_a_library_is_the_default_only_without_files(foveate, project, fish):
    (project.parent / "foveate.toml").write_text('library = "some.library"\nmodel = "small"')
    (project.parent / "small").mkdir()
    code, _, error = foveate("search", "cod")
    assert code == 2
    assert f"no library in {project.parent / 'some.library'}" in error  # the model is not used
    code, _, error = foveate("search", "cod", fish)
    assert f"{project.parent / 'small'}" in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('modle = "small"', "sets modle to 'small': it can set model, library, "),
        ("device = 1", "sets device to 1: it can set model, library, device, llm, llm-model, "),
        ("device = cpu", "is not TOML: "),
        ('llm = "http://127.0.0.1"', "sets llm, and a folder does not decide where documents are"),
    ],
)
def test_a_wrong_setting_is_one_sentence(foveate, project, text, message):
    (project / "foveate.toml").write_text(text)
    code, output, error = foveate("formats")
    assert (code, output) == (2, "")
    assert error.startswith(f"foveate: {project / 'foveate.toml'} {message}")
    assert error.count("\n") == 1


def test_the_doctor_says_what_there_is(foveate, project):
    user_file().write_text('device = "cpu"')
    code, output, _ = foveate("doctor", "--json")
    found = json.loads(output)
    assert code == 0
    assert found["foveate"].startswith("0.1.0, in ")
    assert found["settings"] == f"device = cpu ({user_file()})"
    assert (found["broken"], "torch " in found["packages"]) == ("", True)
    assert "index" in found["installed"]


def test_the_doctor_finds_a_model_that_is_not_whole(foveate, monkeypatch):
    def default_model_path():
        raise ValueError("model.safetensors does not hold the published weights")

    monkeypatch.setattr("foveate.inference.default_model_path", default_model_path)
    code, output, _ = foveate("doctor")
    assert code == 1
    assert "does not hold the published weights" in output
    assert "broken         model" in output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(foveate, shell):
    code, output, _ = foveate("completion", shell)
    assert code == 0
    assert "_FOVEATE_COMPLETE" in output


def test_verbose_shows_where_an_error_occurred(foveate, caplog):
    caplog.set_level("WARNING", logger="foveate")  # and back, when the test has ended
    caplog.handler.setLevel("DEBUG")
    code, _, error = foveate("inspect", "no.txt", "--verbose")
    assert code == 2
    assert error.endswith("foveate: no.txt does not exist: check the path.\n")
    assert "FileNotFoundError" in caplog.text


def test_what_is_on_the_web_is_not_a_missing_file(foveate):
    code, _, error = foveate("summarize", "https://example.org/cod.html")
    assert code == 2
    assert error == (
        "foveate: https://example.org/cod.html is on the web: fetch it, and name the file\n"
    )
