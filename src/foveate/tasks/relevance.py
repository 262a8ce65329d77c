"""How close each sentence of a document is to a query.

All vectors are scaled to unit length first, so that products are cosines, written ⟨x, y⟩.
"""

from collections.abc import Sequence
from pathlib import PurePath

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder
from foveate.tasks.bm25 import bm25, count_terms, terms
from foveate.tasks.centrality import SentencePositions


def relevance(
    query: str, documents: Sequence[Document], vectors: Sequence[DocumentVectors], encoder: Encoder
) -> list[Tensor]:
    """Score each sentence s of a section S by how close both are to a query q.

        r(s) = mean(⟨s, q⟩, ⟨S, q⟩, b(s), b(S))

    where b is `foveate.tasks.bm25.bm25`, counted over the sentences and the sections of all
    documents. The words of a section are those of its own sentences, of the titles above them, and
    of the document's name. A sentence seldom names its subject; its section does.

    Args:
        query: The query.
        documents: Documents.
        vectors: Their vectors.
        encoder: The encoder that made them.

    Returns:
        For each document, `(sentences,)` float64, at most 1. Scores are rounded, because equal
        sentences in different batches differ by some 1e-7.
    """
    query_vector = _unit(encoder.encode_texts(query))
    words = _word_matches(query, documents)
    scores: list[Tensor] = []
    for document, its_vectors, matches in zip(documents, vectors, words, strict=True):
        section = SentencePositions.from_document(document).section_idx
        closeness = torch.stack(
            [
                _unit(its_vectors.sentences) @ query_vector,
                (_unit(its_vectors.sections) @ query_vector)[section],
                *matches,
            ]
        ).mean(0)
        scores.append(closeness.to(torch.float64).round(decimals=5))
    return scores


def _word_matches(query: str, documents: Sequence[Document]) -> list[tuple[Tensor, Tensor]]:
    """Compute b of each sentence and of its section, for each document."""
    wanted = list(dict.fromkeys(terms(query)))
    sections = [(document, path) for document in documents for path, _ in document.walk()]
    sizes = [section.num_own_sentences for document in documents for _, section in document.walk()]
    sentences = (sentence.text for document in documents for sentence in document.sentences())
    counts, lengths = count_terms(wanted, sentences)
    of_sentence = bm25(counts, lengths)

    section_counts, section_lengths = count_terms(
        wanted,
        (
            " ".join((PurePath(document.name).stem, document.title, *path))
            for document, path in sections
        ),
    )
    section_idx = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    section_counts.index_add_(0, section_idx, counts)
    section_lengths.index_add_(0, section_idx, lengths)
    of_section = bm25(section_counts, section_lengths)[section_idx]
    num_sentences = [sum(1 for _ in document.sentences()) for document in documents]
    return list(zip(of_sentence.split(num_sentences), of_section.split(num_sentences), strict=True))


def _unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors, dim=-1)
