"""The JSON of requests and responses."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foveate.documents import Box, Kind, Span
from foveate.tasks.arguments import Unit
from foveate.tasks.hits import WordMatch
from foveate.tasks.parameters import (
    AskParameters,
    ConditionParameters,
    ContextParameters,
    FoundParameters,
    KeywordsParameters,
    SearchParameters,
    SummarizeParameters,
)
from foveate.tasks.parameters import pydantic_field as of

Query = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"\S")]
Text = Annotated[str, Field(min_length=1)]


class Problem(BaseModel):
    """Why a request was refused, in a sentence."""

    detail: str


class DocumentModel(BaseModel):
    """A document."""

    id: str
    name: str = Field(description="Its file, or its title.")
    title: str
    authors: list[str]
    date: str | None
    language: str | None = Field(description="ISO 639 code.")
    num_sentences: int
    num_sections: int
    num_words: int | None = Field(description="Null in lists of a library's documents.")
    num_pages: int | None = Field(description="Null for formats without pages, and in lists.")
    format: str | None = Field(
        description="Name of the format or, in a library, the suffix of the file."
    )
    notes: list[str] = Field(description="What could not be read, such as scanned pages.")


class DocumentList(BaseModel):
    """Some of the library's documents."""

    total: int = Field(description="How many there are, with those that are not listed here.")
    documents: list[DocumentModel]


class SectionModel(BaseModel):
    """A section in the outline."""

    section_idx: int
    parent_idx: int | None
    level: int = Field(description="Its depth, from 1.")
    title: str
    start_sentence: int = Field(description="Index of its first sentence.")
    num_own_sentences: int = Field(description="Without those of its subsections.")
    num_sentences: int = Field(description="With those of its subsections.")
    num_words: int = Field(description="With those of its subsections.")
    page: int | None


class SentenceModel(BaseModel):
    """A sentence."""

    sentence_idx: int
    section_idx: int
    paragraph_idx: int
    kind: Kind
    speaker: str | None
    text: str
    page: int | None
    place: str
    boxes: list[Box] = Field(
        description="For each line, its page and left, top, right and bottom in points."
    )


class PageModel(BaseModel):
    """A page, in points (1/72 inch)."""

    number: int
    width: float
    height: float


class HitModel(BaseModel):
    """A passage, section or document that was found."""

    document: str | None = Field(description="Id of the document; null if it is not kept.")
    name: str
    title: str
    span: Span
    first_sentence: int = Field(
        description="Index of the first sentence of a passage; of a section or document, of the "
        "best sentence."
    )
    num_sentences: int = Field(description="Sentences of a passage; 1 of a section or document.")
    sentence_idx: int = Field(description="Index of the best sentence.")
    section_idx: int | None = Field(description="Its section; null if documents are looked for.")
    best: Span = Field(description="The sentence in it that matches best.")
    score: float
    likely: bool | None = Field(
        description="Whether it may answer the query: of results with a score for which this is "
        "false, nine of ten do not. Null if that is not known of the model."
    )
    matches: tuple[WordMatch, ...] = Field(
        description="Words of the best sentence that match words of the query, with their offsets "
        "in it; empty unless `explain` is true."
    )
    before: str
    after: str


class SearchResult(BaseModel):
    """What a search found."""

    hits: list[HitModel]
    section_scores: list[float] | None = Field(
        description="How well each section of the one document matches; null for a library."
    )


class AskResult(BaseModel):
    """The passages that answer a question."""

    question: str
    passages: list[HitModel]
    section_scores: list[float] | None


class ContextSentenceModel(BaseModel):
    """A sentence of a prompt."""

    number: int = Field(description="Its number in the prompt.")
    document: str | None = Field(description="Id of the document; null if it is not kept.")
    sentence_idx: int = Field(description="Its index in that document.")
    span: Span


