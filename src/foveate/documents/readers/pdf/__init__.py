"""PDF: the content of its pages, in reading order, and the kind of each part.

PDFium says where each character is. From there on, each module does one step: `extraction`
reads characters, `words` and `lines` put them together in reading order, `furniture` leaves out
running heads, `paragraphs` and `tables` group lines, `headings` finds the headings and the title,
`flow` joins paragraphs across columns and pages, `composition` writes the text. `text_layer` places
the words of a page over its picture.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Literal

import numpy as np
import pypdfium2 as pdfium

from foveate.documents.blocks import ParsedText
from foveate.documents.language import detect_language_of
from foveate.documents.metadata import clean_names, parse_date, split_names
from foveate.documents.numbering import find_numbered
from foveate.documents.readers.pdf.composition import Composer, Sheet, vocabulary
from foveate.documents.readers.pdf.extraction import (
    Bookmark,
    Page,
    opened,
    read_outline,
    read_page,
    read_property,
)
from foveate.documents.readers.pdf.flow import join_flow, mark_references
from foveate.documents.readers.pdf.furniture import drop_line_numbers, remove_furniture
from foveate.documents.readers.pdf.headings import (
    find_title,
    is_title,
    mark_headings,
    tidy_headings,
)
from foveate.documents.readers.pdf.lines import Line, find_frames, find_segments, make_lines
from foveate.documents.readers.pdf.paragraphs import find_blocks, study
from foveate.documents.readers.pdf.scans import find_recognizer
from foveate.documents.readers.pdf.words import Words, read_words
from foveate.documents.structure import DocumentError, Landmark
from foveate.progress import progress

Engine = Literal["pdfium", "docling"]

_PUBLISHED = re.compile(rb"prism:(?:publicationDate|coverDate)(?:>|=[\"'])([\d-]{4,10})")  # in XMP
_CREATORS = re.compile(rb"<dc:creator>\s*<rdf:Seq>(.*?)</rdf:Seq>", re.DOTALL)
_CREATOR = re.compile(r"<rdf:li[^>]*>([^<]*)<")
_FRONT = 3  # pages that name the authors
_BATCH = 250  # pages after which the file is opened again: PDFium keeps what it has read of it


def read(
    data: bytes, *, engine: Engine = "pdfium", ocr: bool = False, ocr_language: str = "en"
) -> ParsedText:
    """Read a PDF.

    Args:
        data: The file.
        engine: "pdfium", or "docling" for its models.
        ocr: Whether to read pages without text, such as scans, by character recognition.
        ocr_language: ISO 639 codes of the languages of such pages, joined by "+".

    Some pages that are pictures, in a file that has text, give a warning unless `ocr` is on.

    Raises:
        DocumentError: The file is damaged or encrypted, or has no text.
        ImportError: docling is not installed.
    """
    if engine == "docling":
        # Imported late: it takes a moment, and few read with docling.
        from foveate.documents.readers.pdf.models import read_with_docling

        parsed = read_with_docling(data)
        with opened(data) as document:
            authors = _authors(document, data)
        return replace(find_numbered(parsed), authors=authors, date=_publication_date(data))
    if engine != "pdfium":
        raise DocumentError(f"cannot be read with {engine!r}: use 'pdfium' or 'docling'.")
    with opened(data) as document:
        count = len(document)
        outline, title = read_outline(document), read_property(document, "Title")
        authors = _authors(document, data)
        labels = [document.get_page_label(index) for index in range(count)]
    pages, sheets, pictures = _read_pages(data, count)
    if ocr and pictures:
        _read_pictures(data, pictures, pages, ocr_language)
    if not any(pages):
        raise DocumentError(_describe_lack(count, len(pictures), ocr))
    if pictures and not ocr:
        are = "is a picture" if len(pictures) == 1 else "are pictures"
        warnings.warn(
            f"{len(pictures)} of the {count} pages {are} without text, as from a scanner, and left "
            "out: read them with --ocr (ocr=True), which needs Tesseract or RapidOCR.",
            stacklevel=2,
        )
    authors = _attested(authors, pages)
    parsed = _compose(pages, sheets, outline, title, authors)
    landmarks = _name_pages(parsed, labels)
    return replace(parsed, authors=authors, date=_publication_date(data), landmarks=landmarks)


def _authors(document: pdfium.PdfDocument, data: bytes) -> tuple[str, ...]:
    """Return the authors that the properties state, or else the XMP, which is not compressed."""
    listed = _CREATORS.search(data)
    names = _CREATOR.findall(listed[1].decode("utf-8", "replace")) if listed else []
    return split_names(read_property(document, "Author")) or clean_names(map(unescape, names))


def _publication_date(data: bytes) -> str | None:
    """Return the date that a publisher states; the other dates say when the file was made."""
    stated = _PUBLISHED.search(data)
    return parse_date(stated[1].decode()) if stated else None


def _name_pages(parsed: ParsedText, labels: Sequence[str]) -> tuple[Landmark, ...]:
    """Return where pages begin, by the numbers printed on them, if those are not just counted."""
    layout = parsed.layout
    if layout is None or all(label in ("", str(n)) for n, label in enumerate(labels, 1)):
        return ()
    begins = np.flatnonzero(np.diff(layout.pages, prepend=0))
    return tuple(
        Landmark(start, f"page {labels[page - 1] or page}")
        for start, page in zip(
            layout.starts[begins].tolist(), layout.pages[begins].tolist(), strict=True
        )
    )


def _read_pages(data: bytes, count: int) -> tuple[list[list[Line]], list[Sheet], list[int]]:
    """Return the lines and the size of each page, and the indices of those that are pictures."""
    pages: list[list[Line]] = []
    sheets: list[Sheet] = []
    pictures: list[int] = []
    known: dict[str, str] = {}
    numbered: set[int] = set()
    with progress("Reading", count) as advance:
        for start in range(0, count, _BATCH):
            with opened(data) as document:
                for index in range(start, min(start + _BATCH, count)):
                    page = read_page(document, index)
                    words = read_words(page)
                    # A word that occurs on many pages is kept once.
                    words.texts = list(map(known.setdefault, words.texts, words.texts))
                    pages.append(read_lines(page, words, numbered))
                    sheets.append(
                        Sheet(page.width, page.height, words.quarter_turns, words.is_mirrored)
                    )
                    if page.has_picture and not pages[-1]:
                        pictures.append(index)
                    advance()
    return pages, sheets, pictures


def read_lines(page: Page, words: Words, numbered: set[int]) -> list[Line]:
    """Return the lines of a page in reading order; `numbered` is where lines have numbers."""
    segments = drop_line_numbers(find_segments(words), words, numbered)
    return [
        line
        for frame, members in find_frames(segments, words)
        for line in make_lines(page.number, words, members, frame)
    ]


def _attested(authors: Sequence[str], pages: Sequence[list[Line]]) -> tuple[str, ...]:
    """Leave out authors of one word that the first pages do not name: the users of computers."""
    words = {word.strip(",;.:*") for page in pages[:_FRONT] for line in page for word in line.words}
    return tuple(name for name in authors if " " in name or name in words)


def _read_pictures(
    data: bytes, indices: Sequence[int], pages: list[list[Line]], language: str
) -> None:
    """Read pages that are pictures."""
    recognize = find_recognizer(language)
    with progress("Recognizing characters", len(indices)) as advance, opened(data) as document:
        for index in indices:
            pages[index] = recognize(document, index)
            advance()


def _describe_lack(count: int, pictures: int, ocr: bool) -> str:
    """Explain why there is no text."""
    if not pictures:
        return "has no text: its pages are empty, or hold drawings only."
    if ocr:
        return "has no text, and character recognition found none on its pages."
    what = "its only page is a picture" if count == 1 else f"its {count} pages are pictures"
    return (
        f"has no text: {what}, as from a scanner; read it with --ocr, which needs Tesseract or "
        "RapidOCR."
    )


def _compose(
    pages: list[list[Line]],
    sheets: Sequence[Sheet],
    outline: Sequence[Bookmark],
    stated_title: str,
    authors: Sequence[str],
) -> ParsedText:
    """Recognize what the lines are, and write the text; `pages` is empty afterwards."""
    kept = remove_furniture(pages, [sheet.reading_height for sheet in sheets])
    left = {id(line) for page in kept for line in page}
    left_out = tuple(line.text for page in pages for line in page if id(line) not in left)
    lines = [line for page in kept for line in page]
    typography = study(lines)
    blocks = find_blocks(kept, typography)
    title = find_title(blocks, stated_title, typography)
    blocks = [block for block in blocks if not any(block is part for part in title)]
    mark_headings(blocks, outline, typography, authors, bool(title))
    blocks = join_flow(mark_references(tidy_headings(blocks)))
    marks: defaultdict[int, set[str]] = defaultdict(set)
    for block in blocks:
        if block.kind == "footnote":
            marks[block.page].add(block.lines[0].words[0])
    words = vocabulary(" ".join(line.words[1:-1]) for line in lines)
    language = detect_language_of(line.text for line in lines)
    composer = Composer(words, language, marks)
    stated = stated_title if is_title(stated_title) else None
    name = composer.add_title(title) if title else stated
    # The lines take most of the memory of reading: each is freed once it is written.
    for held in (pages, kept, lines):
        held.clear()
    blocks.reverse()
    while blocks:
        composer.add(blocks.pop())
    parsed = find_numbered(composer.finish(name, sheets))
    return replace(parsed, language=language, left_out=left_out)
