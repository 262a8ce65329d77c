"""The keywords of a document, by a detector's name."""

from typing import TYPE_CHECKING

from foveate.detectors import Detector, Keyword, detector_by_name
from foveate.documents import Document, as_document

if TYPE_CHECKING:
    from foveate.inference.encoder import Encoder


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
        method: one of `foveate.detectors.METHODS`, see `detector_by_name`; or a detector.
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
    document = as_document(document)
    if not isinstance(method, str):
        return method(document, k)
    if method == "embedding" and encoder is None:
        from foveate.inference.encoder import Encoder  # which takes seconds to import

        encoder = Encoder.from_pretrained()
    return detector_by_name(method, encoder=encoder, language=language)(document, k)
