"""What all tasks take: documents, and nothing that looks like one."""

import pytest

from foveate import ask, embed, inspect, keywords, search, summarize
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
    "segments": lambda given: segments(given, "Who swims?"),
    "summarize": summarize,
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_path_is_no_document(task):
    with pytest.raises(TypeError, match=r"expected a Document, got str: make one with Document\."):
        task("paper.pdf")


@pytest.mark.parametrize("task", [ask_by, summarize_by])
def test_an_encoder_is_no_model_that_writes(task, sea, encoder):
    with pytest.raises(TypeError, match="expected the name or path of a checkpoint, got Encoder"):
        task(sea, encoder)


@pytest.mark.parametrize("task", [ask, search])
def test_what_is_asked_comes_first(task, sea):
    with pytest.raises(TypeError, match=r"expected a (question|query) and then .*, got Document"):
        task(sea, "Who swims?")
