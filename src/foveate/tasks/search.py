"""Search: the sentences, sections or documents that match a query best."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from foveate.documents import Document, Span, as_documents
from foveate.inference import Encoder, as_encoder
from foveate.tasks.arguments import Unit, check_query, check_top_k, check_unit
from foveate.tasks.embed import document_span
from foveate.tasks.ranking import rank, score
from foveate.tasks.relevance import is_likely


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence, section or document that matches a query.

    Attributes:
        span: Its place. The text of a section or document is its title.
        best: The sentence in it that matches best; of a sentence, itself.
        score: How well it matches, at most 1: the weighted mean of its
            `foveate.tasks.relevance.Matches`.
        document_idx: Index of its document among those searched.
        likely: Whether its best sentence may answer the query, see
            `foveate.tasks.relevance.is_likely`.
    """

    span: Span
    best: Span
    score: float
    document_idx: int
    likely: bool | None = None

    @property
    def quoted(self) -> Span:
        """What to show of it: the best sentence, since the text of a section is only its title."""
        return self.best


def search(
    query: str,
    documents: Document | Sequence[Document],
    *,
    by: Unit = "sentence",
    top_k: int = 5,
    model: Encoder | str | PathLike[str] | None = None,
) -> list[Hit]:
    """Find what matches a query best, by its meaning and by its words.

    Args:
        query: What to look for, in plain words: a question, a few words, or several sentences.
        documents: One document or a sequence.
        by: What to find: sentences, sections or documents.
        top_k: Number of hits.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.

    Returns:
        The hits, best first; those with equal scores are in the order of the documents.

    Raises:
        ValueError: The query is empty, there are no documents, `top_k` is below 1, or `by` is
            something else.

    Example:
        >>> from foveate import Document, search
        >>> parts = [("Fish", "Cod swim. They eat."), ("Salt", "It is white.")]
        >>> sea = Document.from_sections("Sea", parts)
        >>> [hit] = search("What do fish live on?", sea, top_k=1)
        >>> hit.span.text, hit.span.path
        ('They eat.', ('Fish',))
        >>> [hit] = search("What do fish live on?", sea, by="section", top_k=1)
        >>> hit.span.text, hit.best.text
        ('Fish', 'They eat.')
    """
    check_query(query)
    check_top_k(top_k)
    check_unit(by)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to search: give at least one")
    encoder = as_encoder(model)
    ranked = rank(score(query, documents, encoder), documents, by, top_k)
    found = {one.document_idx for one in ranked}
    sentences = {idx: documents[idx].spans() for idx in found}
    spans = sentences if by == "sentence" else {idx: _spans(documents[idx], by) for idx in found}
    return [
        Hit(
            spans[one.document_idx][one.idx],
            sentences[one.document_idx][one.best],
            one.score,
            one.document_idx,
            is_likely(one.best_score, encoder),
        )
        for one in ranked
    ]


def _spans(document: Document, by: Unit) -> list[Span]:
    """Locate the sections of a document, or the whole of it."""
    return document.section_spans() if by == "section" else [document_span(document)]
