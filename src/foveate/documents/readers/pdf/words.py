"""Words of a page, from its characters, with broken encodings mended."""

import unicodedata
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foveate.documents.readers.pdf.direction import is_right_to_left, order_characters, read_word
from foveate.documents.readers.pdf.extraction import Characters, Page
from foveate.documents.words import load_words

_WORDS = load_words("fonts")
_ACCENTS: dict[str, str] = _WORDS["accents"]
_ACCENT_CODES = np.array([ord(accent) for accent in _ACCENTS], np.uint32)
_DOTLESS = {"ı": "i", "ȷ": "j"}
_MENDED = {int(code, 16): shown for code, shown in _WORDS["mended"].items()}
_UNREADABLE = dict.fromkeys((*range(1), 3, 4, 5, 6, 7, 8, 65535))
_REPAIRS: dict[int, str | None] = _MENDED | _UNREADABLE
_MENDED_CODES = np.array(list(_REPAIRS), np.uint32)
_STOPS = np.array([ord(mark) for mark in "。！？；，、：」』）"], np.uint32)
_CJK = 0x2E80  # the first code point of Chinese and Japanese, whose characters are further apart
_SPACE = 0.24  # ems between two letters that a space must separate, even if PDFium says none does
_GLUED = 0.12  # ems between a word and a mark raised or lowered beside it
_FEWEST_SPACED = 4  # letters set apart that make a word
_UPRIGHT = 0.95  # cosine of the greatest angle to the reading direction


@dataclass(slots=True)
class Words:
    """The words of a page, in the order in which they were written.

    If most of the page is turned by a quarter, all places are those after turning it back.

    Attributes:
        texts: The words.
        lengths: `(words,)` float32, their numbers of characters.
        boxes: `(words, 4)` float32, left, top, right and bottom.
        baselines: `(words,)` float32.
        sizes: `(words,)` float32, font sizes in points.
        glued: `(words,)` bool, whether no space separates the word from the one before it.
        styles: `(words, 4)` float32, the share of characters that are bold, italic, of a
            typewriter font and of a mathematical font.
        width: Width of the page, in points, after turning it back.
        height: Height of the page.
        quarter_turns: Number of quarter turns, clockwise, by which the words are rotated on the
            page.
        is_mirrored: Whether most of the page is written from right to left: then left and right
            are exchanged, so that all lines begin at the left.
        has_right_to_left: Whether any of it is.
    """

    texts: list[str]
    lengths: NDArray[np.float32]
    boxes: NDArray[np.float32]
    baselines: NDArray[np.float32]
    sizes: NDArray[np.float32]
    glued: NDArray[np.bool_]
    styles: NDArray[np.float32]
    width: float
    height: float
    quarter_turns: int
    is_mirrored: bool
    has_right_to_left: bool


