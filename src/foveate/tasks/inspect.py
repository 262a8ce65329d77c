"""A document as tree attention sees it: its outline in tokens, and the number of pairs."""

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from foveate.documents import Document, Span, as_document
from foveate.inference import default_model_path
from foveate.preprocessing.tree import outline, place_nodes
from foveate.tasks.tokens import token_counter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class SectionSize:
    """The size of a section.

    Attributes:
        span: The section and its place; its text is the title.
        num_sentences: Number of sentences in the section and its subsections.
        num_tokens: Number of tokens in the section and its subsections, with headings.
        num_own_tokens: Number of tokens that are not in a subsection.
    """

    span: Span
    num_sentences: int
    num_tokens: int
    num_own_tokens: int

    @property
    def depth(self) -> int:
        """Depth of the section: 1 for an outermost one."""
        return len(self.span.path)


@dataclass(frozen=True, eq=False)
class Inspection:
    """A document in numbers.

    Attributes:
        title: The document's title.
        sections: The outline, in the order of `Document.walk`.
        num_sentences: Number of sentences.
        num_tokens: Number of tokens; titles and headings are read too and count.
        longest: The sentence with the most tokens.
        longest_tokens: Number of its tokens.
        parent_ids: `(nodes,)` int64, the tree that attention follows, with a level for every level
            of nesting; each node's parent, -1 at the root.
    """

    title: str
    sections: list[SectionSize]
    num_sentences: int
    num_tokens: int
    longest: Span
    longest_tokens: int
    parent_ids: Tensor

    @property
    def depth(self) -> int:
        """Depth of the deepest section."""
        return max(section.depth for section in self.sections)

    @property
    def num_nodes(self) -> int:
        """Number of tokens and anchors."""
        return len(self.parent_ids)

    @cached_property
    def num_attended_pairs(self) -> int:
        """Number of pairs of nodes that attend to each other; see `attended_pairs`."""
        return attended_pairs(self.parent_ids)

    @property
    def density(self) -> float:
        """Fraction of attended pairs among all pairs of nodes, which dense attention computes."""
        return self.num_attended_pairs / self.num_nodes**2


def attended_pairs(parent_ids: Tensor) -> int:
    """Count the (ordered) pairs of nodes that tree attention computes, in linear time.

    Every node attends to itself. A family of m children adds m (m - 1) pairs of siblings, and 2 m
    pairs of a child and its parent, so a forest of n nodes has n + Σ m (m + 1) pairs.
    """
    num_children = torch.bincount(parent_ids[parent_ids >= 0])
    return len(parent_ids) + int((num_children * (num_children + 1)).sum())


def inspect(
    document: Document, *, model: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None
) -> Inspection:
    """Count the sentences, tokens and attended pairs of a document.

    Args:
        document: The document.
        model: What counts tokens: a tokenizer of transformers, the name or path of a checkpoint
            that has one, or a `tokenizer.json`; by default that of foveate's own model.

    Example:
        >>> from foveate import Document, inspect
        >>> fish = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.")])
        >>> inspection = inspect(fish)
        >>> inspection.num_tokens, inspection.num_nodes, inspection.longest.text
        (8, 14, 'Cod swim.')
        >>> print(f"{inspection.density:.0%} of the pairs are attended")
        31% of the pairs are attended
    """
    anchors = outline(as_document(document))
    count = token_counter(default_model_path() / "tokenizer.json" if model is None else model)
    sizes = count([anchor.text for anchor in anchors])

    own_tokens: list[int] = []  # by section
    sentence_tokens: list[int] = []
    for anchor, size in zip(anchors, sizes, strict=True):
        if anchor.kind == "section":
            own_tokens.append(0)
        elif own_tokens:  # a section's sentences come before its subsections
            own_tokens[-1] += size
        if anchor.sentence_idx is not None:
            sentence_tokens.append(size)
    sections = list(document.walk())
    own_sentences = [section.num_own_sentences for _, section in sections]
    depths = [len(path) for path, _ in sections]
    longest = max(range(len(sentence_tokens)), key=sentence_tokens.__getitem__)
    return Inspection(
        title=document.title,
        sections=[
            SectionSize(span, num_sentences, num_tokens, num_own_tokens)
            for span, num_sentences, num_tokens, num_own_tokens in zip(
                document.section_spans(),
                _subtotals(own_sentences, depths),
                _subtotals(own_tokens, depths),
                own_tokens,
                strict=True,
            )
        ],
        num_sentences=len(sentence_tokens),
        num_tokens=sum(sizes),
        longest=document.spans()[longest],
        longest_tokens=sentence_tokens[longest],
        parent_ids=place_nodes([anchor.parent for anchor in anchors], sizes, range(len(anchors)))[
            0
        ],
    )


def _subtotals(sizes: list[int], depths: list[int]) -> list[int]:
    """Add to the size of each section those of its subsections.

    Args:
        sizes: The sizes of the sections without their subsections, in document order.
        depths: The depths of the sections.
    """
    totals = list(sizes)
    pending: dict[int, int] = {}  # by depth, of the sections whose parent is still to come
    for i in reversed(range(len(sizes))):
        totals[i] += pending.pop(depths[i] + 1, 0)
        pending[depths[i]] = pending.get(depths[i], 0) + totals[i]
    return totals
