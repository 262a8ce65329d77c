"""Documents: a title, nested sections, and the text that their sentences point into."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from os import PathLike
from typing import Any, Self, TypeAlias

from foveate.documents import serialization
from foveate.documents.blocks import Prose, build_sections, compose_text, landmarks
from foveate.documents.compose import section_blocks
from foveate.documents.decoding import File, check_characters, check_text, load, load_bytes
from foveate.documents.formats import check_text_format
from foveate.documents.language import FALLBACK, detect_language_of
from foveate.documents.layout import Layout
from foveate.documents.members import expand
from foveate.documents.metadata import is_date
from foveate.documents.structure import (
    DocumentError,
    Landmark,
    Paragraph,
    Section,
    Sentence,
    Span,
    check_depth,
    check_paragraphs,
    check_sentences,
    drop_empty,
    shift_sections,
)

_BLANK_LINE = "\n\n"
_LINE_END = re.compile("\n")
_Located: TypeAlias = tuple[tuple[str, ...], str | None, int, int, str]
"""The path, speaker, start, end and text of a span."""


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A text with its structure.

    Every section holds at least one sentence, directly or in a subsection: sections and paragraphs
    without any are left out. Sections nest at most 64 deep. A document without headings is split
    into untitled sections of 32 sentences.

    Attributes:
        title: The document's title; empty if it has none.
        sections: The outermost sections, in order.
        text: The text that the sentences' offsets point into: the decoded content of the file or,
            for formats that are not text (PDF, DOCX, EPUB), the text composed of their paragraphs.
        source: The file that the document was read from, as the caller named it.
        language: ISO 639 code of the language by whose rules its sentences were split; None if they
            were given.
        layout: Where the words of `text` are on the pages; None for formats without pages.
        landmarks: Where the parts that readers of the source know begin: paragraphs of DOCX, times
            of subtitles, cells of notebooks; empty for formats that are found by line or page.
        authors: The names of its authors as they are written, in order; empty if the source does
            not state them in fields of their own.
        date: When it was published, in ISO 8601: YYYY, YYYY-MM or YYYY-MM-DD; None if the source
            does not state it.
        left_out: Of a PDF, the running heads, running feet and page numbers, which `text` lacks.

    Raises:
        DocumentError: The sections hold no sentence or invalid characters, or are nested too deep;
            a paragraph is of an unknown kind or its speaker is not a string; a sentence is empty,
            lies outside the text, overlaps another or is out of order; or the title, the authors or
            the date have an invalid form.

    Example:
        >>> from foveate import Document
        >>> document = Document.from_text("# Cod\\n\\nCod swim. They eat.", format="markdown")
        >>> document.title, [sentence.text for sentence in document.sentences()]
        ('Cod', ['Cod swim.', 'They eat.'])
        >>> document
        Document('Cod', source=None, language='en', sections=1, sentences=2)
    """

    title: str
    sections: tuple[Section, ...] = ()
    text: str = ""
    source: str | None = None
    language: str | None = None
    layout: Layout | None = None
    landmarks: tuple[Landmark, ...] = ()
    authors: tuple[str, ...] = ()
    date: str | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Leave out what is empty; reject a document without sentences, and parts that are invalid.

        Raises:
            DocumentError: What is wrong with the document, whose name begins the message.
        """
        if not isinstance(self.title, str):
            raise DocumentError(
                f"The title is {self.title!r:.60}: give a string, or read a file with "
                "Document.from_file(path)."
            )
        try:
            self._check_metadata()
            self._check_sections()
        except DocumentError as error:
            raise DocumentError(f"{_subject(self.source, self.title)} {error}") from error

    def __repr__(self) -> str:
        """Return the title, the source and the size, without the text."""
        num_sections = sum(1 for _ in self.walk())
        num_sentences = sum(section.num_sentences for section in self.sections)
        return (
            f"Document({self.title!r:.80}, source={self.source!r}, language={self.language!r}, "
            f"sections={num_sections}, sentences={num_sentences})"
        )

    def _check_metadata(self) -> None:
        if not isinstance(self.authors, tuple) or not all(
            isinstance(author, str) and author.strip() for author in self.authors
        ):
            raise DocumentError(f"has the authors {self.authors!r:.60}: give a tuple of names.")
        if self.date is not None and not (isinstance(self.date, str) and is_date(self.date)):
            raise DocumentError(
                f"has the date {self.date!r:.60}: write it as YYYY, YYYY-MM or YYYY-MM-DD."
            )

    def _check_sections(self) -> None:
        for path, section in self.walk():
            check_depth(section.title, len(path))
        if next(self.sentences(), None) is None:
            advice = "" if self.text else ", or read a file with Document.from_file(path)"
            raise DocumentError(f"has no sentence to read: give it some text{advice}.")
        if any(
            not section.num_sentences or not all(one.sentences for one in section.paragraphs)
            for _, section in self.walk()
        ):
            object.__setattr__(self, "sections", drop_empty(self.sections))
        titles = (section.title for _, section in self.walk())
        sentences = (sentence.text for sentence in self.sentences())
        check_paragraphs(self.paragraphs())
        speakers = (one.speaker for one in self.paragraphs() if one.speaker)
        for text in (self.title, *self.authors, *titles, *speakers, *sentences):
            check_characters(text)
        check_sentences(self.sentences(), len(self.text))

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        format: str | None = None,
        language: str | None = None,
        encoding: str | None = None,
        **options: Any,
    ) -> Self:
        """Read a file.

        Args:
            path: The file, which may be compressed.
            format: Name of a format in `foveate.documents.FORMATS`. By default it is recognized by
                the file's suffix and content.
            language: ISO 639 code of the language by whose rules sentences are split; detected by
                default.
            encoding: Encoding of the text; detected by default.
            options: Options of the format's reader, such as `ocr=True` for PDF.

        Raises:
            FileNotFoundError: The file does not exist.
            IsADirectoryError: The path is a directory.
            DocumentError: The file cannot be read as that format, or holds no text, or several
                documents.
            ImportError: The format needs an extra that is not installed.
        """
        file = _only_member(load(path, format, encoding), encoding)
        return cls.from_content(file, source=file.name, language=language, **options)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        format: str | None = None,
        source: str | None = None,
        language: str | None = None,
        encoding: str | None = None,
        **options: Any,
    ) -> Self:
        """Read the content of a file, such as an upload or standard input.

        Args:
            data: The content, which may be compressed.
            format: Name of a format in `foveate.documents.FORMATS`. By default it is recognized by
                the content; what is not recognized is plain text.
            source: Where the data came from; it becomes the document's source.
            language: As for `from_file`, like the other arguments.
            encoding: Encoding of the text.
            options: Options of the format's reader.

        Raises:
            DocumentError: The data cannot be read as that format, or holds no text, or several
                documents.
            ImportError: The format needs an extra that is not installed.
            TypeError: `data` is not bytes.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(
                f"expected bytes, got {type(data).__name__}: read text with Document.from_text and "
                "files with Document.from_file"
            )
        file = load_bytes(bytes(data), source or "The data", format, encoding)
        file = _only_member(file, encoding)
        return cls.from_content(file, source=source and file.name, language=language, **options)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        format: str = "text",
        title: str | None = None,
        source: str | None = None,
        language: str | None = None,
    ) -> Self:
        """Read a string.

        A saved document (the result of `to_dict` as JSON) keeps its source if it has one, and its
        sentences and language.

        Args:
            text: The text.
            format: Name of a text format in `foveate.documents.FORMATS`.
            title: Replaces the title found in the text.
            source: Where the text came from; it becomes the document's source.
            language: ISO 639 code of the language by whose rules sentences are split; detected by
                default.

        Raises:
            DocumentError: The text cannot be read as that format, or holds no sentence.
            TypeError: `text` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"expected str, got {type(text).__name__}: read bytes with Document.from_bytes"
            )
        file = File(source or "The text", text, check_text_format(format))
        return cls.from_content(file, title=title, source=source, language=language)

    @classmethod
    def from_content(
        cls,
        file: File,
        *,
        title: str | None = None,
        source: str | None = None,
        language: str | None = None,
        **options: Any,
    ) -> Self:
        """Read a file that has been loaded; `from_file`, `from_bytes` and `from_text` end here.

        Args:
            file: Its content and format, which is not a collection.
            title: Replaces the title found in it.
            source: Where it came from; it becomes the document's source.
            language: ISO 639 code of the language by whose rules sentences are split; detected by
                default.
            options: Options of the format's reader.

        Raises:
            DocumentError: It cannot be read as that format, or holds no text.
            ImportError: The format needs an extra that is not installed.
        """
        try:
            found = _read(file, language, options)
        except DocumentError as error:
            raise type(error)(f"{file.name} {error}") from error
        source = found.get("source") or source
        found |= {"title": title or found["title"], "source": file.name}
        document = cls(**found)
        # The constructor's errors name the source, hence the file. `replace` would check all again.
        object.__setattr__(document, "source", source)
        return document

    @classmethod
    def from_sections(
        cls, title: str, sections: Sequence[Any], *, language: str | None = None
    ) -> Self:
        """Assemble a document from parts that are already separate.

        The document's text is composed of the parts. Sections without a sentence are left out.

        Args:
            title: The document's title.
            sections: Each section is `(heading, content)` or `(heading, content, subsections)`, or
                a mapping with the keys "title" or "heading", "text" or "sentences", and "sections".
                A content that is a string is split into paragraphs at blank lines and further into
                sentences. A list of strings holds the sentences of one paragraph.
            language: ISO 639 code of the language by whose rules sentences are split; English by
                default.

        Raises:
            DocumentError: A section has an invalid form, or there are no sentences.
        """
        language = language or FALLBACK
        try:
            parsed = compose_text(title, section_blocks(sections))
        except DocumentError as error:
            raise DocumentError(f"{_subject(None, title)} {error}") from error
        built = build_sections(parsed.blocks, language)
        return cls(title, built, parsed.text or "", language=language)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a document from the result of `to_dict`, even after a round trip through JSON.

        Raises:
            DocumentError: The mapping has an invalid form.
        """
        try:
            unpacked = serialization.unpack(data)
        except DocumentError as error:
            raise DocumentError(f"The mapping {error}") from error
        return cls(**unpacked)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole document as dicts, lists, strings and numbers, which JSON can hold."""
        return serialization.pack({one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def merge(cls, documents: "Iterable[Document]") -> "Document":
        """Join several documents into one, for example to ask a question of all of them.

        Each document becomes a section titled with its title, or with its source if it has none.
        Their texts are joined by blank lines, and every sentence keeps pointing at its own words.
        The sentences are those of the first document, then those of the second, and so on. Hence
        the spans of all documents, in the order of the documents, show where each sentence of the
        merged document comes from; it has no pages, landmarks, authors and date of its own.
        A single document is returned unchanged.

        Args:
            documents: At least one document.

        Raises:
            DocumentError: There are no documents, or sections would be nested more than 64 deep.
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
            shifted = shift_sections(document.sections, offset)
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

    def spans(self, indices: Collection[int] | None = None) -> list[Span]:
        """Locate every sentence: one span for each of `sentences()`, in the same order.

        Args:
            indices: Only the sentences at these indices of `sentences()`; by default all.

        Example:
            >>> from foveate.documents import Document
            >>> document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat herring.")])
            >>> document.spans()[1]
            Span(document='Fish', path=('Cod',), page=None, start=15, end=32, \
text='They eat herring.', speaker=None, place='line 3', boxes=())
        """
        sentences = (
            (path, paragraph.speaker, sentence)
            for path, section in self.walk()
            for paragraph in section.paragraphs
            for sentence in paragraph.sentences
        )
        return self._locate(
            [
                (path, speaker, sentence.start, sentence.end, sentence.text)
                for i, (path, speaker, sentence) in enumerate(sentences)
                if indices is None or i in indices
            ]
        )

    def section_spans(self) -> list[Span]:
        """Locate every section: one span for each of `walk()`, in the same order.

        A span reaches from the section's first sentence to its last, those of subsections
        included; its text is the title. It has no boxes.
        """
        sentences = list(self.sentences())
        located: list[_Located] = []
        first = 0
        for path, section in self.walk():
            last = sentences[first + section.num_sentences - 1]
            located.append((path, None, sentences[first].start, last.end, section.title))
            first += section.num_own_sentences
        return [replace(span, boxes=()) for span in self._locate(located)]

    def _locate(self, located: "Sequence[_Located]") -> list[Span]:
        """Return spans with their pages, boxes and places."""
        bounds = [(start, end) for _, _, start, end, _ in located]
        boxes = self.layout.locate(bounds) if self.layout else [()] * len(located)
        places = self._places([start for start, _ in bounds])
        return [
            Span(
                document=self.name,
                path=path,
                page=lines[0].page if lines else None,
                start=start,
                end=end,
                text=text,
                speaker=speaker,
                place=f"page {lines[0].page}" if lines and not place.startswith("page ") else place,
                boxes=lines,
            )
            for (path, speaker, start, end, text), lines, place in zip(
                located, boxes, places, strict=True
            )
        ]

    def _places(self, offsets: Sequence[int]) -> list[str]:
        """Name the landmark or, in a text without landmarks, the line of each offset."""
        if self.landmarks:
            starts = [landmark.start for landmark in self.landmarks]
            indices = (max(bisect_right(starts, offset) - 1, 0) for offset in offsets)
            return [self.landmarks[index].name for index in indices]
        ends = [match.start() for match in _LINE_END.finditer(self.text)]
        return [f"line {bisect_left(ends, offset) + 1}" for offset in offsets]

    def span(self, start: int, end: int, *, path: tuple[str, ...] = (), text: str = "") -> Span:
        """Locate a stretch of the text.

        Args:
            start: Offset of its first character in `text`.
            end: Offset just past its last character.
            path: Titles of the sections around it.
            text: Its words without markup; by default those of the source.
        """
        return self._locate([(path, None, start, end, text or self.text[start:end])])[0]


