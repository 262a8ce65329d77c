"""The document: a title, nested sections, and the text that its sentences point into."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from foveate.documents import serialization
from foveate.documents.blocks import build
from foveate.documents.compose import compose
from foveate.documents.errors import DocumentError
from foveate.documents.files import check_characters, check_text, load, load_bytes
from foveate.documents.formats import reader, text_format
from foveate.documents.span import Span
from foveate.documents.structure import DEEPEST, Paragraph, Section, Sentence, move_sections

_BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its structure.

    Every section holds at least one sentence, in itself or below it, and sections nest at most
    64 deep. A document without headings is cut into untitled sections of 32 sentences.

    Attributes:
        title: The document's own title, empty where it has none.
        sections: The outermost sections, in order.
        text: What the sentences' offsets point into: the file's content as decoded or, for
            formats that are not text, the Markdown they convert to.
        source: The file it came from, as the caller named it.

    Raises:
        DocumentError: The sections hold no sentence, or what is no text.
    """

    title: str
    sections: tuple[Section, ...]
    text: str = field(repr=False)
    source: str | None = None

    def __post_init__(self) -> None:
        """Refuse a document that says nothing, or what is no text."""
        if not isinstance(self.title, str):
            raise DocumentError(f"The title is {self.title!r:.60}: give a text.")
        name = self.source or (f'"{self.title}"' if self.title else "The text")
        if next(self.sentences(), None) is None:
            raise DocumentError(f"{name} has no sentence to read: give it some text.")
        titles = (section.title for _, section in self.walk())
        for text in (self.title, *titles, *(sentence.text for sentence in self.sentences())):
            try:
                check_characters(text)
            except DocumentError as error:
                raise DocumentError(f"{name} {error}") from error

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], *, format: str | None = None, language: str = "en"
    ) -> Self:
        """Read a file.

        Args:
            path: The file. It may be compressed by gzip.
            format: One of ``text``, ``markdown``, ``rst``, ``html``, ``jats``, ``tei``,
                ``transcript``, ``json``, ``pdf``, ``docx``; without it, the name's suffix and,
                where that leaves a choice or says text, the content decide.
            language: ISO 639 code of the language whose rules end a sentence.

        Raises:
            FileNotFoundError: There is no such file.
            IsADirectoryError: It is a directory.
            DocumentError: The file cannot be read as that format, or holds no text.
            ImportError: PDF or DOCX without the ``office`` extra.
        """
        file = load(path, format)
        return cls._read(file.text, file.format, None, file.name, language)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        format: str | None = None,
        source: str | None = None,
        language: str = "en",
    ) -> Self:
        """Read what a file would hold, such as an upload or standard input.

        Args:
            data: The content; text may be compressed by gzip.
            format: Any of :meth:`from_file`; without it, PDF, DOCX and transcripts are told by
                the content, and all else is plain text.
            source: Where it came from; kept, and named in messages.
            language: ISO 639 code of the language whose rules end a sentence.

        Raises:
            DocumentError: It cannot be read as that format, or holds no text.
            ImportError: PDF or DOCX without the ``office`` extra.
            TypeError: What is no bytes.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(
                f"expected bytes, got {type(data).__name__}: read text with Document.from_text and "
                "files with Document.from_file"
            )
        file = load_bytes(bytes(data), source or "The data", format)
        return cls._read(file.text, file.format, None, source, language)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        format: str = "text",
        title: str | None = None,
        source: str | None = None,
        language: str = "en",
    ) -> Self:
        """Read a string.

        Args:
            text: The content of what would be a file.
            format: Any of :meth:`from_file` but ``pdf`` and ``docx``.
            title: Overrides the title found in the text.
            source: Where the text came from; kept, and named in messages.
            language: ISO 639 code of the language whose rules end a sentence.

        Raises:
            DocumentError: The text is not of that format, or holds no sentence.
            TypeError: Bytes.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"expected str, got {type(text).__name__}: read bytes with Document.from_bytes"
            )
        return cls._read(text, text_format(format), title, source, language)

    @classmethod
    def _read(
        cls,
        text: str,
        format: str,
        title: str | None,
        source: str | None,
        language: str,
    ) -> Self:
        try:
            check_text(text)
            if format == "json" and (data := serialization.find(text)) is not None:
                parts = serialization.unpack(data)
            else:
                reading = reader(format)(text)
                parts = {"title": title or reading.title or "", "text": text, "source": source}
                parts["sections"] = build(reading.blocks, language)
        except DocumentError as error:
            raise DocumentError(f"{source or 'The text'} {error}") from error
        return cls(**parts)

    @classmethod
    def from_sections(cls, title: str, sections: Sequence[Any], *, language: str = "en") -> Self:
        """Put a document together from parts that are already separate.

        The text is composed from the parts, and the offsets point into it. Sections without a
        sentence are left out.

        Args:
            title: The document's title.
            sections: Each ``(heading, content)`` or ``(heading, content, subsections)``, or a
                mapping with the keys ``title`` or ``heading``, ``text`` or ``sentences``, and
                ``sections``.
                Content that is a string is split into paragraphs at blank lines and further into
                sentences; a list of strings is taken as the sentences of one paragraph.
            language: ISO 639 code of the language whose rules end a sentence.

        Raises:
            DocumentError: A section has another shape, or there is no sentence at all.
        """
        text, built = compose(sections, language)
        return cls(title, built, text)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` gave, or what JSON made of it.

        Raises:
            DocumentError: The mapping is not of that form.
        """
        return cls(**serialization.unpack(data))

    def to_dict(self) -> dict[str, Any]:
        """All of the document as dicts, lists, strings and numbers, fit for JSON."""
        return serialization.pack(self.title, self.sections, self.text, self.source)

    @classmethod
    def merge(cls, documents: "Iterable[Document]") -> "Document":
        """Join several documents into one, for example to ask a question of all of them.

        Each document becomes a section titled with its title, or with its source if it has none.
        Their texts are joined by blank lines, and every sentence keeps pointing at its own words.
        The sentences are those of the first document, then those of the second, and so on.
        Sections that would nest more than 64 deep become siblings. A single document is returned
        unchanged.

        Args:
            documents: At least one document.

        Raises:
            DocumentError: There are no documents.
            TypeError: One of them is not a document.
        """
        documents = as_documents(documents)
        if not documents:
            raise DocumentError("There are no documents to merge: give at least one.")
        if len(documents) == 1:
            return documents[0]
        sections: list[Section] = []
        offset = 0
        for document in documents:
            moved = move_sections(document.sections, offset, DEEPEST - 1)
            sections.append(Section(document.title or document.name, (), moved))
            offset += len(document.text) + len(_BLANK_LINE)
        text = _BLANK_LINE.join(document.text for document in documents)
        return cls(title="", sections=tuple(sections), text=text)

    @property
    def name(self) -> str:
        """The name that results and messages use: the source, else the title, else empty."""
        return self.source or self.title

    def walk(self) -> Iterator[tuple[tuple[str, ...], Section]]:
        """Visit every section in document order, with its path: the titles from outermost to own.

        The path's length is the section's depth, from 1.
        """
        pending: list[tuple[tuple[str, ...], Section]]
        pending = [((section.title,), section) for section in reversed(self.sections)]
        while pending:
            path, section = pending.pop()
            yield path, section
            pending.extend(((*path, sub.title), sub) for sub in reversed(section.sections))

    def paragraphs(self) -> Iterator[Paragraph]:
        """Visit every paragraph in document order."""
        for _, section in self.walk():
            yield from section.paragraphs

    def sentences(self) -> Iterator[Sentence]:
        """Visit every sentence in document order."""
        for paragraph in self.paragraphs():
            yield from paragraph.sentences

    def spans(self) -> list[Span]:
        """Locate every sentence: one span for each of `sentences()`, in the same order.

        Example:
            >>> from foveate.documents import Document
            >>> document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat herring.")])
            >>> document.spans()[1]
            Span(document='Fish', path=('Cod',), page=None, start=15, end=32, \
text='They eat herring.', speaker=None)
        """
        name = self.name
        return [
            Span(name, path, None, sentence.start, sentence.end, sentence.text, paragraph.speaker)
            for path, section in self.walk()
            for paragraph in section.paragraphs
            for sentence in paragraph.sentences
        ]

    def line_of(self, offset: int) -> int:
        """Return the number, from 1, of the line of `text` that holds the character at `offset`."""
        return self.text.count("\n", 0, offset) + 1


def as_document(document: Document) -> Document:
    """Return the document after checking its type.

    Raises:
        TypeError: It is not a document but, for example, a path.
    """
    if not isinstance(document, Document):
        raise TypeError(
            f"expected a Document, got {type(document).__name__}: "
            "make one with Document.from_file or Document.from_text"
        )
    return document


def as_documents(documents: Document | Iterable[Document]) -> list[Document]:
    """Return one document, or any number of documents, as a list after checking their types.

    Raises:
        TypeError: One of them is not a document but, for example, a path.
    """
    if isinstance(documents, Document):
        return [documents]
    return [as_document(document) for document in documents]
