"""The relevance of sentences, sections and whole documents to a query.

All vectors are scaled to unit length first, so that products are cosines, written ⟨x, y⟩. Models
spread their cosines differently, so these are standardized before they are weighted. With u(q), the
mean cosine of the query q and sentences that have nothing to do with it or with each other,

    r(x, q) = (⟨x, q⟩ - u(q)) / (1 - u(q))

is 0 for an unrelated text and 1 for the query itself. It does not depend on what is searched.
"""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.documents.language import FALLBACK
from foveate.documents.sentences import split_sentences
from foveate.inference import DocumentVectors, Encoder
from foveate.tasks.bm25 import Words, bm25
from foveate.tasks.centrality import SentencePositions, unit
from foveate.tasks.terms import all_titles, terms, titles_above
from foveate.tasks.weights import relative, sentence_weights


class Matches(NamedTuple):
    """How the parts of documents match a query q, by meaning and by words.

    r is `relative` of the cosine, b is `foveate.tasks.bm25.bm25`, counted over all documents. The
    words of a section are those of the sentences directly in it, of the titles above them, and of
    the document's name.

    Attributes:
        sentences: For each document `(sentences, 4)`: of each sentence s, directly in section S,
            r(s, q), r(S, q), b(s) and b(S).
        sections: For each document `(sections, 3)`: of each section S, r(s, q) of the closest
            sentence directly in it, 0 if there is none, r(S, q) and b(S).
        documents: `(documents, 2)`: of each document, r(s, p) of the sentence closest to p,
            averaged over the sentences p of the query, and b of the document.
    """

    sentences: list[Tensor]
    sections: list[Tensor]
    documents: Tensor


def encode_query(query: str, language: str | None, encoder: Encoder) -> Tensor:
    """Encode a query and, if it has several, its sentences: `(texts, dimension)`, unit vectors."""
    sentences = [query[start:end] for start, end in split_sentences(query, language or FALLBACK)]
    return unit(encoder.encode_queries([query, *sentences] if len(sentences) > 1 else [query]))


def match(
    query: str,
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    encoder: Encoder,
    query_vectors: Tensor | None = None,
) -> Matches:
    """Compare documents and their parts with a query.

    Args:
        query: The query.
        documents: Documents.
        vectors: Their vectors. As long as these are kept, so are the words of the documents.
        encoder: The encoder that made them.
        query_vectors: What `encode_query` returns, if it is known already.
    """
    if query_vectors is None:
        query_vectors = encode_query(query, documents[0].language, encoder)
    num_sentences = max(len(query_vectors) - 1, 1)  # of the query
    unrelated = unrelated_cosines(query_vectors, encoder)
    words = _match_words(query, documents, vectors)
    sentences, sections, closest = [], [], []
    for document, its_vectors, sentence_words, section_words in zip(
        documents, vectors, words.sentences, words.sections, strict=True
    ):
        section_idx = SentencePositions.from_document(document).section_idx
        sentence_vectors = unit(its_vectors.sentences)
        of_sentences = relative(sentence_vectors @ query_vectors.T, unrelated)
        of_sections = relative(unit(its_vectors.sections) @ query_vectors[0], unrelated[0])
        sentences.append(
            torch.stack(
                [
                    of_sentences[:, 0],
                    of_sections[section_idx],
                    sentence_words,
                    section_words[section_idx],
                ],
                dim=1,
            )
        )
        sections.append(
            torch.stack(
                [
                    _maxima(of_sentences[:, 0], section_idx, len(section_words)),
                    of_sections,
                    section_words,
                ],
                dim=1,
            )
        )
        closest.append(of_sentences[:, -num_sentences:].amax(0).mean())
    return Matches(sentences, sections, torch.stack([torch.stack(closest), words.documents], 1))


