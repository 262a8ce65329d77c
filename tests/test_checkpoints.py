"""Names of models: what is no model is told apart before anything is loaded."""

import re
from unittest.mock import MagicMock

import huggingface_hub
import pytest
from huggingface_hub.errors import (
    EntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from foveate.checkpoints import check_name_or_path
from foveate.models.loading import load_config


@pytest.fixture
def hub(monkeypatch):
    """Let the hub answer with an exception, and count how often it is asked."""
    asked = []

    def answer_with(error):
        def get_metadata(url, **options):
            asked.append(url)
            if error is not None:
                raise error

        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", get_metadata)
        return asked

    return answer_with


def http(kind):
    return kind("no", response=MagicMock())


def test_a_folder_is_taken_as_it_is(tmp_path, hub):
    asked = hub(OfflineModeIsEnabled())
    check_name_or_path(tmp_path)
    assert asked == []


@pytest.mark.parametrize("name", ["./model", "/no/model", "a/b/c", "my model", "model/"])
def test_the_hub_is_not_asked_for_what_is_a_path(tmp_path, monkeypatch, hub, name):
    monkeypatch.chdir(tmp_path)
    asked = hub(None)
    with pytest.raises(OSError, match=f"^there is no folder {re.escape(name)}$"):
        check_name_or_path(name)
    assert asked == []


def test_a_file_is_not_a_checkpoint(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(OSError, match="is a file: name the folder"):
        check_name_or_path(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OfflineModeIsEnabled(), "the hub could not be reached"),
        (TimeoutError("no route"), "the hub could not be reached"),
        (http(RepositoryNotFoundError), "the hub has no public model of that name"),
    ],
)
def test_one_question_one_sentence(tmp_path, monkeypatch, hub, error, message):
    monkeypatch.chdir(tmp_path)
    asked = hub(error)
    with pytest.raises(OSError, match=f"there is no folder alll-MiniLM, and {message}"):
        load_config("alll-MiniLM")
    assert len(asked) == 1


@pytest.mark.parametrize("error", [None, EntryNotFoundError("no config.json")])
def test_a_model_of_the_hub(tmp_path, monkeypatch, hub, error):
    monkeypatch.chdir(tmp_path)
    hub(error)
    check_name_or_path("org/model")


def test_the_folder_that_was_meant(tmp_path, monkeypatch, hub):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    hub(OfflineModeIsEnabled())
    with pytest.raises(OSError, match=r"no folder modle \(did you mean model\?\)"):
        check_name_or_path("modle")
