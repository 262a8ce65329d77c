import pytest

from foveate import Document, Encoder
from foveate.tasks.segments import segments


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder.from_pretrained(device="cpu")


@pytest.fixture(scope="session")
def sea() -> Document:
    """Three sections, one of them with subsections."""
    return Document.from_sections(
        "Fish of the sea",
        [
            (
                "Introduction",
                "Fish live in all seas. They breathe through gills. We describe the fish of the "
                "sea, from the cod of cold waters to the eel that crosses the ocean.",
            ),
            (
                "Species",
                "Some fish are of use to people.",
                [
                    ("Cod", "The cod is a fish of cold seas. It eats herring. It was cheap once."),
                    ("Eel", "The eel is a long fish. Its larvae drift across the ocean."),
                ],
            ),
            ("Boats", "Trawlers drag a net behind them. Diesel is dear. The harbour is small."),
        ],
    )


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
    return document, segments(document, "Where does the cod swim?", device="cpu")
