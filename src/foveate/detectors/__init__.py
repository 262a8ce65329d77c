"""Keywords of a document, by several detectors behind one interface."""

from functools import partial

from .controls import gibberish, given, random_words
from .embedding import TextEncoder, embedding
from .keyword import Detector, Keyword, Occurrence
from .tfidf import tfidf
from .yake import yake

__all__ = [
    "Detector",
    "METHODS",
    "Keyword",
    "Occurrence",
    "detector_by_name",
    "embedding",
    "gibberish",
    "given",
    "random_words",
    "tfidf",
    "yake",
]

METHODS = ("tfidf", "yake", "embedding", "random", "gibberish")


def detector_by_name(
    method: str, *, seed: int = 0, encoder: TextEncoder | None = None, language: str = "en"
) -> Detector:
    """Give a detector by name.

    Args:
        method: "tfidf", words against general usage; "yake", phrases by the document alone;
            "embedding", phrases by their vectors; and the controls "random", words of the document,
            and "gibberish".
        seed: of the controls.
        encoder: of "embedding"; by default `Encoder.from_pretrained()`.
        language: ISO 639 code of what "tfidf", "yake" and "embedding" compare with, and of their
            stop words.

    Raises:
        ValueError: there is no such method.
    """
    if method == "embedding":
        if encoder is None:
            raise ValueError("the detector 'embedding' needs an encoder: give one")
        return partial(embedding, encoder=encoder, language=language)
    detectors: dict[str, Detector] = {
        "tfidf": partial(tfidf, language=language),
        "yake": partial(yake, language=language),
        "random": partial(random_words, seed=seed),
        "gibberish": partial(gibberish, seed=seed),
    }
    if method not in detectors:
        raise ValueError(f"there is no method {method!r}: name one of {', '.join(METHODS)}")
    return detectors[method]
