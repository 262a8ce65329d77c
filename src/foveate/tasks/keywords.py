"""The keywords of a document, by a detector or its name."""

from foveate.detectors import Detector, Keyword, detector_by_name
from foveate.documents import Document, as_document
from foveate.tasks.arguments import check_top_k


def keywords(
    document: Document,
    *,
    top_k: int = 20,
    method: str | Detector = "phrases",
    language: str | None = None,
) -> list[Keyword]:
    """Find the words and phrases that characterize a document.

    Args:
        document: The document.
        top_k: Number of keywords.
        method: One of `foveate.detectors.METHODS`, see `detector_by_name`; or a detector. By
            default, words and phrases of up to five words are found by their places in the
            document and their use in general; see `foveate.detectors.phrases`.
        language: ISO 639 code of the document's language, for methods by name; by default the one
            by which it was split into sentences, and English if none is known.

    Returns:
        The keywords, best first, and fewer if there are not enough.

    Raises:
        ValueError: `top_k` is below 1, or the method or the language is unknown.

    Example:
        >>> from foveate import Document, keywords
        >>> sea = Document.from_text("The deep sea is dark. Few fish live in the deep sea.")
        >>> [keyword.text for keyword in keywords(sea, top_k=2)]
        ['deep sea', 'fish']
    """
    check_top_k(top_k)
    document = as_document(document)
    if not isinstance(method, str):
        return method(document, top_k)
    spoken = language or document.language or "en"
    return detector_by_name(method, language=spoken)(document, top_k)
