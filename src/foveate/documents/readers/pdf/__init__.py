"""PDF, read with PDFium: what stands on the pages, in reading order, and what it is."""

from collections import defaultdict
from functools import cache

from foveate.documents.blocks import ParsedText
from foveate.documents.language import SAMPLE, detect_language
from foveate.documents.readers.pdf.composition import Composer, vocabulary
from foveate.documents.readers.pdf.extraction import Bookmark, Page, opened, read_outline, read_page
from foveate.documents.readers.pdf.flow import join_flow, mark_references
from foveate.documents.readers.pdf.furniture import drop_line_numbers, remove_furniture
from foveate.documents.readers.pdf.headings import (
    find_title,
    front_matter,
    is_title,
    mark_headings,
    tidy_headings,
)
from foveate.documents.readers.pdf.lines import Line, find_frames, find_segments, make_lines, part_of
from foveate.documents.readers.pdf.paragraphs import TextBlock, find_blocks, study
from foveate.documents.readers.pdf.tables import arrange
from foveate.documents.readers.pdf.words import read_words
from foveate.progress import progress


def read(data: bytes) -> ParsedText:
    """Read a PDF."""
    pages: list[list[Line]] = []
    sizes: list[tuple[float, float]] = []
    with opened(data) as document, progress("Reading", len(document)) as advance:
        bookmarks = read_outline(document)
        stated = document.get_metadata_value("Title").strip()
        for index in range(len(document)):
            page = read_page(document, index)
            pages.append(lines_of(page))
            sizes.append((page.width, page.height))
            advance()
    return compose(pages, sizes, bookmarks, stated)


def lines_of(page: Page) -> list[Line]:
    words = read_words(page)
    segments = drop_line_numbers(find_segments(words), words)
    return [
        line
        for frame, members in find_frames(segments, page.rules)
        for line in make_lines(page.number, words, members, frame)
    ]


def compose(
    pages: list[list[Line]], sizes: list[tuple[float, float]], bookmarks: list[Bookmark], stated: str
) -> ParsedText:
    pages = remove_furniture(pages, [height for _, height in sizes])
    lines = [line for page in pages for line in page]
    typography = study(lines)
    blocks = find_blocks(pages, typography)
    title = find_title(blocks, stated, typography)
    rest = [block for block in blocks if not any(block is one for one in title)]
    mark_headings(rest, bookmarks, typography)
    front = front_matter(rest, typography) if title else 0
    rest = divide_columns(rest[:front]) + rest[front:]
    rest = join_flow(mark_references(tidy_headings(rest)))
    marks: defaultdict[int, set[str]] = defaultdict(set)
    for block in rest:
        if block.kind == "footnote":
            marks[block.page].add(block.lines[0].words[0])
    language = detect_language(sample(lines))
    composer = Composer(vocabulary(lines), known_words(language))
    name = composer.add_title(title) if title else (stated if is_title(stated) else None)
    for block in rest:
        composer.add(block, frozenset(marks[block.page]))
    return composer.finish(name, sizes)


def divide_columns(blocks: list[TextBlock]) -> list[TextBlock]:
    """Read names and addresses that stand side by side one below the other."""
    divided: list[TextBlock] = []
    for block in blocks:
        if block.kind != "table":
            divided.append(block)
            continue
        rows = arrange(block.lines)
        for column in zip(*rows):
            parts = [part_of(line, *cell) for row in column for line, cell in row]
            if parts:
                divided.append(TextBlock(parts))
    return divided


def sample(lines: list[Line]) -> str:
    texts = []
    room = SAMPLE
    for line in lines:
        texts.append(line.text)
        room -= len(line.text)
        if room < 0:
            break
    return "\n".join(texts)


def known_words(language: str):
    @cache
    def is_known(word: str) -> bool:
        from wordfreq import zipf_frequency
        try:
            return zipf_frequency(word, language) > 1.0
        except (LookupError, ImportError):
            return False
    return is_known
