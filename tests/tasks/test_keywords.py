import pytest

from foveate import keywords
from foveate.detectors import given
from foveate.tasks.keywords import METHODS, detector


@pytest.mark.parametrize("method", METHODS)
def test_methods_by_name(sea, encoder, method):
    found = keywords(sea, 5, method=method, encoder=encoder)
    assert len(found) == 5
    assert found == keywords(sea, 5, method=method, encoder=encoder)
    assert len({keyword.text for keyword in found}) == 5


def test_a_detector_will_do(sea):
    [cod] = keywords(sea, 5, method=given(["cod"]))
    assert cod.places


def test_the_embedding_of_a_phrase_says_what_the_document_is_about(sea, encoder):
    [best] = keywords(sea, 1, method="embedding", encoder=encoder)
    assert any(word in best.text for word in ("fish", "sea", "cod", "ocean"))


@pytest.mark.parametrize("method", ["random", "gibberish"])
def test_controls_have_seeds(sea, method):
    assert detector(method, seed=1)(sea, 5) != detector(method, seed=2)(sea, 5)


def test_what_cannot_be_done_is_said(sea):
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        keywords(sea, 0)
    with pytest.raises(ValueError, match="there is no method 'rake': name one of tfidf, "):
        keywords(sea, method="rake")
