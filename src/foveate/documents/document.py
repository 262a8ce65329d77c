"""Documents: a title, nested sections, and the text that their sentences point into."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from foveate.documents import serialization
from foveate.documents.blocks import build_sections
from foveate.documents.compose import compose
from foveate.documents.decoding import check_characters, check_text, load, load_bytes
from foveate.documents.formats import check_text_format, load_reader
from foveate.documents.structure import (
    MAX_DEPTH,
    DocumentError,
    Paragraph,
    Section,
    Sentence,
    Span,
    shift_sections,
)

_BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its structure.

    Every section holds at least one sentence, directly or in a subsection. Sections nest at most 64
    deep. A document without headings is split into untitled sections of 32 sentences.

    Attributes:
        title: The document's title; empty if it has none.
        sections: The outermost sections, in order.
        text: The text that the sentences' offsets point into: the decoded content of the file or,
            for PDF and DOCX, the Markdown that it converts to.
        source: The file that the document was read from, as the caller named it.

    Raises:
        DocumentError: The sections hold no sentence, or characters that are not text.

    Example:
        >>> from foveate import Document
        >>> document = Document.from_text("# Cod\\n\\nCod swim. They eat.", format="markdown")
        >>> document.title, [sentence.text for sentence in document.sentences()]
        ('Cod', ['Cod swim.', 'They eat.'])
    """

    title: str
    sections: tuple[Section, ...]
    text: str = field(repr=False)
    source: str | None = None

    def __post_init__(self) -> None:
        """Reject a document without sentences, or with characters that are not text."""
        if not isinstance(self.title, str):
            raise DocumentError(f"The title is {self.title!r:.60}: give a string.")
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
            path: The file. It may be compressed with gzip.
            format: "text", "markdown", "rst", "html", "jats", "tei", "transcript", "json", "pdf" or
                "docx". By default the format is recognized by the file's suffix and, for text and
                XML, by the content.
            language: ISO 639 code of the language by whose rules sentences are split.

        Raises:
            FileNotFoundError: The file does not exist.
            IsADirectoryError: The path is a directory.
            DocumentError: The file cannot be read as that format, or holds no text.
            ImportError: The file is PDF or DOCX, and the `office` extra is not installed.
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
        """Read the content of a file, such as an upload or standard input.

        Args:
            data: The content. Text may be compressed with gzip.
            format: A format of `from_file`. By default PDF, DOCX and transcripts are recognized by
                the content, and everything else is plain text.
            source: Where the data came from; it becomes the document's source.
            language: ISO 639 code of the language by whose rules sentences are split.

        Raises:
            DocumentError: The data cannot be read as that format, or holds no text.
            ImportError: The data is PDF or DOCX, and the `office` extra is not installed.
            TypeError: `data` is not bytes.
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
            text: The text.
            format: A format of `from_file` other than "pdf" and "docx".
            title: Replaces the title found in the text.
            source: Where the text came from; it becomes the document's source.
            language: ISO 639 code of the language by whose rules sentences are split.

        Raises:
            DocumentError: The text cannot be read as that format, or holds no sentence.
            TypeError: `text` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"expected str, got {type(text).__name__}: read bytes with Document.from_bytes"
            )
        return cls._read(text, check_text_format(format), title, source, language)

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
            if format == "json" and (data := serialization.parse_packed(text)) is not None:
                parts = serialization.unpack(data)
            else:
                parsed = load_reader(format)(text)
                parts = {"title": title or parsed.title or "", "text": text, "source": source}
                parts["sections"] = build_sections(parsed.blocks, language)
        except DocumentError as error:
            raise DocumentError(f"{source or 'The text'} {error}") from error
        return cls(**parts)

    @classmethod
    def from_sections(cls, title: str, sections: Sequence[Any], *, language: str = "en") -> Self:
        """Assemble a document from parts that are already separate.

        The document's text is composed of the parts. Sections without a sentence are left out.

        Args:
            title: The document's title.
            sections: Each section is `(heading, content)` or `(heading, content, subsections)`, or
                a mapping with the keys "title" or "heading", "text" or "sentences", and "sections".
                A content that is a string is split into paragraphs at blank lines and further into
                sentences. A list of strings holds the sentences of one paragraph.
            language: ISO 639 code of the language by whose rules sentences are split.

        Raises:
            DocumentError: A section has another form, or there are no sentences.
        """
        text, built = compose(sections, language)
        return cls(title, built, text)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a document from the result of `to_dict`, also after a round trip through JSON.

        Raises:
            DocumentError: The mapping has another form.
        """
        return cls(**serialization.unpack(data))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole document as dicts, lists, strings and numbers, which JSON can hold."""
        return serialization.pack(self.title, self.sections, self.text, self.source)

    @classmethod
    def merge(cls, documents: "Iterable[Document]") -> "Document":
        """Join several documents into one, for example to ask a question of all of them.

        Each document becomes a section titled with its title, or with its source if it has none.
        Their texts are joined by blank lines, and every sentence keeps pointing at its own words.
        The sentences are those of the first document, then those of the second, and so on. Hence
        the spans of all documents, in the order of the documents, tell where each sentence of the
        merged document comes from. Sections that would be nested more than 64 deep become
        siblings. A single document is returned unchanged.

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
            shifted = shift_sections(document.sections, offset, levels=MAX_DEPTH - 1)
            sections.append(Section(document.title or document.name, (), shifted))
            offset += len(document.text) + len(_BLANK_LINE)
        text = _BLANK_LINE.join(document.text for document in documents)
        return cls(title="", sections=tuple(sections), text=text)

    @property
    def name(self) -> str:
        """The document's name in results: its source, else its title, else the empty string."""
        return self.source or self.title

    def walk(self) -> Iterator[tuple[tuple[str, ...], Section]]:
        """Iterate over all sections in document order, each with its path.

        The path is the tuple of titles from the outermost section to the section itself; its
        length is the section's depth, from 1.
        """
        pending: list[tuple[tuple[str, ...], Section]]
        pending = [((section.title,), section) for section in reversed(self.sections)]
        while pending:
            path, section = pending.pop()
            yield path, section
            pending.extend(
                ((*path, subsection.title), subsection) for subsection in reversed(section.sections)
            )

    def paragraphs(self) -> Iterator[Paragraph]:
        """Iterate over all paragraphs in document order."""
        for _, section in self.walk():
            yield from section.paragraphs

    def sentences(self) -> Iterator[Sentence]:
        """Iterate over all sentences in document order."""
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

    def section_spans(self) -> list[Span]:
        """Locate every section: one span for each of `walk()`, in the same order.

        A span reaches from the section's first sentence to its last, those of subsections
        included; its text is the title.
        """
        sentences = list(self.sentences())
        name = self.name
        spans: list[Span] = []
        first = 0
        for path, section in self.walk():
            last = sentences[first + section.num_sentences - 1]
            spans.append(Span(name, path, None, sentences[first].start, last.end, section.title))
            first += section.num_own_sentences
        return spans

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
