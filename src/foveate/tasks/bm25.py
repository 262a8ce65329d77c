"""BM25: how well each of several texts matches the words of a query.

Rare words and identifiers ("topic57", "foo_bar", "§ 3") are what embeddings blur most. There is one
query at a time, so only its words are counted, and no inverted index is built.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count

import torch
from torch import Tensor

from foveate.tasks.terms import terms
from foveate.tasks.weights import Level, held_back, rarity, term_weights


class Words:
    """The terms of texts, which are listed once for all queries.

    Args:
        texts: The texts.
        language: Their language, see `terms`.

    Attributes:
        lengths: `(texts,)` int64, how many terms each text has.
    """

    def __init__(self, texts: Iterable[str], language: str | None = None) -> None:
        listed = [terms(text, language) for text in texts]
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        found = [*map(numbers.__getitem__, chain.from_iterable(listed))]
        self.lengths = torch.tensor([*map(len, listed)], dtype=torch.int64)
        self._numbers = dict(numbers)
        self._terms = torch.tensor(found, dtype=torch.int32)  # of all texts, one after the other
        self._text_idx = torch.arange(len(listed)).repeat_interleave(self.lengths)

    def count(self, query: Sequence[str]) -> Tensor:
        """Count how often each text has each term of a query: `(texts, terms)` int64."""
        counts = torch.zeros(len(self.lengths), len(query), dtype=torch.int64)
        for column, term in enumerate(query):
            if term in self._numbers:
                having = self._text_idx[self._terms == self._numbers[term]]
                counts[:, column] = having.bincount(minlength=len(self.lengths))
        return counts


def bm25(counts: Tensor, lengths: Tensor, level: Level = "sentence") -> Tensor:
    """Score how well each text matches the T terms of a query, between 0 and 1.

        b(x) = Σ_t i(t)^p n(t, x) / (n(t, x) + k (1 - l + l |x| / mean |x|)) / T

    where n(t, x) counts term t in text x, |x| is its length, k is 1.2 and l is 0.75, and i(t) is
    `foveate.tasks.weights.rarity`: 1 for a term that no text has. This is Lucene's BM25 but for the
    scale, by which the words of a query count as much as they are rare, and for p, which is 2 for
    sentences and sections, so that a name decides, and 1 for documents, which have most words.

    Args:
        counts: `(texts, terms)`, see `Words.count`.
        lengths: `(texts,)`.
        level: What the texts are.

    Returns:
        `(texts,)`; 0 if the query has no terms.
    """
    rarities = rarity((counts > 0).sum(0).numpy(), len(counts))
    weights = torch.from_numpy(term_weights(rarities, level)).float()
    relative = (lengths / lengths.float().mean().clamp(min=1))[:, None]
    return counts / (counts + held_back(relative)) @ weights
