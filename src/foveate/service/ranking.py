"""What matches a query in one document that is in memory: all that a page shows, in one go."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.documents import Span
from foveate.inference import Encoder
from foveate.service.view import DocumentView
from foveate.tasks.arguments import Unit
from foveate.tasks.relevance import WEIGHTS, match, sentence_weights, weighted_mean


@dataclass(frozen=True, slots=True)
class Scores:
    """How well the parts of a document match a query.

    Attributes:
        sentences: `(sentences,)`.
        sections: `(sections,)`.
        document: Of the whole document.
    """

    sentences: Tensor
    sections: Tensor
    document: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A sentence, section or document that matches.

    Attributes:
        span: Its place.
        best: Index of the sentence in it that matches best.
        section_idx: Its section; None for the document.
        score: How well it matches.
    """

    span: Span
    best: int
    section_idx: int | None
    score: float


def score(query: str, view: DocumentView, encoder: Encoder) -> Scores:
    """Score the parts of a document as `foveate.search` does."""
    found = match(query, [view.document], [encoder.encode(view.document)], encoder)
    weights = WEIGHTS[encoder.context]
    return Scores(
        weighted_mean(found.sentences[0], sentence_weights(query, encoder.context)),
        weighted_mean(found.sections[0], weights.sections),
        float(weighted_mean(found.documents, weights.documents)),
    )


def rank(scores: Scores, view: DocumentView, by: Unit, top_k: int) -> list[Ranked]:
    """Return the parts that match best, best first, as `foveate.search` does."""
    if by == "sentence":
        best = _top(scores.sentences, top_k)
        return [
            Ranked(view.spans[i], i, view.places[i].section_idx, float(scores.sentences[i]))
            for i in best
        ]
    if by == "section":
        ranked = []
        for i in _top(scores.sections, top_k):
            section = view.sections[i]
            size = section.num_own_sentences or section.num_sentences
            closest = _closest(scores.sentences, section.start, size)
            ranked.append(Ranked(view.section_spans[i], closest, i, float(scores.sections[i])))
        return ranked
    closest = _closest(scores.sentences, 0, len(scores.sentences))
    return [Ranked(view.span, closest, None, scores.document)]


def _top(scores: Tensor, top_k: int) -> list[int]:
    best: Sequence[int] = scores.argsort(descending=True, stable=True)[:top_k].tolist()
    return list(best)


def _closest(scores: Tensor, start: int, size: int) -> int:
    return start + int(torch.argmax(scores[start : start + size]))
