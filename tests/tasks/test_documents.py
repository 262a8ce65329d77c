"""What all tasks take and share."""

import subprocess
import sys

import pytest

from foveate import Encoder, ask, embed, inspect, keywords, search, summarize
from foveate.inference import default_model_path
from foveate.tasks.segments import segments


def ask_by(document, model):
    return ask("Who swims?", document, model=model)


def summarize_by(document, model):
    return summarize(document, model=model)


TASKS = {
    "ask": lambda given: ask("Who swims?", given),
    "embed": embed,
    "inspect": inspect,
    "keywords": keywords,
    "search": lambda given: search("Who swims?", given),
    "segments": lambda given: segments("Who swims?", given),
    "summarize": summarize,
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_path_is_no_document(task):
    with pytest.raises(TypeError, match=r"expected a Document, got str: make one with Document\."):
        task("paper.pdf")


@pytest.mark.parametrize("task", [ask_by, summarize_by])
def test_what_is_no_model_is_refused(task, sea):
    with pytest.raises(TypeError, match="expected the name or path of a checkpoint, got int"):
        task(sea, 3)


@pytest.mark.parametrize("task", [ask_by, summarize_by])
def test_a_loaded_encoder_and_the_path_of_it_do_the_same(task, sea, encoder):
    assert task(sea, encoder) == task(sea, default_model_path()) == task(sea, None)


def test_the_default_encoder_is_loaded_once(sea, monkeypatch):
    search("cod", sea)
    monkeypatch.setattr(Encoder, "from_pretrained", None)
    assert search("cod", sea)
    assert summarize(sea).sentences
    assert ask("cod", sea).passages
    assert len(embed(sea))


def test_library_calls_print_nothing(sea):
    code = "from foveate import Document, search; search('cod', Document.from_text('Cod swim.'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")


@pytest.mark.parametrize("task", [ask, search])
def test_what_is_asked_comes_first(task, sea):
    with pytest.raises(TypeError, match=r"expected a query and then .*, got Document"):
        task(sea, "Who swims?")
