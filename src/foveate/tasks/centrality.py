"""How central each sentence of a document is to it.

All vectors are scaled to unit length first, so that products are cosines, written ⟨x, y⟩.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors

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
    """Score each sentence s by its closeness to everything that contains it, and by its position.

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
    of_section, of_sentence = emphasis(positions, len(vectors.sections), ends_count=ends_count)
    return (
        closeness(vectors, positions, title)
        + SECTION_BONUS * of_section
        + SENTENCE_BONUS * of_sentence
    )


def closeness(
    vectors: DocumentVectors, positions: SentencePositions, title: Tensor | None
) -> Tensor:
    """Compute the mean in `centrality`: `(sentences,)`."""
    sentences = unit(vectors.sentences)
    cosines = [
        (sentences * unit(vectors.sections)[positions.section_idx]).sum(-1),
        sentences @ unit(vectors.document),
    ]
    if title is not None:
        cosines.append(sentences @ unit(title))
    return torch.stack(cosines).mean(0)


def emphasis(
    positions: SentencePositions, num_sections: int, *, ends_count: bool
) -> tuple[Tensor, Tensor]:
    """Compute e(S) and e(s) of `centrality`: `(sentences,)` each."""
    section, index = positions.section_idx, positions.sentence_idx
    sizes = torch.bincount(section, minlength=num_sections)
    return (
        _emphasis(section, torch.tensor(num_sections), ends_count),
        _emphasis(index, sizes[section], ends_count),
    )


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1."""
    return F.normalize(vectors, dim=-1)


def _emphasis(index: Tensor, count: Tensor, ends_count: bool) -> Tensor:
    """Compute e of `centrality`."""
    from_middle = 2 * index / (count - 1).clamp(min=1) - 1
    return (from_middle if ends_count else from_middle.clamp(max=0)) ** 2
