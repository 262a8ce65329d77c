"""The keywords of documents, by a detector or its name."""

from collections.abc import Sequence
from typing import overload

from foveate.detectors import Detector, Keyword, detector_by_name
from foveate.documents import Document, as_documents
from foveate.tasks.arguments import check_top_k


@overload
def keywords(
    documents: Document,
    *,
    top_k: int = 20,
    method: str | Detector = "phrases",
    language: str | None = None,
) -> list[Keyword]: ...


@overload
def keywords(
    documents: Sequence[Document],
    *,
    top_k: int = 20,
    method: str | Detector = "phrases",
    language: str | None = None,
) -> list[list[Keyword]]: ...


def keywords(
    documents: Document | Sequence[Document],
    *,
    top_k: int = 20,
    method: str | Detector = "phrases",
    language: str | None = None,
) -> list[Keyword] | list[list[Keyword]]:
    """Find the words and phrases that characterize documents.

    Args:
        documents: One document or a sequence.
        top_k: Number of keywords of each document.
        method: One of `foveate.detectors.METHODS`, see `detector_by_name`; or a detector. By
            default, words and phrases of up to five words are found by their places in the
            document and their use in general; see `foveate.detectors.phrases`.
        language: ISO 639 code of the documents' language, for methods by name; by default the one
            by which each was split into sentences, and English if none is known.

    Returns:
        The keywords of the document, best first, and fewer if there are not enough; for a
        sequence, a list of them for each document.

    Raises:
        ValueError: `top_k` is below 1, or the method or the language is unknown.

    Example:
        >>> from foveate import Document, keywords
        >>> sea = Document.from_text("The deep sea is dark. Few fish live in the deep sea.")
        >>> [keyword.text for keyword in keywords(sea, top_k=2)]
        ['deep sea', 'fish']
    """
    check_top_k(top_k)
    listed = as_documents(documents)

    def detect(document: Document) -> list[Keyword]:
        if not isinstance(method, str):
            return method(document, top_k)
        spoken = language or document.language or "en"
        return detector_by_name(method, language=spoken)(document, top_k)

    results = [detect(document) for document in listed]
    return results[0] if isinstance(documents, Document) else results
