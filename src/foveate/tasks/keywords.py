"""The keywords of a document, by a detector's name."""

from functools import partial
from typing import TYPE_CHECKING

from foveate.detectors import (
    Detector,
    Keyword,
    embedding,
    gibberish,
    random_words,
    tfidf,
    yake,
)
from foveate.documents import Document

if TYPE_CHECKING:
    from foveate.inference.encoder import Encoder

METHODS = ("tfidf", "yake", "embedding", "random", "gibberish")


def keywords(
    document: Document,
    k: int = 20,
    *,
    method: str | Detector = "tfidf",
    encoder: "Encoder | None" = None,
    language: str = "en",
) -> list[Keyword]:
    """Find the words, or phrases, that stand for a document.

    Args:
        document: the document.
        k: number of keywords.
        method: one of `METHODS`, see `detector`; or a detector.
        encoder: for the method "embedding"; by default `Encoder.from_pretrained()`.
        language: ISO 639 code of the document's language, for methods by name.

    Returns:
        The best first; fewer if there are not that many.

    Raises:
        ValueError: `k` below 1, a method that there is not, or a language that it does not know.
        ImportError: the method needs an extra that is not installed.

    Example:
        >>> from foveate import Document, keywords
        >>> sea = Document.from_text("Herring swim in the sea. Cod eat herring.")
        >>> [keyword.text for keyword in keywords(sea, 2)]
        ['herring', 'cod']
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    detect = (
        detector(method, encoder=encoder, language=language) if isinstance(method, str) else method
    )
    return detect(Document.single(document), k)


def detector(
    method: str, *, seed: int = 0, encoder: "Encoder | None" = None, language: str = "en"
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
        from foveate.inference.encoder import Encoder  # which takes seconds to import

        return partial(embedding, encoder=encoder or Encoder.from_pretrained(), language=language)
    detectors: dict[str, Detector] = {
        "tfidf": partial(tfidf, language=language),
        "yake": partial(yake, language=language),
        "random": partial(random_words, seed=seed),
        "gibberish": partial(gibberish, seed=seed),
    }
    if method not in detectors:
        raise ValueError(f"there is no method {method!r}: name one of {', '.join(METHODS)}")
    return detectors[method]
