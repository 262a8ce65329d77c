"""Queries made from a document itself: what is left out of it, and what is asked about the rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import torch

from foveate.data import Example, abstract_sections
from foveate.preprocessing.tree import Anchor, outline

from .oracle import oracle

T = TypeVar("T")

_MIN_WORDS = 5  # of a sentence that becomes a query
_MIN_SENTENCES = 2  # of a section whose heading becomes a query
_NUMBERING = re.compile(r"^(?:(?:\d+|[A-Z]|[IVX]+)[.)]\s*)*(?:\d+\s+)?")


@dataclass(frozen=True)
class TargetedQuery:
    """A text, and the anchors that it should find.

    Attributes:
        text: The text.
        finds: Indices of anchors, possibly of several kinds; empty if the text is read for its own
            sake.
    """

    text: str
    finds: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrainingTree:
    """One way of reading an example.

    Attributes:
        anchors: What the model sees, in reading order.
        queries: What it is asked.
        salient: The anchors of the sentences that make the best summary; empty if none is known.
    """

    anchors: list[Anchor]
    queries: list[TargetedQuery]
    salient: frozenset[int]


def read(
    example: Example,
    levels: int | None,
    generator: torch.Generator,
    max_queries: int,
    max_given_queries: int,
) -> TrainingTree:
    """Decide at random what to leave out of a document and what to ask about it.

    - All headings are left out, or half of them. A heading asks for its section and the sentences
      in it, the title for the document.
    - Sentences are asked for with some of their words. Half of them are left out, and ask for
      their neighbours and for the document.
    - The example's own queries ask for their sentences.
    - The abstract is left out of every other reading; then sentences of the reference ask for the
      document.
    - A few sentences are read for their own sake.

    Args:
        example: The example.
        levels: See `foveate.preprocessing.tree.outline`.
        generator: The source of randomness.
        max_queries: Largest number of queries of each kind that are made from the document.
        max_given_queries: Largest number of the example's own queries.
    """
    tree = _Tree(outline(example.document, levels=levels))
    left_out: set[int] = set()
    abstract = _abstract(example, tree)
    if abstract and _chance(generator, 0.5):
        left_out |= abstract
    share = 1.0 if _chance(generator, 0.5) else 0.5
    headings = [i for i in tree.titles if i not in left_out and _chance(generator, share)]
    left_out.update(headings)

    shown = [i for i in tree.sentences if i not in left_out]
    long = [i for i in shown if len(tree.anchors[i].text.split()) >= _MIN_WORDS]
    asked = _sample(generator, long, max_queries)
    if len(shown) > 4 * max_queries:
        left_out.update(asked[::2])

    queries = [
        *(tree.heading_query(i, left_out) for i in _sample(generator, headings, max_queries)),
        *(tree.sentence_query(i, left_out, generator) for i in asked),
        *tree.given_queries(example, left_out, generator, max_given_queries),
    ]
    if example.references and not abstract - left_out:
        sentences = re.split(r"(?<=[.!?])\s+", example.references[0])
        queries += [
            TargetedQuery(text, (0,)) for text in _sample(generator, sentences, max_queries // 2)
        ]
    queries += [
        TargetedQuery(tree.anchors[i].text) for i in _sample(generator, shown, max_queries // 2)
    ]
    return tree.reading(left_out, [query for query in queries if query.text], example.references)


class _Tree:
    """The anchors of a document, from which some are left out.

    Args:
        anchors: The anchors in reading order, so that the descendants of each follow it directly.

    Attributes:
        anchors: The anchors.
        ends: The index after the last anchor below each.
        titles: The anchors of the title and the headings.
        sentences: The anchors of all other sentences.
    """

    def __init__(self, anchors: list[Anchor]) -> None:
        self.anchors = anchors
        self.ends = [i + 1 for i in range(len(anchors))]
        for i in range(len(anchors) - 1, 0, -1):
            parent = anchors[i].parent
            self.ends[parent] = max(self.ends[parent], self.ends[i])
        texts = [i for i, anchor in enumerate(anchors) if anchor.text]
        self.titles = [i for i in texts if anchors[i].sentence_idx is None]
        self.sentences = [i for i in texts if anchors[i].sentence_idx is not None]

    def heading_query(self, i: int, left_out: set[int]) -> TargetedQuery:
        """Make a heading ask for its section, or for nothing if too little is left of that."""
        parent = self.anchors[i].parent
        text = _NUMBERING.sub("", self.anchors[i].text).strip()
        if self.anchors[parent].kind == "document":
            return TargetedQuery(text, (parent,))
        below = [
            j
            for j in range(i + 1, self.ends[parent])
            if self.anchors[j].sentence_idx is not None and j not in left_out
        ]
        return TargetedQuery(text, (parent, *below) if len(below) >= _MIN_SENTENCES else ())

    def sentence_query(
        self, i: int, left_out: set[int], generator: torch.Generator
    ) -> TargetedQuery:
        """Ask for a sentence or, if it is left out, for those next to it and for the document."""
        text = _thin(generator, self.anchors[i].text)
        if i not in left_out:
            return TargetedQuery(text, (i,))
        parent = self.anchors[i].parent
        near: list[int] = []
        for side in (range(i - 1, parent, -1), range(i + 1, self.ends[parent])):
            siblings = (
                j
                for j in side
                if self.anchors[j].parent == parent
                and self.anchors[j].sentence_idx is not None
                and j not in left_out
            )
            near += islice(siblings, 1)
        return TargetedQuery(text, (0, *near))

    def given_queries(
        self, example: Example, left_out: set[int], generator: torch.Generator, max_queries: int
    ) -> list[TargetedQuery]:
        """Ask the example's own queries."""
        anchor_of = {self.anchors[i].sentence_idx: i for i in self.sentences if i not in left_out}
        return [
            TargetedQuery(
                query.text, tuple(anchor_of[j] for j in query.sentence_ids if j in anchor_of)
            )
            for query in _sample(generator, example.queries, max_queries)
        ]

    def reading(
        self, left_out: set[int], queries: Sequence[TargetedQuery], references: Sequence[str]
    ) -> TrainingTree:
        """Leave out anchors and renumber the rest."""
        kept = [i for i in range(len(self.anchors)) if i not in left_out]
        place = {i: new for new, i in enumerate(kept)} | {-1: -1}
        salient: list[int] = []
        if references:
            shown = [i for i in self.sentences if i not in left_out]
            best = oracle([self.anchors[i].text for i in shown], references[0])
            salient = [place[shown[i]] for i in best]
        return TrainingTree(
            [self.anchors[i]._replace(parent=place[self.anchors[i].parent]) for i in kept],
            [TargetedQuery(x.text, tuple(place[i] for i in x.finds)) for x in queries],
            frozenset(salient),
        )


def _abstract(example: Example, tree: _Tree) -> set[int]:
    """Return the sections of the abstract and all below them, unless nothing else is left."""
    if not example.references:
        return set()
    sections = [i for i, anchor in enumerate(tree.anchors) if anchor.kind == "section"]
    found = abstract_sections(example.document, example.references[0])
    inside = set(chain.from_iterable(range(sections[i], tree.ends[sections[i]]) for i in found))
    return set() if inside.issuperset(tree.sentences) else inside


def _chance(generator: torch.Generator, probability: float) -> bool:
    return bool(torch.rand((), generator=generator) < probability)


def _sample(generator: torch.Generator, options: Sequence[T], size: int) -> list[T]:
    """Return at most `size` of the options, in random order."""
    order = torch.randperm(len(options), generator=generator)[:size]
    return [options[i] for i in order.tolist()]


def _thin(generator: torch.Generator, text: str) -> str:
    """Leave out up to six in ten words; in one in five cases, none."""
    words = text.split()
    share = 0.4 + 0.75 * float(torch.rand((), generator=generator))
    keeps = torch.rand(len(words), generator=generator) < share
    return " ".join(word for word, keep in zip(words, keeps.tolist(), strict=True) if keep) or text
