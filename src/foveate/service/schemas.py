"""The JSON of requests and responses."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foveate.documents import Box, Kind, Span
from foveate.tasks.arguments import Unit
from foveate.tasks.hits import WordMatch

Query = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"\S")]
TopK = Annotated[int, Field(ge=1, le=1000)]
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


class Request(BaseModel):
    """What all requests have in common."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FileRequest(Request):
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

    where: str | None = Field(
        None, max_length=500, description="Condition in SQL on the library's documents."
    )
    path: str | None = Field(
        None, max_length=1000, description="Only this file or folder of the library."
    )
    section: str | None = Field(
        None, max_length=1000, description="Only sections of the library whose title has this."
    )


class QueryRequest(LibraryRequest):
    """A query about a document or the library."""

    query: Query = Field(description="The question or words.")
    context: int = Field(0, ge=0, le=20, description="Number of sentences on either side.")
    rerank: bool = Field(
        False, description="Sort the passages by the reranker that the service was started with."
    )
    explain: bool = Field(
        False, description="Say which words of the best sentence match which of the query."
    )


class SearchRequest(QueryRequest):
    """What to look for, and where."""

    by: Unit = Field("passage", description="What to find.")
    top_k: TopK = Field(5, description="Number of hits.")


class AskRequest(QueryRequest):
    """A question, and where to look for the answer."""

    top_k: TopK = Field(3, description="Number of passages.")


class ContextRequest(LibraryRequest):
    """What a prompt is to show, and how long it may be."""

    query: Query | None = Field(None, description="What is looked for; a digest without it.")
    tokens: int = Field(4000, ge=1, le=1_000_000, description="Budget in tokens, estimated.")


class WriteRequest(ContextRequest):
    """What a language model is to answer or, without a query, to summarize."""

    sentences: int | None = Field(None, ge=1, le=1000, description="Length of a summary.")


class SummarizeRequest(TaskRequest):
    """What to summarize, and how long the summary may be."""

    query: Query | None = Field(None, description="What the summary should be about.")
    sentences: int | None = Field(None, ge=1, le=1000, description="Budget: 5 by default.")
    words: int | None = Field(None, ge=1, le=100_000, description="Budget in words instead.")


class KeywordsRequest(TaskRequest):
    """The document whose keywords are wanted."""

    top_k: TopK = Field(20, description="Number of keywords.")
    method: Literal["phrases", "tfidf"] = Field("phrases", description="How they are found.")
    places: int = Field(100, ge=0, le=1000, description="Number of places of each keyword.")
