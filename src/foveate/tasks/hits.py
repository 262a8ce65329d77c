"""What searching and asking return."""

from collections.abc import Iterable
from dataclasses import dataclass, field

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
class NearbySentence:
    """A sentence in or near a result.

    Attributes:
        span: The sentence and its place.
        is_marked: Whether it is the result or the part of it that matters.
        separator: What precedes it: a line break where a paragraph, a row of a table or a line
            of code begins; else a space or, in languages without spaces, nothing.
        sentence_idx: Its index in its document.
        section_idx: The index, in `Document.walk`, of the section that it is directly in.
    """

    span: Span
    is_marked: bool
    separator: str
    sentence_idx: int
    section_idx: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage, section or document that matches a query, or a sentence of a summary.

    It has all that is shown of it, so that nobody needs its document again.

    Attributes:
        span: Its place. The text of a section or document is its title. A passage is neighbouring
            sentences of a section: at most five, and at most 100 words unless one sentence alone is
            longer. Its speaker is None if there are several.
        best: The sentence in it that matches best.
        score: How well it matches: the weighted mean of its `foveate.tasks.relevance.Matches`, at
            most 1; of a passage, that of its best sentence. Of a reranked passage, the score of the
            reranker. Of a passage for which a generative model answers, the highest share of the
            question's attention that any token of that sentence received, averaged over the
            compressed layers. Of a sentence of a summary, c in `foveate.summarize`.
        document_idx: Index of its document among those searched.
        likely: Whether its best sentence may answer the query, see
            `foveate.tasks.relevance.is_likely`; None with a generative model.
        unit: Which of them it is.
        copies: Names of other documents of a library with the same content, which are not shown
            themselves.
        matches: Which words of its best sentence match which of the query, in the order of the
            query; empty unless `search` was asked to explain.
        sentences: The sentences of `quoted`, and those around it in the same section that were
            asked for.
        section_idx: The index of its section in `Document.walk`; None of a document.
        title: The title of its document; empty if it has none.
        authors: The names of that document's authors.
        date: When that document was published, see `foveate.Document`.
        language: ISO 639 code of that document's language.
    """

    span: Span
    best: Span
    score: float
    document_idx: int
    likely: bool | None = None
    unit: Unit = "passage"
    copies: tuple[str, ...] = ()
    matches: tuple[WordMatch, ...] = ()
    sentences: tuple[NearbySentence, ...] = field(default=(), repr=False)
    section_idx: int | None = None
    title: str = ""
    authors: tuple[str, ...] = ()
    date: str | None = None
    language: str | None = None

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.span.text

    @property
    def quoted(self) -> Span:
        """What to show of it: a passage, or the best sentence of a section or document."""
        return self.span if self.unit == "passage" else self.best

    @property
    def inside(self) -> range:
        """The indices, in its document, of the sentences of `quoted`."""
        quoted = self.quoted
        idx = [
            one.sentence_idx
            for one in self.sentences
            if one.span.start < quoted.end and one.span.end > quoted.start
        ]
        return range(idx[0], idx[-1] + 1)

    @property
    def best_idx(self) -> int:
        """The index of the best sentence in its document."""
        return next(one.sentence_idx for one in self.sentences if one.is_marked)

    @property
    def before(self) -> str:
        """The text of the sentences before `quoted`."""
        return join_nearby(one for one in self.sentences if one.span.end <= self.quoted.start)

    @property
    def after(self) -> str:
        """The text of the sentences after `quoted`."""
        return join_nearby(one for one in self.sentences if one.span.start >= self.quoted.end)


def join_nearby(sentences: Iterable[NearbySentence]) -> str:
    """Return the text of sentences; paragraphs begin on new lines."""
    return "".join(one.separator + one.span.text for one in sentences).strip()


def format_matches(matches: Iterable[WordMatch]) -> str:
    """Write words that match on one line.

    Example:
        >>> format_matches([WordMatch("delays", "delay", 56, 61, 0.63)])
        'delays → delay'
    """
    return ", ".join(f"{one.query_word} → {one.word}" for one in matches)
