import pytest
import torch

from foveate import Document
from foveate.inference import DocumentVectors
from foveate.tasks.centrality import SentencePositions, centrality

EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


@pytest.fixture
def compass() -> tuple[DocumentVectors, SentencePositions]:
    """Two sections of two sentences each: east, north; and north, north."""
    document = Document.from_sections("", [("A", ["a.", "b."]), ("B", ["c.", "d."])])
    vectors = DocumentVectors(
        document=3 * NORTH,  # no vector need have unit length
        sections=torch.stack([EAST, NORTH]),
        sentences=torch.stack([EAST, 2 * NORTH, NORTH, NORTH]),
    )
    return vectors, SentencePositions.from_document(document)


def test_centrality_is_closeness_to_all_that_a_sentence_stands_under(compass):
    everything_is_at_an_end = 0.15 + 0.05
    scores = centrality(*compass, title=NORTH, ends_count=True) - everything_is_at_an_end
    assert scores.tolist() == pytest.approx([1 / 3, 2 / 3, 1, 1])
    scores = centrality(*compass, title=None, ends_count=True) - everything_is_at_an_end
    assert scores.tolist() == pytest.approx([1 / 2, 1 / 2, 1, 1])


def test_centrality_prefers_beginnings_and_if_they_count_ends():
    document = Document.from_sections("", [(name, ["a.", "b.", "c."]) for name in "ABC"])
    same = DocumentVectors(EAST, EAST.expand(3, 2), EAST.expand(9, 2))
    positions = SentencePositions.from_document(document)
    scores = centrality(same, positions, title=None, ends_count=True) - 1
    assert scores.tolist() == pytest.approx([0.2, 0.15, 0.2, 0.05, 0, 0.05, 0.2, 0.15, 0.2])
    scores = centrality(same, positions, title=None, ends_count=False) - 1
    assert scores.tolist() == pytest.approx([0.2, 0.15, 0.15, 0.05, 0, 0, 0.05, 0, 0])
