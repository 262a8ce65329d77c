"""Search: the sentences, sections or documents that match a query best."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import torch

from foveate.documents import Document, Span, as_documents
from foveate.inference import Encoder, as_encoder
from foveate.tasks.arguments import Unit, check_query, check_top_k, check_unit
from foveate.tasks.embed import document_span
from foveate.tasks.relevance import WEIGHTS, match, sentence_weights, weighted_mean


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence, section or document that matches a query.

    Attributes:
        span: Its place. The text of a section or document is its title.
        best: The sentence in it that matches best; of a sentence, itself.
        score: How well it matches, at most 1: the weighted mean of its
            `foveate.tasks.relevance.Matches`.
        document_idx: Index of its document among those searched.
    """

    span: Span
    best: Span
    score: float
    document_idx: int


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
    found = match(query, documents, encoder.encode(documents), encoder)
    weights = WEIGHTS[encoder.context]
    for_sentences = sentence_weights(query, encoder.context)
    of_sentences = [weighted_mean(features, for_sentences) for features in found.sentences]
    if by == "sentence":
        scores = of_sentences
    elif by == "section":
        scores = [weighted_mean(features, weights.sections) for features in found.sections]
    else:
        scores = list(weighted_mean(found.documents, weights.documents).split(1))
    places = [(idx, i) for idx, of_document in enumerate(scores) for i in range(len(of_document))]
    best = torch.cat(scores).argsort(descending=True, stable=True)[:top_k].tolist()
    units = {idx: _units(documents[idx], by) for idx in {places[place][0] for place in best}}
    hits = []
    for idx, i in (places[place] for place in best):
        span, sentences, first = units[idx][i]
        closest = int(of_sentences[idx][first : first + len(sentences)].argmax())
        hits.append(Hit(span, sentences[closest], float(scores[idx][i]), idx))
    return hits


def _units(document: Document, by: Unit) -> list[tuple[Span, list[Span], int]]:
    """Locate what can be found in a document.

    Returns:
        Each span, the sentences in it from which to choose the best, and the index of the first of
        these. Those of a section are the sentences directly in it or, if there are none, all.
    """
    sentences = document.spans()
    if by == "sentence":
        return [(sentence, [sentence], i) for i, sentence in enumerate(sentences)]
    if by == "document":
        return [(document_span(document), sentences, 0)]
    units, first = [], 0
    for (_, section), span in zip(document.walk(), document.section_spans(), strict=True):
        end = first + (section.num_own_sentences or section.num_sentences)
        units.append((span, sentences[first:end], first))
        first += section.num_own_sentences
    return units
