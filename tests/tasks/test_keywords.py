import pytest

from foveate import Document, keywords
from foveate.detectors import METHODS, detector_by_name, given_keywords


@pytest.mark.parametrize("method", METHODS)
def test_methods_by_name(sea, method):
    found = keywords(sea, top_k=5, method=method)
    assert len(found) == 5
    assert found == keywords(sea, top_k=5, method=method)
    assert len({keyword.text for keyword in found}) == 5


def test_a_detector_will_do(sea):
    [cod] = keywords(sea, top_k=5, method=given_keywords(["cod"]))
    assert cod.spans


@pytest.mark.parametrize("method", ["random", "gibberish"])
def test_controls_have_seeds(sea, method):
    first, second = (detector_by_name(method, seed=seed) for seed in (1, 2))
    assert first(sea, 5) != second(sea, 5)


def test_what_cannot_be_done_is_said(sea):
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        keywords(sea, top_k=0)
    with pytest.raises(ValueError, match="there is no method 'rake': name one of tfidf, "):
        keywords(sea, method="rake")
    with pytest.raises(ValueError, match="at most 10,000 words are made up, and 10,001 are asked"):
        keywords(sea, method="gibberish", top_k=10_001)


def test_the_language_is_the_documents_unless_given():
    text = "Der Wal und der Hering schwimmen im Meer."
    german = Document.from_sections("", [("", text)], language="de")
    english = Document.from_sections("", [("", text)], language="en")
    expected = [keyword.text for keyword in keywords(english, language="de")]
    assert [keyword.text for keyword in keywords(german)] == expected
    assert set(expected) == {"Hering", "Wal", "schwimmen", "Meer"}
