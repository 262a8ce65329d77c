"""The sentences of documents that answer to a query."""

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.documents import Document, Sentence, as_documents
from foveate.inference.encoder import Encoder
from foveate.tasks.places import Place, places
from foveate.tasks.relevance import relevance


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence found.

    Attributes:
        document: index of the document among those searched.
        source: the document's file, None if it came from none.
        title: the document's title.
        sentence: the sentence.
        place: where it stands.
        score: of `foveate.tasks.relevance.relevance`, at most 1.
    """

    document: int
    source: str | None
    title: str
    sentence: Sentence
    place: Place
    score: float


def search(
    query: str,
    documents: Document | Sequence[Document],
    *,
    top: int = 5,
    encoder: Encoder | None = None,
) -> list[Hit]:
    """Find the sentences that are closest to a query, in a section that is close to it.

    Args:
        query: what to look for, in words of one's own.
        documents: where: one, or a sequence.
        top: number of sentences to find.
        encoder: by default `Encoder.from_pretrained()`.

    Returns:
        The best first; what scores the same, in the order in which it stands.

    Raises:
        ValueError: an empty query, no documents, or `top` below 1.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.search import search
        >>> parts = [("Fish", "Cod swim. They eat."), ("Salt", "It is white.")]
        >>> sea = Document.from_sections("Sea", parts)
        >>> [hit] = search("What do fish live on?", sea, top=1)
        >>> hit.sentence.text, hit.place.path
        ('They eat.', ('Fish',))
    """
    if not isinstance(query, str):
        kind = type(query).__name__
        raise TypeError(f"expected a query and then what to read, got {kind} first")
    if not query.strip():
        raise ValueError("the query is empty: say what to look for")
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to search: give at least one")
    encoder = encoder or Encoder.from_pretrained()
    query_vector = encoder.encode_texts([query])[0]
    hits: list[Hit] = []
    for index, (document, vectors) in enumerate(
        zip(documents, encoder.encode(documents), strict=True)
    ):
        where = places(document)
        # Rounded, because the same words come out of different batches with differences of 1e-7.
        scores = relevance(vectors, where, query_vector).double().round(decimals=5)
        sentences = list(document.sentences())
        hits += [
            Hit(index, document.source, document.title, sentences[i], where[i], float(scores[i]))
            for i in scores.argsort(descending=True, stable=True)[:top].tolist()
        ]
    return sorted(hits, key=lambda hit: -hit.score)[:top]  # sorted() keeps the order of equals