def _subject(source: str | None, title: str) -> str:
    """Return what begins the messages about a document."""
    return source or (f'"{title}"' if title else "The text")


def _read(file: File, language: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of the document in a file."""
    content = file.content
    if isinstance(content, str):
        check_text(content)
        if file.format.name == "json":
            packed = serialization.parse_packed(content)
            if packed is not None:
                return serialization.unpack(packed)
    parsed = file.format.load_reader()(content, **options)
    text = parsed.text or (content if isinstance(content, str) else "")
    check_text(text)
    language = (
        language
        or parsed.language
        or detect_language_of(
            str(block.text)
            for block in parsed.blocks
            if isinstance(block, Prose) and block.kind != "code"
        )
    )
    return {
        "title": parsed.title or "",
        "sections": build_sections(parsed.blocks, language),
        "text": text,
        "language": language,
        "layout": parsed.layout,
        "landmarks": landmarks(parsed, file.place),
        "authors": parsed.authors,
        "date": parsed.date,
        "left_out": parsed.left_out,
    }


def _only_member(file: File, encoding: str | None) -> File:
    """Return the file or, if it is a collection, the one document in it."""
    members = list(islice(expand(file, encoding), 2))
    if len(members) > 1:
        raise DocumentError(f"{file.name} holds several documents: read it with read_documents.")
    return members[0]


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
