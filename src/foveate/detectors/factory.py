"""Detectors by name."""

from functools import partial

from foveate.detectors.controls import gibberish, random_words
from foveate.detectors.keyword import Detector
from foveate.detectors.phrases import phrases
from foveate.detectors.statistical import tfidf

METHODS = ("tfidf", "phrases", "random", "gibberish")
"""Names of the detectors."""


def detector_by_name(method: str, *, seed: int = 0, language: str = "en") -> Detector:
    """Return the detector with this name.

    Args:
        method: "phrases" for phrases by their places in the document and general usage; "tfidf"
            for words compared with general usage; or one of the controls: "random" for random
            words of the document, "gibberish" for made-up words.
        seed: Seed of the controls.
        language: ISO 639 code of the word frequencies that all but the controls use.

    Raises:
        ValueError: The method is unknown.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import detector_by_name
        >>> detect = detector_by_name("random", seed=1)
        >>> [keyword.text for keyword in detect(Document.from_text("Herring!"), 5)]
        ['herring']
    """
    detectors: dict[str, Detector] = {
        "phrases": partial(phrases, language=language),
        "tfidf": partial(tfidf, language=language),
        "random": partial(random_words, seed=seed),
        "gibberish": partial(gibberish, seed=seed),
    }
    if method not in detectors:
        raise ValueError(f"there is no method {method!r}: name one of {', '.join(METHODS)}")
    return detectors[method]