def read_words(page: Page) -> Words:
    """Find the words of a page.

    Characters that are not upright (watermarks, labels of axes) and those of embedded drawings are
    left out.
    """
    characters = page.characters
    keep, turns = _upright(characters)
    if len(keep) and characters.drawn.mean() < 0.5:
        keep &= ~characters.drawn
    keep &= ~_is_private(characters.codes) & (characters.sizes > 0.5)
    boxes, origins = characters.boxes[keep], characters.origins[keep]
    width, height = page.width, page.height
    if turns:
        boxes = turn_boxes(boxes, width, height, -turns)
        origins = _turn(origins, width, height, -turns)
        width, height = height, width
    codes, sizes = characters.codes[keep], characters.sizes[keep]
    spaced, fonts = characters.spaced[keep], characters.fonts[keep]
    if len(codes):
        codes, spaced, dropped = _compose_accents(codes, boxes, spaced)
        if dropped.any():
            left = ~dropped
            codes, boxes, origins, sizes = codes[left], boxes[left], origins[left], sizes[left]
            spaced, fonts = spaced[left], fonts[left]
    if not len(codes):
        empty = np.zeros(0, np.float32)
        return Words([], empty, np.zeros((0, 4), np.float32), empty, empty, np.zeros(0, np.bool_),
                     np.zeros((0, 4), np.float32), width, height, turns, False, False)  # fmt: skip
    right = is_right_to_left(codes)
    is_mirrored = bool(right.sum() > 0.5 * len(codes))
    if right.any():
        boxes = mirror(boxes, width) if is_mirrored else boxes
        order, spaced = order_characters(codes, boxes, origins[:, 1], sizes, spaced)
        codes, boxes, origins, sizes = codes[order], boxes[order], origins[order], sizes[order]
        fonts = fonts[order]
    starts, glued = _find_starts(codes, boxes, origins[:, 1], sizes, spaced)
    lengths = np.diff(starts, append=len(codes)).astype(np.float32)
    flags = np.array(page.fonts, np.float32).reshape(-1, 4)[fonts]
    texts = _texts(codes, starts)
    if right.any():
        texts = [read_word(text, is_mirrored) for text in texts]
    return Words(
        texts,
        np.array(list(map(len, texts)), np.float32),
        np.concatenate(
            [
                np.minimum.reduceat(boxes[:, :2], starts, axis=0),
                np.maximum.reduceat(boxes[:, 2:], starts, axis=0),
            ],
            axis=1,
        ),
        origins[starts, 1],
        np.maximum.reduceat(sizes, starts),
        glued,
        (np.add.reduceat(flags, starts, axis=0) / lengths[:, None]).astype(np.float32),
        width,
        height,
        turns,
        is_mirrored,
        bool(right.any()),
    )


