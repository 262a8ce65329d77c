"""The parts of documents that match a query best, by their indices."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.inference import Encoder
from foveate.tasks.arguments import Unit
from foveate.tasks.relevance import match, weighted_mean
from foveate.tasks.weights import WEIGHTS, sentence_weights


@dataclass(frozen=True, slots=True)
class Scores:
    """How well the parts of a document match a query: weighted means of its `Matches`.

    Attributes:
        sentences: `(sentences,)`.
        sections: `(sections,)`.
        document: `(1,)`, of the whole document.
    """

    sentences: Tensor
    sections: Tensor
    document: Tensor

    def of(self, unit: Unit) -> Tensor:
        """Return the scores of the sections or of the document."""
        return self.sections if unit == "section" else self.document


@dataclass(frozen=True, slots=True)
class Ranked:
    """A section or document that matches.

    Attributes:
        document_idx: Index of its document.
        idx: Its index in `Document.walk`; 0 of a document.
        best: Index of the sentence in it that matches best.
        score: How well it matches.
        best_score: How well that sentence matches.
    """

    document_idx: int
    idx: int
    best: int
    score: float
    best_score: float


def score(query: str, documents: Sequence[Document], encoder: Encoder) -> list[Scores]:
    """Score the parts of documents."""
    found = match(query, documents, encoder.encode(documents), encoder)
    weights = WEIGHTS[encoder.context]
    for_sentences = sentence_weights(query, encoder.context)
    whole = weighted_mean(found.documents, weights.documents).split(1)
    return [
        Scores(
            weighted_mean(sentences, for_sentences), weighted_mean(sections, weights.sections), one
        )
        for sentences, sections, one in zip(found.sentences, found.sections, whole, strict=True)
    ]


def rank(
    scores: Sequence[Scores], documents: Sequence[Document], by: Unit, top_k: int
) -> list[Ranked]:
    """Return the sections or documents that match best; ties are in the order of the documents.

    Args:
        scores: The scores of each document.
        documents: The documents.
        by: What to rank.
        top_k: Number of parts.
    """
    of_units = [one.of(by) for one in scores]
    places = [(idx, i) for idx, of_document in enumerate(of_units) for i in range(len(of_document))]
    best = torch.cat(of_units).argsort(descending=True, stable=True)[:top_k].tolist()
    inside = {
        idx: _sentences_of(documents[idx], by) for idx in {places[place][0] for place in best}
    }
    ranked = []
    for idx, i in (places[place] for place in best):
        sentences = inside[idx][i]
        values = scores[idx].sentences[sentences.start : sentences.stop]
        best_idx = sentences.start + int(values.argmax())
        ranked.append(Ranked(idx, i, best_idx, float(of_units[idx][i]), float(values.max())))
    return ranked


def _sentences_of(document: Document, unit: Unit) -> list[range]:
    """Return the indices of the sentences in each part from which to choose the best.

    Those of a section are the sentences directly in it or, if there are none, all.
    """
    sections, first = [], 0
    for _, section in document.walk():
        end = first + (section.num_own_sentences or section.num_sentences)
        sections.append(range(first, end))
        first += section.num_own_sentences
    if unit == "section":
        return sections
    return [range(first)]