def relevance(
    query: str,
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    encoder: Encoder,
    query_vectors: Tensor | None = None,
) -> list[Tensor]:
    """Score each sentence of documents by the weighted mean of its `Matches`.

    Args:
        query: The query.
        documents: Documents.
        vectors: Their vectors.
        encoder: The encoder that made them.
        query_vectors: See `match`.

    Returns:
        For each document, `(sentences,)` float64, at most 1.
    """
    found = match(query, documents, vectors, encoder, query_vectors).sentences
    weights = sentence_weights(query, encoder.context)
    return [weighted_mean(features, weights) for features in found]


def unrelated_cosines(query_vectors: Tensor, encoder: Encoder) -> Tensor:
    """Return u of queries from their unit vectors `(queries, dimension)`: `(queries,)`."""
    return (query_vectors @ encoder.unrelated.T).mean(1)


def weighted_mean(features: Tensor, weights: Sequence[float]) -> Tensor:
    """Average features `(parts, features)` with weights that sum to 1.

    Returns:
        `(parts,)` float64, rounded, because the vectors of equal sentences in different batches
        differ by some 1e-7.
    """
    mean = features.double() @ torch.tensor(weights, dtype=torch.float64)
    return mean.round(decimals=5)


class _WordMatches(NamedTuple):
    """b of the sentences and sections of each document, and of the documents."""

    sentences: tuple[Tensor, ...]
    sections: tuple[Tensor, ...]
    documents: Tensor


class _DocumentWords:
    """The words of a document: its sentences, the titles above each section, and its outline."""

    def __init__(self, document: Document) -> None:
        language = document.language
        self.sentences = Words((one.text for one in document.sentences()), language)
        self.titles = Words(titles_above(document), language)
        self.outline = Words([all_titles(document)], language)


_words: WeakKeyDictionary[DocumentVectors, _DocumentWords] = WeakKeyDictionary()


def _words_of(document: Document, vectors: DocumentVectors) -> _DocumentWords:
    """Return the words of a document, which are listed once for as long as its vectors live."""
    if vectors not in _words:
        _words[vectors] = _DocumentWords(document)
    return _words[vectors]


def _match_words(
    query: str, documents: Sequence[Document], vectors: Sequence[DocumentVectors]
) -> _WordMatches:
    wanted = list(dict.fromkeys(terms(query, documents[0].language or FALLBACK)))
    found = [_words_of(*both) for both in zip(documents, vectors, strict=True)]
    walked = [list(document.walk()) for document in documents]
    sizes = [section.num_own_sentences for sections in walked for _, section in sections]
    section_idx = _owners(sizes)
    document_idx = _owners([len(sections) for sections in walked])

    sentences = _count(wanted, [words.sentences for words in found])
    titles = _count(wanted, [words.titles for words in found])
    outlines = _count(wanted, [words.outline for words in found])
    return _WordMatches(
        bm25(*sentences).split([len(words.sentences.lengths) for words in found]),
        bm25(*_add(titles, sentences, section_idx)).split([len(sections) for sections in walked]),
        bm25(*_add(outlines, sentences, document_idx[section_idx]), "document"),
    )


def _count(query: Sequence[str], words: Sequence[Words]) -> tuple[Tensor, Tensor]:
    """Count the terms of a query in texts `(texts, terms)`, and all their terms `(texts,)`."""
    counts = torch.cat([of_document.count(query) for of_document in words])
    return counts, torch.cat([of_document.lengths for of_document in words])


def _owners(sizes: Sequence[int]) -> Tensor:
    """Return the index of the group of each of the members of groups of given sizes."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def _add(
    counts: tuple[Tensor, Tensor], parts: tuple[Tensor, Tensor], owner: Tensor
) -> tuple[Tensor, Tensor]:
    """Add the counts and lengths of parts to those of what they belong to."""
    return counts[0].index_add(0, owner, parts[0]), counts[1].index_add(0, owner, parts[1])


def _maxima(values: Tensor, owner: Tensor, num_owners: int) -> Tensor:
    """Return the maximum of the values of each owner; 0 for those without any."""
    return values.new_zeros(num_owners).scatter_reduce(0, owner, values, "amax", include_self=False)
