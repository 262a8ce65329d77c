"""How much each sentence of a document matters: by itself, or to a query.

All vectors are scaled to unit length first, so that products are cosines, written ⟨x, y⟩.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder
from foveate.tasks.bm25 import bm25, count_terms, terms

# Authors say what a text is about where it and its sections begin and, in papers, end. Cosines of a
# document's sentences spread over some 0.3; these bonuses, found on 300 papers of ScisummNet's
# training part, let the position decide among sentences that are about equally central. The
# optimum is flat.
SECTION_BONUS = 0.15
SENTENCE_BONUS = 0.05


class SentencePositions(NamedTuple):
    """The positions of a document's sentences.

    Attributes:
        section_idx: `(sentences,)` int64, each sentence's section in the order of `Document.walk`.
        sentence_idx: `(sentences,)` int64, its index among the sentences directly in that section.
    """

    section_idx: Tensor
    sentence_idx: Tensor

    @classmethod
    def from_document(cls, document: Document) -> "SentencePositions":
        """Find the position of each of `Document.sentences`, in their order."""
        sizes = torch.tensor([section.num_own_sentences for _, section in document.walk()])
        section = torch.arange(len(sizes)).repeat_interleave(sizes)
        return cls(section, torch.arange(len(section)) - (sizes.cumsum(0) - sizes)[section])


def centrality(
    vectors: DocumentVectors,
    positions: SentencePositions,
    title: Tensor | None,
    *,
    ends_count: bool,
) -> Tensor:
    """Score each sentence s by its closeness to everything that it belongs to, and its position.

        c(s) = mean(⟨s, S⟩, ⟨s, D⟩, ⟨s, t⟩) + 0.15 e(S) + 0.05 e(s)

    for the section S and the document D that it belongs to and the document's title t. e(x) is
    (2p - 1)² for an x at p between 0, the first of its kind, and 1, the last: 1 at both ends, and 0
    in the middle; or, unless ends count, 0 for all of the second half. Sections are counted in the
    document, sentences in their section.

    Args:
        vectors: The document's vectors.
        positions: The positions of its sentences.
        title: `(dimension,)`, the title's vector; None for a document without one.
        ends_count: Whether the document and its sections end with what matters, as papers do.

    Returns:
        `(sentences,)`.
    """
    section, index = positions.section_idx, positions.sentence_idx
    sentences = _unit(vectors.sentences)
    closeness = [
        (sentences * _unit(vectors.sections)[section]).sum(-1),
        sentences @ _unit(vectors.document),
    ]
    if title is not None:
        closeness.append(sentences @ _unit(title))
    sizes = torch.bincount(section, minlength=len(vectors.sections))
    return (
        torch.stack(closeness).mean(0)
        + SECTION_BONUS * _emphasis(section, torch.tensor(len(sizes)), ends_count)
        + SENTENCE_BONUS * _emphasis(index, sizes[section], ends_count)
    )


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


def _emphasis(index: Tensor, count: Tensor, ends_count: bool) -> Tensor:
    """Compute e of `centrality`."""
    from_middle = 2 * index / (count - 1).clamp(min=1) - 1
    return (from_middle if ends_count else from_middle.clamp(max=0)) ** 2
