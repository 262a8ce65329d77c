"""Search: the passages, sections or documents that match a query best."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.inference import DocumentVectors, Encoder, as_encoder
from foveate.tasks.arguments import Unit, check_query, check_top_k, check_unit
from foveate.tasks.closely import encode_closely
from foveate.tasks.embed import document_span
from foveate.tasks.explain import Signs, check_tokens
from foveate.tasks.explain import explain as explain_hits
from foveate.tasks.hits import Hit
from foveate.tasks.passages import MAX_SENTENCES, best_passages
from foveate.tasks.relevance import encode_query, match, score_sentences
from foveate.tasks.rerank import RERANKED, load_reranker
from foveate.tasks.rerank import rerank as rerank_hits
from foveate.tasks.scorer import EncodedQuery
from foveate.tasks.surroundings import completed
from foveate.tasks.weights import is_likely, weighted_mean

if TYPE_CHECKING:
    from foveate.inference.reranker import Reranker


@dataclass(frozen=True, slots=True)
class Scores:
    """How well the parts of a document match a query: weighted means of its `Matches`.

    Attributes:
        sentences: `(sentences,)`.
        sections: `(sections,)`.
        document: `(1,)`, of the whole document.
        query: The query.
        vectors: The vectors of the document.
    """

    sentences: Tensor
    sections: Tensor
    document: Tensor
    query: EncodedQuery
    vectors: DocumentVectors


def search(
    query: str,
    documents: Document | Sequence[Document],
    *,
    by: Unit = "passage",
    top_k: int = 5,
    model: Encoder | str | PathLike[str] | None = None,
    rerank: "Reranker | str | PathLike[str] | None" = None,
    explain: bool = False,
    thorough: bool = False,
    context: int = 0,
) -> list[Hit]:
    """Find what matches a query best, by its meaning and by its words.

    Of documents longer than 30,000 tokens together, only those parts are encoded that the words of
    the query point at, and the encoder keeps what it has read for the next query.

    Args:
        query: What to look for, in plain words: a question, a few words, or several sentences.
        documents: One document or a sequence.
        by: What to find: passages, which are neighbouring sentences of a section around one that
            matches; sections; or documents.
        top_k: Number of hits.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        rerank: A cross-encoder of sentence-transformers, by which the best 50 passages are sorted,
            or a multi-vector model, by which the best 200 are; or the name or path of its
            checkpoint. The scores are then its own.
        explain: Also say which words of the best sentence match which of the query: `Hit.matches`.
        thorough: Encode the documents as a whole, whatever their length.
        context: Number of sentences that `Hit.sentences` has before and after each hit.

    Returns:
        The hits, best first; those with equal scores are in the order of the documents.

    Raises:
        ValueError: The query is empty, there are no documents, `top_k` is below 1, or `by` is
            something else, or is not "passage" and there is a reranker; or hits are to be
            explained, and the model has no vectors of tokens.

    Example:
        >>> from foveate import Document, search
        >>> parts = [("Fish", "Cod swim. They eat."), ("Salt", "It is white.")]
        >>> sea = Document.from_sections("Sea", parts)
        >>> [hit] = search("What do fish eat?", sea, top_k=1)
        >>> hit.span.text, hit.best.text, hit.span.path
        ('Cod swim. They eat.', 'They eat.', ('Fish',))
        >>> [hit] = search("What do fish eat?", sea, by="section", top_k=1)
        >>> hit.span.text, hit.best.text
        ('Fish', 'They eat.')
    """
    check_query(query)
    check_top_k(top_k)
    check_unit(by)
    reranker = None if rerank is None else load_reranker(rerank, by)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to search: give at least one")
    encoder = as_encoder(model)
    if explain:
        check_tokens(encoder)
    wanted = None if thorough else max(top_k, RERANKED) if reranker else top_k
    scores = score(query, documents, encoder, wanted)
    hits = best_hits(query, scores, documents, by, top_k, encoder, reranker, explain=explain)
    return completed(hits, documents, context)


def score(
    query: str, documents: Sequence[Document], encoder: Encoder, top_k: int | None = None
) -> list[Scores]:
    """Score the parts of documents.

    Args:
        query: The query.
        documents: The documents.
        encoder: The encoder by which they are scored.
        top_k: How many hits are wanted, so that only what may be one is encoded; by default all is.
    """
    encoded = encode_query(query, documents[0].language, encoder)
    if top_k is None:
        vectors = encoder.encode(documents)
    else:
        # The best sentence of a passage is the best that is in none of those before.
        vectors = encode_closely(encoded, documents, encoder, MAX_SENTENCES * (top_k - 1) + 1)
    found = match(encoded, documents, vectors)
    weights = encoded.weights
    whole = torch.from_numpy(weighted_mean(found.documents, weights.documents)).split(1)
    return [
        Scores(
            torch.from_numpy(sentences),
            torch.from_numpy(weighted_mean(sections, weights.sections)),
            one,
            encoded,
            its_vectors,
        )
        for sentences, sections, one, its_vectors in zip(
            score_sentences(encoded, found), found.sections, whole, vectors, strict=True
        )
    ]


def best_hits(
    query: str,
    scores: Sequence[Scores],
    documents: Sequence[Document],
    by: Unit,
    top_k: int,
    encoder: Encoder,
    reranker: "Reranker | None" = None,
    *,
    explain: bool = False,
) -> list[Hit]:
    """Return the parts of documents with the highest scores, not yet completed; see `search`.

    Args:
        query: The query.
        scores: The scores of each document.
        documents: The documents.
        by: What to find.
        top_k: Number of hits.
        encoder: The encoder by which they were scored.
        reranker: See `search`.
        explain: See `search`.
    """
    if explain:
        hits = best_hits(query, scores, documents, by, top_k, encoder, reranker)
        signs = [_signs(hit, documents, scores) for hit in hits]
        encoded = scores[0].query
        assert encoded.tokens is not None
        return explain_hits(query, encoded.tokens, hits, signs, encoded.language, encoder)
    if reranker is not None:
        hits = best_hits(query, scores, documents, by, max(top_k, RERANKED), encoder)
        return rerank_hits(query, hits, reranker, top_k)
    if by == "passage":
        sentence_scores = torch.cat([one.sentences for one in scores])
        return best_passages(documents, sentence_scores, top_k, encoder)
    of_parts = [one.sections if by == "section" else one.document for one in scores]
    places = [(idx, i) for idx, its in enumerate(of_parts) for i in range(len(its))]
    order = torch.cat(of_parts).argsort(descending=True, stable=True)[:top_k].tolist()
    best = [places[place] for place in order]
    parts = {idx: _parts(documents[idx], by) for idx, _ in best}
    spans = {idx: documents[idx].spans() for idx in parts}
    hits = []
    for idx, i in best:
        span, inside = parts[idx][i]
        sentence_scores = scores[idx].sentences[inside.start : inside.stop]
        closest = spans[idx][inside.start + int(sentence_scores.argmax())]
        likely = is_likely(float(sentence_scores.max()), encoder)
        section_idx = i if by == "section" else None
        part_score = float(of_parts[idx][i])
        hits.append(Hit(span, closest, part_score, idx, likely, by, section_idx=section_idx))
    return hits


def _signs(hit: Hit, documents: Sequence[Document], scores: Sequence[Scores]) -> Signs | None:
    """Return the signs of the tokens of the best sentence of a hit."""
    vectors = scores[hit.document_idx].vectors
    if vectors.tokens is None or vectors.num_tokens is None:
        return None
    starts = (sentence.start for sentence in documents[hit.document_idx].sentences())
    idx = [*starts].index(hit.best.start)
    end = int(vectors.num_tokens[: idx + 1].sum())
    return vectors.tokens[end - int(vectors.num_tokens[idx]) : end].numpy()


def _parts(document: Document, by: Unit) -> list[tuple[Span, range]]:
    """Locate the sections of a document, or the whole of it, and the sentences in each.

    Those of a section are the sentences directly in it or, if there are none, all.
    """
    parts, first = [], 0
    for (_, section), span in zip(document.walk(), document.section_spans(), strict=True):
        end = first + (section.num_own_sentences or section.num_sentences)
        parts.append((span, range(first, end)))
        first += section.num_own_sentences
    return parts if by == "section" else [(document_span(document), range(first))]
