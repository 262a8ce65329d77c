"""The results of the tools."""

from pydantic import BaseModel, Field


class Place(BaseModel):
    """A stretch of a document."""

    document: str = Field(description="Name of the document, which several may have.")
    document_number: int = Field(description="Number of the document, which other tools take.")
    title: str = Field(description="The document's title; empty if it has none.")
    section_path: list[str] = Field(
        description="Titles of the sections around it, outermost first."
    )
    page: int | None = Field(description="Its page, from 1; null for formats without pages.")
    place: str = Field(description="Page, line, paragraph or time, as a reader finds it.")
    speaker: str | None = Field(description="Who says it; null if the document does not say.")
    start: int = Field(description="Offset of its first character in the document's text.")
    end: int = Field(description="Offset just past its last character.")
    text: str = Field(description="Its words; of a section or document, its best sentence.")


class Result(Place):
    """Something that was found."""

    score: float = Field(description="How well it matches; only comparable within one query.")
    context: str = Field(description="The text with the sentences around it.")


class Results(BaseModel):
    """What was found, best first."""

    results: list[Result]


class SummaryResult(BaseModel):
    """A summary."""

    text: str = Field(description="The summary: sentences of the document, in its order.")
    sentences: list[Place] = Field(description="These sentences with their places.")


class Text(BaseModel):
    """The text of a document or of a section, or a part of it."""

    parts: list[Place] = Field(
        description="The text, divided where a section, a page or a speaker's turn begins."
    )
    num_sentences: int = Field(description="Length of the whole text.")
    next_offset: int | None = Field(description="Where to go on; null at the end.")


class OutlineSection(BaseModel):
    """A section of an outline."""

    section_path: list[str] = Field(description="Titles from the outermost section to this one.")
    page: int | None = Field(description="Page where it begins; null for formats without pages.")
    place: str = Field(description="Where it begins, as a reader finds it.")
    num_sentences: int = Field(description="Its length, subsections included.")
    begins: str = Field(description="Its first sentence.")


class OutlineResult(BaseModel):
    """How a document is built."""

    document: str
    document_number: int
    title: str
    authors: list[str]
    date: str | None = Field(description="When it was published: YYYY, YYYY-MM or YYYY-MM-DD.")
    language: str | None
    num_sentences: int
    sections: list[OutlineSection] = Field(description="The sections in reading order.")


class DocumentEntry(BaseModel):
    """A document of the library."""

    document: str = Field(description="Its name, which several documents may have.")
    document_number: int = Field(description="Its number, which other tools take.")
    title: str
    language: str | None
    num_sections: int
    num_sentences: int


class DocumentList(BaseModel):
    """Documents of the library."""

    total: int = Field(description="Number of documents that match.")
    documents: list[DocumentEntry]
