"""What all tasks take: documents, and nothing that looks like one."""

import pytest

from foveate import ask, embed, inspect, keywords, search, summarize
from foveate.tasks.segments import segments

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
