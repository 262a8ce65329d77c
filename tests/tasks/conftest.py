import pytest

from foveate import Document, Encoder


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
