import pytest

from foveate import Document
from foveate.tasks.segments import segments


@pytest.fixture(scope="session")
def segmented():
    """A document that is too long to be looked at closely all over."""
    filler = "The weather was fine and nothing happened on that day at all. " * 60
    parts = [
        ("Days", filler),
        ("Nights", filler),
        ("Cod", "The cod swims in cold seas."),
        ("End", filler),
    ]
    document = Document.from_sections("Fish", parts)
    return document, segments("Where does the cod swim?", document, device="cpu")
