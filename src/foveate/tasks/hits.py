"""What searching and asking return."""

from collections.abc import Iterable
from dataclasses import dataclass

from foveate.documents import Span
from foveate.tasks.arguments import Unit


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A word of a hit's best sentence that matches a word of the query.

    Attributes:
        query_word: The word of the query, as it is written there.
        word: The word of the sentence.
        start: Offset of its first character in `Hit.best.text`.
        end: Offset just past its last character.
        similarity: The cosine of their vectors, between -1 and 1.
    """

    query_word: str
    word: str
    start: int
    end: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage, section or document that matches a query.

    Attributes:
        span: Its place. The text of a section or document is its title. A passage is neighbouring
            sentences of a section: at most five, and at most 100 words unless one sentence alone is
            longer. Its speaker is None if there are several.
        best: The sentence in it that matches best.
        score: How well it matches: the weighted mean of its `foveate.tasks.relevance.Matches`, at
            most 1; of a passage, that of its best sentence. Of a reranked passage, the score of the
            reranker. Of a passage for which a generative model answers, the highest share of the
            question's attention that any token of that sentence received, averaged over the
            compressed layers.
        document_idx: Index of its document among those searched.
        likely: Whether its best sentence may answer the query, see
            `foveate.tasks.relevance.is_likely`; None with a generative model.
        unit: Which of them it is.
        copies: Names of other documents of a library with the same content, which are not shown
            themselves.
        matches: Which words of its best sentence match which of the query, in the order of the
            query; empty unless `search` was asked to explain.
    """

    span: Span
    best: Span
    score: float
    document_idx: int
    likely: bool | None = None
    unit: Unit = "passage"
    copies: tuple[str, ...] = ()
    matches: tuple[WordMatch, ...] = ()

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.span.text

    @property
    def quoted(self) -> Span:
        """What to show of it: a passage, or the best sentence of a section or document."""
        return self.span if self.unit == "passage" else self.best


def format_matches(matches: Iterable[WordMatch]) -> str:
    """Write words that match on one line.

    Example:
        >>> format_matches([WordMatch("delays", "delay", 56, 61, 0.63)])
        'delays → delay'
    """
    return ", ".join(f"{one.query_word} → {one.word}" for one in matches)
