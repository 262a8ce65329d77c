"""Coarse, then close: only those parts of documents are encoded that a query points at.

A part is a run of sentences of a section. Its words say whether it is read: encoding a text takes
a thousand times as long as counting its words.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder
from foveate.tasks.bm25 import Floats
from foveate.tasks.relevance import DocumentWords, match, score_sentences, words_of
from foveate.tasks.scorer import EncodedQuery, Scorer
from foveate.tasks.weights import Level, rarity, with_names

WHOLE = 120_000
"""Characters, some 30,000 tokens: documents that are not longer together are read whole."""

PARTS = 80
"""How many parts are read at first: of 973 parts of 49 papers, they have 96 % of the answers."""

_PART_CHARACTERS = 1_400
"""Length of a part: some 350 tokens."""


def encode_closely(
    query: EncodedQuery, documents: Sequence[Document], encoder: Encoder, num_sentences: int
) -> list[DocumentVectors]:
    """Encode the parts of documents that a query points at.

    First these are the parts whose words match it best; then, until nothing changes, those with a
    sentence among the best that is not read yet. Short documents are encoded as a whole.

    Args:
        query: The query.
        documents: The documents.
        encoder: What encodes them.
        num_sentences: How many of the best sentences have to be read.
    """
    known = encoder.known(documents)
    unread = (
        len(document.text)
        for document, vectors in zip(documents, known, strict=True)
        if vectors is None or vectors.read is not None
    )
    if not encoder.reads_parts or sum(unread) <= WHOLE:
        return encoder.encode(documents)
    words = [words_of(document) for document in documents]
    parts = [[*_parts(document)] for document in documents]
    scores = np.concatenate(_score_parts(query, words, parts))
    chosen = _chosen(scores, PARTS, [len(one) for one in parts])
    while True:
        new = [
            [its_parts[i] for i in indices if not _is_read(vectors, its_parts[i])]
            for its_parts, indices, vectors in zip(parts, chosen, known, strict=True)
        ]
        vectors = encoder.encode_parts(documents, new, known)
        if not any(new):
            return vectors
        known = [*vectors]
        sentence_scores = score_sentences(query, match(query, documents, vectors))
        best = _chosen(np.concatenate(sentence_scores), num_sentences, [*map(len, sentence_scores)])
        chosen = [
            np.unique(np.searchsorted([part.stop for part in its_parts], indices, "right"))
            for its_parts, indices in zip(parts, best, strict=True)
        ]


def share_read(documents: Sequence[Document], encoder: Encoder) -> float:
    """Return the share of the sentences of documents that have been encoded."""
    sizes = [sum(section.num_sentences for section in one.sections) for one in documents]
    num_read = sum(
        0 if vectors is None else size if vectors.read is None else int(vectors.read.sum())
        for size, vectors in zip(sizes, encoder.known(documents), strict=True)
    )
    return num_read / sum(sizes)


def _parts(document: Document) -> Iterator[range]:
    first = 0
    for _, section in document.walk():
        end, size = first, 0
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                if end > first and size + len(sentence.text) > _PART_CHARACTERS:
                    yield range(first, end)
                    first, size = end, 0
                end, size = end + 1, size + len(sentence.text)
        if end > first:
            yield range(first, end)
        first = end


def _score_parts(
    query: EncodedQuery, words: Sequence[DocumentWords], parts: Sequence[Sequence[range]]
) -> list[Floats]:
    """Score the parts of each document by b of their words and the titles above them, and by e."""
    starts = [np.array([part.start for part in its_parts]) for its_parts in parts]
    counts, lengths = [], []
    for its_words, its_starts in zip(words, starts, strict=True):
        above = its_words.section_idx[its_starts]
        of_titles, of_sentences = its_words.titles, its_words.sentences
        sums = np.add.reduceat(of_sentences.count(query.terms), its_starts)
        counts.append(sums + of_titles.count(query.terms)[above])
        sizes = np.add.reduceat(of_sentences.lengths, its_starts)
        lengths.append(sizes + of_titles.lengths[above])
    all_counts, all_lengths = np.concatenate(counts), np.concatenate(lengths)

    def rarities(terms: Sequence[str], level: Level) -> Floats:
        found = all_counts[:, [query.terms.index(term) for term in terms]] > 0
        return rarity(found.sum(0), len(found))

    scorer = Scorer(query, rarities)
    mean_length = max(all_lengths.mean(), 1.0)
    scores = scorer.match_words(all_counts, all_lengths, mean_length, "document")
    names = [
        np.maximum.reduceat(scorer.match_names(one.sentences), its_starts)
        for one, its_starts in zip(words, starts, strict=True)
    ]
    return np.split(with_names(scores, np.concatenate(names)), np.cumsum([*map(len, starts)])[:-1])


def _chosen(scores: Floats, number: int, sizes: Sequence[int]) -> list[npt.NDArray[np.int64]]:
    """Return the indices, in each of several lists, of what has the highest scores of all."""
    best = np.sort(np.argsort(-scores, kind="stable")[:number])
    ends = np.cumsum(sizes)
    of_lists = np.split(best, np.searchsorted(best, ends)[:-1])
    return [one - start for one, start in zip(of_lists, ends - sizes, strict=True)]


def _is_read(vectors: DocumentVectors | None, part: range) -> bool:
    """Return whether a part was read; parts are read as a whole."""
    return vectors is not None and (vectors.read is None or bool(vectors.read[part.start]))
