"""The relevance of sentences, sections and whole documents to a query."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder
from foveate.inference.kept import Kept
from foveate.tasks.bm25 import Floats, Ints, Words
from foveate.tasks.centrality import SentencePositions, unit
from foveate.tasks.scorer import EncodedQuery, Scorer
from foveate.tasks.terms import all_titles, titles_above
from foveate.tasks.weights import Level, rarity, weighted_mean, with_names


class Matches(NamedTuple):
    """How the parts of documents match a query q, by meaning and by words.

    r and w are those of `foveate.tasks.scorer`, b is `foveate.tasks.bm25.bm25`, counted over all
    documents. The words of a section are those of the sentences directly in it, of the titles above
    them, and of the document's name.

    Attributes:
        sentences: For each document `(sentences, 5)`: of each sentence s, directly in section S,
            r(s, q), r(S, q), w(s, q), b(s) and b(S); w is 0 if the model has no vectors of tokens.
        names: For each document `(sentences,)`, e(s) of `foveate.tasks.scorer.Scorer.match_names`.
        sections: For each document `(sections, 3)`: of each section S, r(s, q) of the closest
            sentence directly in it, 0 if there is none, r(S, q) and b(S).
        documents: `(documents, 2)`: of each document, r(s, p) of the sentence closest to p,
            averaged over the sentences p of the query, and b of the document.
    """

    sentences: list[Floats]
    names: list[Floats]
    sections: list[Floats]
    documents: Floats


def encode_query(query: str, language: str | None, encoder: Encoder) -> EncodedQuery:
    """Encode a query, to be compared with documents in a language."""
    return EncodedQuery.encode(query, language, encoder, encoder.unrelated.mean(0).numpy())


def match(
    query: EncodedQuery, documents: Sequence[Document], vectors: Sequence[DocumentVectors]
) -> Matches:
    """Compare documents and their parts with a query.

    Args:
        query: The query, encoded by the encoder that made the vectors.
        documents: Documents.
        vectors: Their vectors. Of a sentence that is not read, only the words are compared.
    """
    words = [words_of(document) for document in documents]
    matched = _match_words(query, words)
    sentences, sections, closest = [], [], []
    for its_words, its_vectors, of_sentences, of_sections in zip(
        words, vectors, matched.sentences, matched.sections, strict=True
    ):
        section_idx = its_words.section_idx
        cosines = _cosines(query, its_vectors.sentences, slice(None))
        section_cosines = _cosines(query, its_vectors.sections)[:, 0]
        of_tokens = np.zeros(len(cosines))
        if query.tokens is not None and its_vectors.tokens is not None:
            assert its_vectors.num_tokens is not None
            tokens, numbers = its_vectors.tokens.numpy(), its_vectors.num_tokens.numpy()
            if len(tokens):
                of_tokens[numbers > 0] = query.match_tokens(tokens, numbers[numbers > 0])
        whole = cosines[:, 0]
        columns = [whole, section_cosines[section_idx], of_tokens, of_sentences]
        sentences.append(np.stack([*columns, of_sections[section_idx]], 1))
        best = np.full(len(of_sections), -np.inf)
        np.maximum.at(best, section_idx, whole)
        best[np.isinf(best)] = 0
        sections.append(np.stack([best, section_cosines, of_sections], 1))
        closest.append(cosines[:, query.sentences].max(0).mean())
    return Matches(sentences, matched.names, sections, np.stack([closest, matched.documents], 1))


def relevance(
    query: EncodedQuery, documents: Sequence[Document], vectors: Sequence[DocumentVectors]
) -> list[Tensor]:
    """Score each sentence of documents, see `score_sentences`.

    Returns:
        For each document, `(sentences,)` float64, at most 1.
    """
    return [
        torch.from_numpy(one) for one in score_sentences(query, match(query, documents, vectors))
    ]


def score_sentences(query: EncodedQuery, matches: Matches) -> list[Floats]:
    """Average what each sentence matches by, and prefer those with what the query names exactly.

    Returns:
        For each document, `(sentences,)`, at most 1.
    """
    return [
        with_names(weighted_mean(features, query.weights.sentences), names)
        for features, names in zip(matches.sentences, matches.names, strict=True)
    ]


class _WordMatches(NamedTuple):
    """b of the sentences and sections of each document, and of the documents; e of sentences."""

    sentences: list[Floats]
    sections: list[Floats]
    documents: Floats
    names: list[Floats]


def _cosines(query: EncodedQuery, vectors: Tensor, parts: slice = slice(1)) -> Floats:
    """Return r of vectors, which is 0 of zeros."""
    cosines = query.cosines(unit(vectors).numpy(), parts)
    cosines[~vectors.any(1).numpy()] = 0
    return cosines


class DocumentWords:
    """The words of a document: its sentences, the titles above each section, and its outline."""

    def __init__(self, document: Document) -> None:
        language = document.language
        self.section_idx = SentencePositions.from_document(document).section_idx.numpy()
        self.sentences = Words.from_texts((one.text for one in document.sentences()), language)
        self.titles = Words.from_texts(titles_above(document), language)
        self.outline = Words.from_texts([all_titles(document)], language)

    @property
    def num_bytes(self) -> int:
        """The memory that they take."""
        of_all = self.sentences, self.titles, self.outline
        return sum(one.hashes.nbytes + one.lengths.nbytes for one in of_all)


_words: Kept[DocumentWords] = Kept(2**26)


def words_of(document: Document) -> DocumentWords:
    """Return the words of a document; those of the documents that were used last are kept."""
    words = _words.get(document)
    if words is None:
        words = DocumentWords(document)
        _words.put(document, words)
    return words


def _match_words(query: EncodedQuery, words: Sequence[DocumentWords]) -> _WordMatches:
    num_sections = [len(one.titles.lengths) for one in words]
    firsts = np.cumsum([0, *num_sections[:-1]])
    section_idx = np.concatenate(
        [one.section_idx + first for one, first in zip(words, firsts, strict=True)]
    )
    document_idx = np.repeat(np.arange(len(words)), num_sections)
    sentences = _count(query.terms, [one.sentences for one in words])
    sections = _add(_count(query.terms, [one.titles for one in words]), sentences, section_idx)
    outlines = _count(query.terms, [one.outline for one in words])
    documents = _add(outlines, sentences, document_idx[section_idx])
    found: dict[Level, _Counts] = {
        "sentence": sentences,
        "section": sections,
        "document": documents,
    }

    def rarities(terms: Sequence[str], level: Level) -> Floats:
        counts = found[level][0][:, [query.terms.index(term) for term in terms]]
        return rarity((counts > 0).sum(0), len(counts))

    scorer = Scorer(query, rarities)
    b = {
        level: scorer.match_words(*counts, max(counts[1].mean(), 1.0), level)
        for level, counts in found.items()
    }
    return _WordMatches(
        np.split(b["sentence"], np.cumsum([len(one.sentences.lengths) for one in words])[:-1]),
        np.split(b["section"], firsts[1:]),
        b["document"],
        [scorer.match_names(one.sentences) for one in words],
    )


_Counts = tuple[Ints, Ints]
"""How often texts have the terms of a query, `(texts, terms)`, and all their terms, `(texts,)`."""


def _count(query: Sequence[str], words: Sequence[Words]) -> _Counts:
    counts = np.concatenate([one.count(query) for one in words])
    return counts, np.concatenate([one.lengths for one in words])


def _add(counts: _Counts, parts: _Counts, owner: Ints) -> _Counts:
    """Add the counts and lengths of parts to those of what they belong to."""
    added = counts[0].copy(), counts[1].copy()
    for total, part in zip(added, parts, strict=True):
        np.add.at(total, owner, part)
    return added
