"""BM25: how well each of several texts matches the words of a query.

Rare words and identifiers ("topic57", "foo_bar", "§ 3") are what embeddings blur most. There is one
query at a time, so only its words are counted, and no inverted index is built.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from foveate.tasks.terms import terms
from foveate.tasks.weights import LENGTH_NORMALIZATION, SATURATION


def count_terms(query: Sequence[str], texts: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Count the terms of texts.

    Args:
        query: The terms of a query, each once.
        texts: The texts.

    Returns:
        How often each text has each of the query's terms, `(texts, terms)`, and how many terms it
        has in all, `(texts,)`.
    """
    wanted = frozenset(query)
    none = [0] * len(query)
    counts: list[list[int]] = []
    lengths: list[int] = []
    for text in texts:
        found = terms(text)
        if wanted.isdisjoint(found):
            counts.append(none)
        else:
            count = Counter(found)
            counts.append([count[term] for term in query])
        lengths.append(len(found))
    return torch.tensor(counts).view(len(lengths), len(query)), torch.tensor(lengths)


def bm25(counts: Tensor, lengths: Tensor) -> Tensor:
    """Score how well each text matches a query, between 0 and 1.

        b(x) = Σ_t i(t) n(t, x) / (n(t, x) + k (1 - l + l |x| / mean |x|)) / Σ_t i(t)

    where n(t, x) counts term t in text x, |x| is its length, k is 1.2 and l is 0.75. With N texts,
    m(t) of which have the term, i(t) = log(1 + (N - m(t) + 0.5) / (m(t) + 0.5)): the rarer a word,
    the greater its weight. This is Lucene's BM25, divided by its limit for a text that repeats
    every word of the query forever; so scores are comparable across queries.

    Args:
        counts: `(texts, terms)`, see `count_terms`.
        lengths: `(texts,)`.

    Returns:
        `(texts,)`; 0 if the query has no terms.
    """
    num_texts, num_terms = counts.shape
    if not num_terms:
        return torch.zeros(num_texts)
    having = (counts > 0).sum(0)
    weights = torch.log1p((num_texts - having + 0.5) / (having + 0.5))
    relative = (lengths / lengths.float().mean().clamp(min=1))[:, None]
    held_back = SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * relative)
    return counts / (counts + held_back) @ weights / weights.sum()
