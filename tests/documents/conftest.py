"""What the tests of every reader share."""

from collections.abc import Callable

import pytest

from foveate.documents import Document


@pytest.fixture
def outline() -> Callable[[Document], list[tuple[str, list[str]]]]:
    """Lists the path of each section with its sentences."""
    return lambda document: [
        (
            " > ".join(path),
            [sentence.text for paragraph in section.paragraphs for sentence in paragraph.sentences],
        )
        for path, section in document.walk()
    ]


@pytest.fixture
def in_source() -> Callable[[Document], list[str]]:
    """Lists what the sentences' spans cover."""
    return lambda document: [document.text[one.start : one.end] for one in document.sentences()]
