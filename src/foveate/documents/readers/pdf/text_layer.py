"""The words of a page where they stand on it, to be selected over its picture."""

from dataclasses import dataclass, replace
from itertools import groupby, pairwise, zip_longest

import pypdfium2 as pdfium

from foveate.documents.readers.pdf import read_lines
from foveate.documents.readers.pdf.composition import Composer, is_wide, vocabulary
from foveate.documents.readers.pdf.extraction import read_page
from foveate.documents.readers.pdf.lines import Line
from foveate.documents.readers.pdf.words import mirror, read_words

_SPACE = 0.2  # ems, of the narrowest space between two words
_APART = 2.0  # ems between the baselines of lines that are not of one paragraph
_SAME_SIZE = 0.1  # the share by which sizes of type may differ in a paragraph


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of text on a page.

    Attributes:
        words: Each word with the space after it, if there is one, and its left and right edge.
        top: Upper edge.
        bottom: Lower edge.
        size: Size of the font of most characters.
        end: What separates it from the next line: a space or, in a divided word, nothing, where the
            text goes on, and a line break elsewhere.
    """

    words: list[tuple[str, float, float]]
    top: float
    bottom: float
    size: float
    end: str


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The text of a page. All places are in points, after turning the page back.

    Attributes:
        quarter_turns: Number of quarter turns, clockwise, by which the words are turned.
        columns: The parts of the page with lines one below the other, in reading order.
    """

    quarter_turns: int
    columns: list[list[PlacedLine]]


def read_text_layer(
    document: pdfium.PdfDocument, index: int, text: str, language: str | None, max_words: int
) -> TextLayer:
    """Read the words of a page and their places.

    Args:
        document: The document.
        index: Index of the page, from 0.
        text: What has been read of the page before, from which follows how to join divided words.
        language: ISO 639 code of the document's language; None if it is unknown.
        max_words: Number of words after which the rest of the page is left out.
    """
    page = read_page(document, index)
    words = read_words(page)
    room = max_words
    lines: list[Line] = []
    for line in read_lines(page, words, set()):
        room -= len(line.words)
        if room < 0:
            break
        lines.append(line)
    if words.is_mirrored:
        lines = [replace(line, places=mirror(line.places, words.width)) for line in lines]
    composer = Composer(vocabulary([text]), language or "en", {})
    return TextLayer(
        words.quarter_turns,
        [
            _place(list(column), composer)
            for _, column in groupby(lines, key=lambda line: id(line.frame))
        ],
    )


def _place(lines: list[Line], composer: Composer) -> list[PlacedLine]:
    placed = []
    for line, below in zip_longest(lines, lines[1:]):
        texts = list(line.words)
        end, is_cut = "\n", False
        if below is not None and below.words[0] and _continues(line, below):
            end, is_cut = composer.gap(texts[-1], below.words[0])
        if is_cut:
            texts[-1] = texts[-1][:-1]
        for at, (word, following) in enumerate(pairwise(line.words)):
            is_unspaced = is_wide(word[-1:]) and is_wide(following[:1])
            if not (line.glued[at + 1] or is_unspaced):
                texts[at] += " "
        edges = line.boxes[:, [0, 2]].astype(float).round(2).tolist()
        placed.append(
            PlacedLine(
                [(text, left, right) for text, (left, right) in zip(texts, edges, strict=True)],
                round(line.top, 2),
                round(line.bottom, 2),
                round(line.size, 2),
                end,
            )
        )
    return placed


def _continues(line: Line, below: Line) -> bool:
    """Return whether a line ends because it is full, and not where a paragraph or an entry ends."""
    size = max(line.size, below.size)
    left, _, right, _ = below.boxes[0].tolist()
    return (
        line.right + _SPACE * size + right - left > line.frame.right
        and abs(line.size - below.size) < _SAME_SIZE * size
        and below.baseline - line.baseline < _APART * size
        and not (line.cells or below.cells)
        and max(line.mono, below.mono) < 0.5
    )
