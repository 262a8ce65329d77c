"""Search: the sentences of documents that match a query best."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import torch

from foveate.documents import Document, Span, as_documents
from foveate.inference import Encoder, as_encoder
from foveate.tasks.arguments import check_query, check_top_k
from foveate.tasks.relevance import relevance


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence that matches a query.

    Attributes:
        span: The sentence and its place.
        score: Its `foveate.tasks.relevance.relevance`, at most 1.
        document_idx: Index of its document among those searched.
    """

    span: Span
    score: float
    document_idx: int


def search(
    query: str,
    documents: Document | Sequence[Document],
    *,
    top_k: int = 5,
    model: Encoder | str | PathLike[str] | None = None,
) -> list[Hit]:
    """Find the sentences that are closest to a query, in a section that is close to it.

    Args:
        query: What to look for, in plain words.
        documents: One document or a sequence.
        top_k: Number of sentences to find.
        model: An encoder, or the name or path of its checkpoint; by default all-MiniLM-L6-v2.

    Returns:
        The hits, best first; sentences with equal scores are in the order of the documents.

    Raises:
        ValueError: The query is empty, there are no documents, or `top_k` is below 1.

    Example:
        >>> from foveate import Document, search
        >>> parts = [("Fish", "Cod swim. They eat."), ("Salt", "It is white.")]
        >>> sea = Document.from_sections("Sea", parts)
        >>> [hit] = search("What do fish live on?", sea, top_k=1)
        >>> hit.span.text, hit.span.path
        ('They eat.', ('Fish',))
    """
    check_query(query)
    check_top_k(top_k)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to search: give at least one")
    encoder = as_encoder(model)
    scores = relevance(query, documents, encoder.encode(documents), encoder)
    places = [(idx, i) for idx, of_document in enumerate(scores) for i in range(len(of_document))]
    best = torch.cat(scores).argsort(descending=True, stable=True)[:top_k].tolist()
    spans = {idx: documents[idx].spans() for idx in {places[place][0] for place in best}}
    return [
        Hit(spans[idx][i], float(scores[idx][i]), idx)
        for idx, i in (places[place] for place in best)
    ]
