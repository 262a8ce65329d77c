"""How much each sentence of a document matters: by itself, or to a query.

All vectors are scaled to unit length first, so that products are cosines, written ⟨x, y⟩.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.inference.encoder import DocumentVectors
from foveate.tasks.places import Place

# Authors say what a text is about where it and its sections begin and end. Cosines of a document's
# sentences spread over some 0.3; these bonuses, found on 300 papers of ScisummNet's training part,
# let the place decide among sentences that are about equally central. The optimum is flat.
SECTION_AT_END = 0.15
SENTENCE_AT_END = 0.05


def centrality(vectors: DocumentVectors, places: list[Place], title: Tensor | None) -> Tensor:
    """Score each sentence s by its closeness to all that it stands under, and by its place.

        c(s) = mean(⟨s, S⟩, ⟨s, D⟩, ⟨s, t⟩) + 0.15 e(S) + 0.05 e(s)

    for the section S and the document D that it stands in and the document's title t. e(x) is
    (2p - 1)² for an x at p between 0, the first among its like, and 1, the last: 1 at both ends,
    and 0 in the middle. Sections are counted in the document, sentences in their section.

    Args:
        vectors: the document's.
        places: of the sentences.
        title: `(dimension,)`, the title's vector; None for a document without one.

    Returns:
        `(sentences,)`.
    """
    section, index = _of(places)
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
        + SECTION_AT_END * _at_end(section, torch.tensor(len(sizes)))
        + SENTENCE_AT_END * _at_end(index, sizes[section])
    )


def relevance(vectors: DocumentVectors, places: list[Place], query: Tensor) -> Tensor:
    """Score each sentence s of a section S by how close both are to a query q.

        r(s) = mean(⟨s, q⟩, ⟨S, q⟩)

    A sentence seldom names its subject; its section does. On questions of QMSum's training part,
    S lifts the precision of the first five sentences from 23 to 29 %.

    Args:
        vectors: the document's.
        places: of the sentences.
        query: `(dimension,)`.

    Returns:
        `(sentences,)`.
    """
    section, _ = _of(places)
    query = _unit(query)
    return (_unit(vectors.sentences) @ query + (_unit(vectors.sections) @ query)[section]) / 2


def _unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors, dim=-1)


def _of(places: list[Place]) -> tuple[Tensor, Tensor]:
    return (
        torch.tensor([place.section for place in places]),
        torch.tensor([place.index for place in places]),
    )


def _at_end(index: Tensor, count: Tensor) -> Tensor:
    """The e of `centrality`."""
    return (2 * index / (count - 1).clamp(min=1) - 1) ** 2
