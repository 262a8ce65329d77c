"""How `foveate.tasks.relevance` weighs what it compares; imports neither torch nor a model."""

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from foveate.inference import Encoder
    from foveate.inference.encoder import Context
    from foveate.inference.query_encoder import QueryEncoder

Cosines = TypeVar("Cosines", "Tensor", npt.NDArray[np.float32])

SATURATION = 1.2
"""How soon repetitions of a word stop counting: k of `foveate.tasks.bm25.bm25`."""

LENGTH_NORMALIZATION = 0.75
"""How much length is penalized: l of `foveate.tasks.bm25.bm25`."""


Lengths = TypeVar("Lengths", "Tensor", npt.NDArray[np.float64], float)


def held_back(length: Lengths) -> Lengths:
    """Return k (1 - l + l x) of `foveate.tasks.bm25.bm25` for a length of x times the mean."""
    return SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * length)


Level = Literal["sentence", "section", "document"]
POWERS: dict[Level, int] = {"sentence": 2, "section": 2, "document": 1}
"""Of the rarity of terms, by what is ranked: p of `foveate.tasks.bm25.bm25`."""


def rarity(having: npt.NDArray[np.integer], num_texts: int) -> npt.NDArray[np.float64]:
    """Return how rare terms are, between 0 and 1, from how many of the texts have each of them.

        i(t) = log(1 + (N - m(t) + 1/2) / (m(t) + 1/2)) / log(2 N + 2)

    where m(t) of N texts have term t.
    """
    rare: npt.NDArray[np.float64] = np.log1p((num_texts - having + 0.5) / (having + 0.5))
    rare /= np.log(2 * num_texts + 2)
    return rare


def term_weights(rarities: npt.NDArray[np.float64], level: Level) -> npt.NDArray[np.float64]:
    """Return i(t)^p / T of `foveate.tasks.bm25.bm25` from the rarities of the T terms."""
    weights: npt.NDArray[np.float64] = rarities ** POWERS[level] / max(len(rarities), 1)
    return weights


class Weights(NamedTuple):
    """The weights of the columns of `Matches`, which sum to 1.

    Attributes:
        sentences: Of sentences that answer a question.
        topics: Of sentences about a topic, see `names_topic`.
        sections: Of sections.
        documents: Of documents.
    """

    sentences: tuple[float, ...]
    topics: tuple[float, ...]
    sections: tuple[float, ...]
    documents: tuple[float, ...]


_ALIKE = (0.25, 0.25, 0.25, 0.25)
_OF_SENTENCES = Weights((0.15, 0.05, 0.4, 0.4), _ALIKE, (0.25, 0.25, 0.5), (0.2, 0.8))
WEIGHTS: "dict[Context, Weights]" = {
    "sentence": _OF_SENTENCES,
    "document": _OF_SENTENCES,
    "tree": Weights((0.2, 0.05, 0.25, 0.5), _ALIKE, (0.45, 0.25, 0.3), (0.15, 0.85)),
}
"""Weights for encoders of each context.

Those of our own model were chosen by `benchmarks/fusion.py`, and for topics it ranks all alike as
high, which lose to vectors alone on no kind of query. Those of other models are near the ones that
it chooses for all-MiniLM-L6-v2.
"""

_MAX_TOPIC_WORDS = 6


def relative(cosines: Cosines, unrelated: Cosines) -> Cosines:
    """Standardize cosines with queries: 0 is that of unrelated texts, and 1 remains 1.

    Args:
        cosines: `(..., queries)`.
        unrelated: `(queries,)`, see `unrelated_cosines`.
    """
    return (cosines - unrelated) / (1 - unrelated)


def is_likely(score: float, encoder: "Encoder | QueryEncoder") -> bool | None:
    """Return whether a sentence with this score may answer the query.

    Below `encoder.min_likely_score`, nine of ten do not; None if the encoder has no such score.
    """
    return None if encoder.min_likely_score is None else score >= encoder.min_likely_score


def sentence_weights(query: str, context: "Context") -> tuple[float, ...]:
    """Return the weights with which sentences are ranked by a query."""
    weights = WEIGHTS[context]
    return weights.topics if names_topic(query) else weights.sentences


def names_topic(query: str) -> bool:
    """Return whether a query names a topic, as headings do: a few words without a question mark.

    Example:
        >>> names_topic("memory allocator"), names_topic("Who allocates memory?")
        (True, False)
    """
    return len(query.split()) <= _MAX_TOPIC_WORDS and not any(mark in query for mark in "?？؟")