class ContextResult(BaseModel):
    """Documents as a prompt."""

    text: str = Field(description="The prompt, in Markdown; `[… 7]` counts what is left out.")
    tokens: int = Field(description="How many tokens it has, estimated.")
    sentences: list[ContextSentenceModel]


class SummarySentenceModel(BaseModel):
    """A sentence of a summary."""

    span: Span
    sentence_idx: int
    section_idx: int
    score: float


class SummaryResult(BaseModel):
    """A summary."""

    text: str
    sentences: list[SummarySentenceModel]


class KeywordPlace(BaseModel):
    """A place of a keyword."""

    span: Span
    sentence_idx: int


class KeywordModel(BaseModel):
    """A keyword and where it occurs."""

    text: str
    score: float
    num_places: int
    places: list[KeywordPlace] = Field(description="The first of its places.")


class KeywordsResult(BaseModel):
    """The keywords of a document, best first."""

    keywords: list[KeywordModel]


class ServiceRequest(BaseModel):
    """What all requests have in common."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FileRequest(ServiceRequest):
    """A document that is sent as a file, or by other means."""

    title: str | None = Field(None, max_length=1000, description="Replaces its own title.")
    format: str | None = Field(
        None, description="Format of the file or text; a file's is recognized by default."
    )
    language: str | None = Field(
        None, pattern="^[a-z]{2,3}$", description="ISO 639 code; detected by default."
    )


class TextRequest(FileRequest):
    """A document that is sent as text."""

    text: Text = Field(description="The document's text.")


class TaskRequest(FileRequest):
    """A request about a document that is kept here, or that comes with the request."""

    document: str | None = Field(None, max_length=100, description="Id of a document.")
    text: Text | None = Field(None, description="The text of a document, instead.")

    @model_validator(mode="after")
    def check_document(self) -> Self:
        """Check that there is at most one document."""
        if self.document is not None and self.text is not None:
            raise ValueError("give either a document or a text")
        return self


class LibraryRequest(TaskRequest):
    """A request about a document or, if none is named, about the library."""

    where: str | None = of(ConditionParameters, "where", max_length=500)
    path: str | None = of(ConditionParameters, "path", max_length=1000)
    section: str | None = of(ConditionParameters, "section", max_length=1000)


class QueryRequest(LibraryRequest):
    """A query about a document or the library."""

    query: Query = of(SearchParameters, "query")
    context: int = of(FoundParameters, "context", le=20)
    rerank: bool = Field(
        False, description="Sort the passages by the reranker that the service was started with."
    )
    explain: bool = of(FoundParameters, "explain")


class SearchRequest(QueryRequest):
    """What to look for, and where."""

    by: Unit = of(SearchParameters, "by")
    top_k: int = of(SearchParameters, "top_k", le=1000)


class AskRequest(QueryRequest):
    """A question, and where to look for the answer."""

    top_k: int = of(AskParameters, "top_k", le=1000)


class ContextRequest(LibraryRequest):
    """What a prompt is to show, and how long it may be."""

    query: Query | None = of(ContextParameters, "query")
    tokens: int = of(ContextParameters, "tokens", le=1_000_000)


class WriteRequest(ContextRequest):
    """What a language model is to answer or, without a query, to summarize."""

    sentences: int | None = of(SummarizeParameters, "sentences", le=1000)


class SummarizeRequest(TaskRequest):
    """What to summarize, and how long the summary may be."""

    query: Query | None = of(SummarizeParameters, "query")
    sentences: int | None = of(SummarizeParameters, "sentences", le=1000)
    words: int | None = of(SummarizeParameters, "words", le=100_000)


class KeywordsRequest(TaskRequest):
    """The document whose keywords are wanted."""

    top_k: int = of(KeywordsParameters, "top_k", le=1000)
    method: Literal["phrases", "tfidf"] = of(KeywordsParameters, "method")
    places: int = Field(100, ge=0, le=1000, description="Number of places of each keyword.")
