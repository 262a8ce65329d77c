"""How `foveate.tasks.relevance` weighs what it compares; imports neither torch nor a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from foveate.inference import Encoder
    from foveate.inference.query_encoder import QueryEncoder
    from foveate.inference.runner import Context

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
    """The weights of the columns of `foveate.tasks.relevance.Matches`, which sum to 1.

    Attributes:
        sentences: Of sentences.
        sections: Of sections.
        documents: Of documents.
    """

    sentences: tuple[float, ...]
    sections: tuple[float, ...]
    documents: tuple[float, ...]


Kind = Literal["question", "topic"]

_TOPIC_BY_SENTENCE = (0.25, 0.25, 0.0, 0.25, 0.25)
_WITHOUT_CONTEXT: dict[Kind, Weights] = {
    "question": Weights((0.15, 0.05, 0.0, 0.4, 0.4), (0.25, 0.25, 0.5), (0.2, 0.8)),
    "topic": Weights(_TOPIC_BY_SENTENCE, (0.25, 0.25, 0.5), (0.2, 0.8)),
}
_IN_CONTEXT: dict[Kind, Weights] = {
    "question": Weights((0.2, 0.05, 0.0, 0.25, 0.5), (0.45, 0.25, 0.3), (0.15, 0.85)),
    "topic": Weights(_TOPIC_BY_SENTENCE, (0.45, 0.25, 0.3), (0.15, 0.85)),
}
_WITH_TOKENS: dict[Kind, Weights] = {
    "question": Weights((0.2, 0.05, 0.45, 0.2, 0.1), (0.45, 0.25, 0.3), (0.2, 0.8)),
    "topic": Weights((0.1, 0.35, 0.15, 0.2, 0.2), (0.45, 0.25, 0.3), (0.2, 0.8)),
}
"""Those of models with vectors of tokens, of others that read sentences in their documents, and of
those that read sentences by themselves: among the best that `benchmarks/fusion.py` finds."""

UNRELATED_TOKENS = np.float32(0.35)
"""What `foveate.tasks.late_interaction` gives for texts that have nothing to do with a query."""

NAMED = 0.5
"""How much of what a sentence lacks to 1 it gets for having all that the query names exactly."""

_MAX_TOPIC_WORDS = 6


def relative(
    cosines: npt.NDArray[np.float32], unrelated: npt.NDArray[np.float32] | np.float32
) -> npt.NDArray[np.float32]:
    """Standardize cosines with queries: 0 is that of unrelated texts, and 1 remains 1.

    Args:
        cosines: `(..., queries)`.
        unrelated: `(queries,)`, u of `foveate.tasks.scorer`.
    """
    return (cosines - unrelated) / (1 - unrelated)


def is_likely(score: float, encoder: "Encoder | QueryEncoder") -> bool | None:
    """Return whether a sentence with this score may answer the query.

    Below `encoder.min_likely_score`, nine of ten do not; None if the encoder has no such score.
    """
    return None if encoder.min_likely_score is None else score >= encoder.min_likely_score


def weights_for(query: str, context: "Context", *, has_tokens: bool) -> Weights:
    """Return the weights for a query.

    Args:
        query: The query.
        context: What the model reads at once, see `Encoder`.
        has_tokens: Whether it has vectors of tokens.
    """
    kind: Kind = "topic" if names_topic(query) else "question"
    if has_tokens:
        return _WITH_TOKENS[kind]
    return (_IN_CONTEXT if context == "tree" else _WITHOUT_CONTEXT)[kind]


def weighted_mean(
    features: npt.NDArray[np.float64], weights: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Average features `(parts, features)` with weights that sum to 1.

    Returns:
        `(parts,)`, rounded, because the vectors of equal sentences in different batches differ by
        some 1e-7.
    """
    mean: npt.NDArray[np.float64] = (features @ np.array(weights)).round(5)
    return mean


def with_names(
    scores: npt.NDArray[np.float64], names: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Raise the scores of sentences with what a query names exactly: s + 0.5 e (1 - s).

    Args:
        scores: s, `(sentences,)`.
        names: e, see `foveate.tasks.scorer.Scorer.match_names`.
    """
    raised: npt.NDArray[np.float64] = (scores + NAMED * names * (1 - scores)).round(5)
    return raised


def names_topic(query: str) -> bool:
    """Return whether a query names a topic, as headings do: a few words without a question mark.

    Example:
        >>> names_topic("memory allocator"), names_topic("Who allocates memory?")
        (True, False)
    """
    return len(query.split()) <= _MAX_TOPIC_WORDS and not any(mark in query for mark in "?？؟")
