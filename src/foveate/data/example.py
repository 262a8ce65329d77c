"""The records of data sets: examples, queries and rankings."""

from dataclasses import dataclass

from foveate.documents import Document


@dataclass(frozen=True, slots=True)
class Query:
    """A question or topic with the sentences of the document that answer it.

    Attributes:
        text: The question, or a few words.
        sentence_ids: The indices, in the order of `Document.sentences()`, of the sentences that
            are relevant to it.
    """

    text: str
    sentence_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A document with the question of a task and the expected answer.

    Attributes:
        id: The data set's own identifier or, if it has none, the record's place in its file; may
            be empty.
        document: The document to read. Several texts, such as the articles of a cluster, are the
            sections of one document. In contrastive learning, the anchor.
        query: The question about the document; empty if there is none.
        choices: The answers to choose from.
        references: Correct summaries or answers, any of which is acceptable; in multiple choice,
            the correct choice. Empty if the data set does not publish them.
        labels: The classes that the document belongs to.
        section_labels: The classes of each section, in the order of `Document.walk`; empty if they
            are unknown.
        related: A positive and, optionally, a negative document, in contrastive learning.
        queries: Queries with the sentences that answer them, in retrieval.
    """

    id: str = ""
    document: Document
    query: str = ""
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    section_labels: tuple[tuple[str, ...], ...] = ()
    related: tuple[Document, ...] = ()
    queries: tuple[Query, ...] = ()

    @property
    def num_sections(self) -> int:
        """The number of the document's sections, with those inside of others."""
        return sum(1 for _ in self.document.walk())
