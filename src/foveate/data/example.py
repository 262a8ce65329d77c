"""What benchmarks consist of."""

from dataclasses import dataclass

from foveate.documents import Document


@dataclass(frozen=True, slots=True)
class Example:
    """A document, and what is to be made of it.

    Attributes:
        id: the benchmark's own or, where it has none, the place in the file.
        document: what is to be read. Where there are several, such as the articles of a cluster,
            each is a section.
        question: what is asked of it, empty where nothing is.
        choices: answers to choose from.
        references: summaries or answers that people gave, any of which counts; of choices, the
            right one. Empty where the benchmark keeps them to itself.
        labels: classes that it belongs to.
        target: the number to predict, in regression.
    """

    id: str
    document: Document
    question: str = ""
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A query, and candidates to rank by it.

    Attributes:
        id: of the query.
        query: the query: a paper or a few words.
        candidates: what is to be ranked.
        relevance: of each candidate; 0 is irrelevant.
    """

    id: str
    query: Document
    candidates: tuple[Document, ...]
    relevance: tuple[float, ...]
