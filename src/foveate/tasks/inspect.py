"""What a document looks like to tree attention: its outline in tokens, and what is attended."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from foveate.documents import Document, Sentence, as_document
from foveate.inference.default import default_model_path
from foveate.preprocessing.tree import outline, place_nodes
from foveate.tasks.places import Place, own_sentences, places


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A section of the outline.

    Attributes:
        path: titles from the outermost section to its own.
        sentences: number of sentences in it and below it.
        tokens: number of tokens in it and below it, headings included.
        own_tokens: those of them that are not in a subsection.
    """

    path: tuple[str, ...]
    sentences: int
    tokens: int
    own_tokens: int

    @property
    def depth(self) -> int:
        """Levels of sections down to this one, from 1."""
        return len(self.path)


@dataclass(frozen=True, slots=True)
class LongestSentence:
    """The sentence with the most tokens, and where it stands."""

    sentence: Sentence
    place: Place
    tokens: int


@dataclass(frozen=True, eq=False)
class Inspection:
    """A document in numbers.

    Attributes:
        title: the document's.
        sections: the outline, in the order of `Document.walk`.
        sentences: number of sentences.
        tokens: number of tokens; titles and headings are read too and count.
        longest: the longest sentence.
        parents: `(nodes,)` int64, the tree that is attended along, with a level for every level of
            nesting; each node's parent, -1 at the root.
    """

    title: str
    sections: list[OutlineRow]
    sentences: int
    tokens: int
    longest: LongestSentence
    parents: Tensor

    @property
    def depth(self) -> int:
        """Levels of sections that are nested into each other."""
        return max(section.depth for section in self.sections)

    @property
    def nodes(self) -> int:
        """Tokens and the anchors above them."""
        return len(self.parents)

    @cached_property
    def attended(self) -> int:
        """Pairs of nodes that attend each other: see `attended_pairs`."""
        return attended_pairs(self.parents)

    @property
    def density(self) -> float:
        """Share of all pairs of nodes, which dense attention computes, that are attended."""
        return self.attended / self.nodes**2


def attended_pairs(parents: Tensor) -> int:
    """Count the (ordered) pairs of nodes that tree attention computes, in time linear in nodes.

    Every node attends itself. A family of m children adds m (m - 1) pairs of siblings, and 2 m
    pairs of a child and its parent, so that a forest of n nodes has n + Σ m (m + 1).
    """
    children = torch.bincount(parents[parents >= 0])
    return len(parents) + int((children * (children + 1)).sum())


def inspect(document: Document, *, tokenizer: PreTrainedTokenizerBase | None = None) -> Inspection:
    """Count what a document is made of.

    Args:
        document: the document.
        tokenizer: says what a token is; by default the default encoder's.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.inspect import inspect
        >>> fish = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.")])
        >>> inspection = inspect(fish)
        >>> inspection.tokens, inspection.nodes, inspection.longest.sentence.text
        (8, 14, 'Cod swim.')
        >>> print(f"{inspection.density:.0%} of the pairs are attended")
        31% of the pairs are attended
    """
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(default_model_path())
    anchors = outline(as_document(document))
    # verbose=False: a long sentence is no reason to warn, nothing is run on it here.
    token_ids = tokenizer(
        [anchor.text for anchor in anchors], add_special_tokens=False, verbose=False
    )["input_ids"]
    sizes = [len(ids) for ids in token_ids]

    own_tokens: list[int] = []  # by section
    of_sentence: list[int] = []
    for anchor, size in zip(anchors, sizes, strict=True):
        if anchor.kind == "section":
            own_tokens.append(0)
        elif own_tokens:  # sentences of a section stand before its subsections
            own_tokens[-1] += size
        if anchor.sentence is not None:
            of_sentence.append(size)
    sections = list(document.walk())
    own_sentence_counts = [sum(1 for _ in own_sentences(section)) for _, section in sections]
    depths = [len(path) for path, _ in sections]
    longest = max(range(len(of_sentence)), key=of_sentence.__getitem__)
    return Inspection(
        title=document.title,
        sections=[
            OutlineRow(path, sentences, tokens, own)
            for (path, _), sentences, tokens, own in zip(
                sections,
                _subtotals(own_sentence_counts, depths),
                _subtotals(own_tokens, depths),
                own_tokens,
                strict=True,
            )
        ],
        sentences=len(of_sentence),
        tokens=sum(sizes),
        longest=LongestSentence(
            list(document.sentences())[longest], places(document)[longest], of_sentence[longest]
        ),
        parents=place_nodes([anchor.parent for anchor in anchors], sizes)[0],
    )


def _subtotals(own: list[int], depths: list[int]) -> list[int]:
    """Add to each section what stands below it; sections in order, with their depths."""
    totals = list(own)
    below: dict[int, int] = {}  # sum over the sections of each depth whose parent is yet to come
    for i in reversed(range(len(own))):
        totals[i] += below.pop(depths[i] + 1, 0)
        below[depths[i]] = below.get(depths[i], 0) + totals[i]
    return totals