def _find_starts(
    codes: NDArray[np.uint32],
    boxes: NDArray[np.float32],
    baselines: NDArray[np.float32],
    sizes: NDArray[np.float32],
    spaced: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the indices of the characters that begin a word, and which of the words are glued."""
    size = np.maximum(sizes[1:], sizes[:-1])
    gaps = boxes[1:, 0] - boxes[:-1, 2]
    falls = np.abs(baselines[1:] - baselines[:-1])
    wide = (codes[:-1] >= _CJK) | (codes[1:] >= _CJK)
    apart = (gaps > np.where(wide, 0.5, _SPACE) * size) | (gaps < -0.7 * size)
    script = (falls > 0.1 * size) | (np.minimum(sizes[1:], sizes[:-1]) < 0.75 * size)
    breaks = spaced[1:] | apart | script | np.isin(codes[:-1], _STOPS)
    breaks &= ~_find_spaced_letters(
        codes, breaks, spaced[1:], (gaps / size).astype(np.float32), falls > 0.1 * size
    )
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    # PDFium takes what is raised for another line.
    near = np.where(
        falls > 0.1 * size, (gaps < _GLUED * size) & (gaps > -0.7 * size), ~spaced[1:] & ~apart
    )
    glued = np.concatenate([[False], near & (falls < 1.2 * size)])
    return starts, glued[starts]


def _find_spaced_letters(
    codes: NDArray[np.uint32],
    breaks: NDArray[np.bool_],
    spaced: NDArray[np.bool_],
    gaps: NDArray[np.float32],
    uneven: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which gaps between characters are those of words set with wide spaces: R E S U L T S.

    Of each gap is given whether a word begins after it, as far as known, whether it is white space
    in the file, its width in ems, and whether the baseline changes.
    """
    ends = np.concatenate([[True], breaks, [True]])
    single = ends[:-1] & ends[1:]
    within = single[:-1] & single[1:] & ~uneven & (gaps > 0) & (gaps < 1.5)
    found = np.zeros(len(breaks), np.bool_)
    edges = np.flatnonzero(np.diff(within.astype(np.int8), prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        letters = codes[first : last + 1].tolist()
        if last - first < _FEWEST_SPACED - 1 or not all(map(str.isalpha, map(chr, letters))):
            continue
        # Spaces that the file has may be those of a list; a heading has its line to itself.
        is_line = (not first or uneven[first - 1] or abs(gaps[first - 1]) > 1.5) and (
            last == len(breaks) or uneven[last] or abs(gaps[last]) > 1.5
        )
        usual = np.percentile(gaps[first:last], 25)
        narrow = gaps[first:last] < 1.5 * usual
        is_heading = is_line and letters[0] < _CJK and "".join(map(chr, letters)).isupper()
        found[first:last] = narrow if is_heading else narrow & ~spaced[first:last]
    return found


def _upright(characters: Characters) -> tuple[NDArray[np.bool_], int]:
    """Return the characters in the direction of most, and its number of quarter turns."""
    across, down = characters.directions.T
    by_turns = [across > _UPRIGHT, down > _UPRIGHT, across < -_UPRIGHT, down < -_UPRIGHT]
    turns = max(range(4), key=lambda turn: int(by_turns[turn].sum()))
    return by_turns[turns], turns


def turn_boxes(
    boxes: NDArray[np.float32], width: float, height: float, turns: int
) -> NDArray[np.float32]:
    """Turn boxes of a page of that width and height by quarter turns, clockwise."""
    first = _turn(boxes[:, :2], width, height, turns)
    second = _turn(boxes[:, 2:], width, height, turns)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def mirror(boxes: NDArray[np.float32], width: float) -> NDArray[np.float32]:
    """Exchange left and right of boxes, the first four columns, on a page of that width."""
    mirrored = boxes.copy()
    mirrored[:, 0], mirrored[:, 2] = width - boxes[:, 2], width - boxes[:, 0]
    return mirrored


def _turn(
    points: NDArray[np.float32], width: float, height: float, turns: int
) -> NDArray[np.float32]:
    x, y = points[:, 0], points[:, 1]
    turned = ((x, y), (height - y, x), (width - x, height - y), (y, width - x))[turns % 4]
    return np.stack(turned, axis=1)


def _is_private(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    private = ((codes >= 0xE000) & (codes <= 0xF8FF)) | (codes >= 0xF0000)
    surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
    unknown: NDArray[np.bool_] = (
        (private & ~np.isin(codes, _MENDED_CODES)) | surrogate | (codes == 0xFFFD)
    )
    return unknown


def _texts(codes: NDArray[np.uint32], starts: NDArray[np.intp]) -> list[str]:
    text = codes.astype("<u4").tobytes().decode("utf-32-le", "replace")
    bounds = [*starts.tolist(), len(text)]
    texts = [text[start:end] for start, end in pairwise(bounds)]
    if np.isin(codes, _MENDED_CODES).any():
        texts = [word.translate(_REPAIRS) for word in texts]
    return texts


def _compose_accents(
    codes: NDArray[np.uint32], boxes: NDArray[np.float32], spaced: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.bool_]]:
    """Unite accents with the letters under them.

    Returns:
        The code points, which characters white space precedes, and which are now superfluous.
    """
    dropped = np.zeros(len(codes), np.bool_)
    suspects = np.flatnonzero(np.isin(codes, _ACCENT_CODES)).tolist()
    if suspects:
        codes, spaced = codes.copy(), spaced.copy()
    for index in suspects:
        left, _, right, _ = boxes[index].tolist()
        for neighbour in (index + 1, index - 1):
            if not 0 <= neighbour < len(codes) or dropped[neighbour]:
                continue
            start, _, end, _ = boxes[neighbour].tolist()
            overlap = min(right, end) - max(left, start)
            letter = chr(int(codes[neighbour]))
            letter = _DOTLESS.get(letter, letter)
            if overlap > 0.4 * (right - left) and letter.isalpha():
                accent = _ACCENTS[chr(int(codes[index]))]
                composed = unicodedata.normalize("NFC", letter + accent)
                if len(composed) == 1:
                    codes[neighbour] = ord(composed)
                    dropped[index] = True
                    if neighbour > index:
                        spaced[neighbour] = spaced[index]
                    break
    return codes, spaced, dropped
