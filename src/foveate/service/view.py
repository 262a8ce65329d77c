"""A document, and what requests often ask for: its sentences, outline and tree."""

import re
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from foveate.documents import Document, Kind, Span
from foveate.service.schemas import SectionModel
from foveate.tasks.passages import num_words

_LIBRARY_ID = re.compile(r"l-(0|[1-9]\d{0,17})", re.ASCII)

_BYTES_PER_SENTENCE = 1500
"""What the objects of a sentence and its span take, about."""


def new_id() -> str:
    """Return the id of an upload, which nobody can guess: whoever has it may see the document."""
    return f"u-{secrets.token_urlsafe(18)}"


def library_id(number: int) -> str:
    """Return the id of a document of the library."""
    return f"l-{number}"


def library_number(document_id: str) -> int | None:
    """Return the number of a document of the library by its id; None for other ids."""
    match = _LIBRARY_ID.fullmatch(document_id)
    return None if match is None else int(match[1])


class SentencePlace(NamedTuple):
    """The place of a sentence, and what it is part of.

    Attributes:
        section_idx: Index of its section in `Document.walk`.
        paragraph_idx: Index of its paragraph in `Document.paragraphs`.
        kind: What the paragraph is.
    """

    section_idx: int
    paragraph_idx: int
    kind: Kind


class DocumentView:
    """A document that requests ask about.

    Args:
        document_id: What clients call it; None if it is forgotten after the request.
        document: The document.
        format: Name of its format; None if it is not known.
        notes: The remarks of its reader.
        data: The PDF that it was uploaded as; None for other formats, and in a library.
    """

    def __init__(
        self,
        document_id: str | None,
        document: Document,
        format: str | None,
        notes: Sequence[str] = (),
        data: bytes | None = None,
    ) -> None:
        self.id = document_id
        self.document = document
        self.format = format
        self.notes = list(notes)
        self.data = data

    @cached_property
    def spans(self) -> list[Span]:
        """The span of each sentence."""
        return self.document.spans()

    @cached_property
    def places(self) -> list[SentencePlace]:
        """The place of each sentence."""
        places: list[SentencePlace] = []
        paragraph_idx = 0
        for section_idx, (_, section) in enumerate(self.document.walk()):
            for paragraph in section.paragraphs:
                place = SentencePlace(section_idx, paragraph_idx, paragraph.kind)
                places += [place] * len(paragraph.sentences)
                paragraph_idx += 1
        return places

    @cached_property
    def sections(self) -> list[SectionModel]:
        """The outline."""
        sections: list[SectionModel] = []
        open_sections: list[int] = []
        start = 0
        for idx, (path, section) in enumerate(self.document.walk()):
            del open_sections[len(path) - 1 :]
            end = start + section.num_sentences
            sections.append(
                SectionModel(
                    section_idx=idx,
                    parent_idx=open_sections[-1] if open_sections else None,
                    level=len(path),
                    title=section.title,
                    start_sentence=start,
                    num_own_sentences=section.num_own_sentences,
                    num_sentences=section.num_sentences,
                    num_words=self._words_before[end] - self._words_before[start],
                    page=self.spans[start].page,
                )
            )
            open_sections.append(idx)
            start += section.num_own_sentences
        return sections

    @property
    def num_words(self) -> int:
        """Number of words."""
        return self._words_before[-1]

    @property
    def num_pages(self) -> int | None:
        """Number of pages; None for formats without pages."""
        return None if self.document.layout is None else len(self.document.layout.page_sizes)

    @property
    def num_bytes(self) -> int:
        """The memory that the document takes, by estimate."""
        layout = self.document.layout
        return (
            4 * len(self.document.text)
            + _BYTES_PER_SENTENCE * len(self.places)
            + (sum(getattr(layout, name).nbytes for name in layout.__slots__) if layout else 0)
            + len(self.data or b"")
        )

    def sentence_idx(self, offset: int) -> int:
        """Return the index of the sentence at an offset of the text, or before it."""
        return max(bisect_right(self._starts, offset) - 1, 0)

    def page_text(self, number: int) -> str:
        """Return the sentences of a page, those that begin or end on another one included."""
        on_page = (span for span in self.spans if any(box.page == number for box in span.boxes))
        return "\n".join(span.text for span in on_page)

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self.spans]

    @cached_property
    def _words_before(self) -> list[int]:
        """The number of words before each sentence and, last, of all."""
        language = self.document.language
        counts = (num_words(one.text, language) for one in self.document.sentences())
        return [0, *accumulate(counts)]


def clean_name(name: str) -> str:
    """Return the name of a file without its folders and unprintable characters."""
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(c if c.isprintable() else " " for c in last).strip()
    return printable[-200:] or "file"
