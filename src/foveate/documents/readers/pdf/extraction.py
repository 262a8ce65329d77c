"""The characters of a PDF: what PDFium says about each, and about each page."""

import ctypes
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import repeat
from textwrap import wrap
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from numpy.typing import NDArray

from foveate.documents.readers.pdf.prototypes import INT, POINTER, UINT, prototype
from foveate.documents.readers.pdf.visibility import (
    Note,
    get_type,
    hide_unseen,
    leaves,
    objects_of,
    show_annotations,
)
from foveate.documents.structure import DocumentError
from foveate.documents.words import alternatives, load_words

LOCK = RLock()  # PDFium is not thread-safe

_NOTE_SIZE = 10.0  # points, of typed text without appearance, if its box has room
_NAME_SIZE = 256
_FIXED_PITCH, _ITALIC, _BOLD_WEIGHT = 1, 64, 600
_BOLD, _NAMED_WEIGHT, _ITALIC_NAME, _MONO, _MATH, _UNEVEN = (
    re.compile(alternatives(load_words("fonts")[kind]), re.IGNORECASE)
    for kind in ("bold", "named_weight", "italic", "mono", "math", "uneven")
)


class Font(NamedTuple):
    """What matters about a font."""

    is_bold: bool
    is_italic: bool
    is_mono: bool
    is_math: bool


class Bookmark(NamedTuple):
    """An entry of the outline.

    Attributes:
        level: Its depth, from 1.
        title: Its words.
        page: Number of the page it points to, from 1; 0 if it points to none.
        top: How far down that page it points, in points; None if unknown.
    """

    level: int
    title: str
    page: int
    top: float | None


@dataclass(slots=True)
class Characters:
    """The visible characters of a page, in the order in which they were written.

    Attributes:
        codes: `(characters,)` uint32, code points.
        boxes: `(characters, 4)` float32, left, top, right and bottom of each in points from the
            upper left corner of the page as it is shown.
        origins: `(characters, 2)` float32, where the baseline of each begins.
        sizes: `(characters,)` float32, size of the font as shown, in points.
        directions: `(characters, 2)` float32, the unit vector along the baseline.
        fonts: `(characters,)` int16, index of the font in `Page.fonts`.
        spaced: `(characters,)` bool, whether white space comes before the character.
        drawn: `(characters,)` bool, whether the character is part of an embedded drawing.
    """

    codes: NDArray[np.uint32]
    boxes: NDArray[np.float32]
    origins: NDArray[np.float32]
    sizes: NDArray[np.float32]
    directions: NDArray[np.float32]
    fonts: NDArray[np.int16]
    spaced: NDArray[np.bool_]
    drawn: NDArray[np.bool_]


@dataclass(slots=True)
class Page:
    """A page.

    Attributes:
        number: Its number, from 1.
        width: In points, as shown.
        height: In points, as shown.
        characters: Its visible characters.
        fonts: The fonts that the characters use.
        has_picture: Whether a picture covers a good part of it.
    """

    number: int
    width: float
    height: float
    characters: Characters
    fonts: list[Font]
    has_picture: bool


@contextmanager
def opened(data: bytes) -> Iterator[pdfium.PdfDocument]:
    """Open a PDF, and keep other threads out of PDFium meanwhile.

    Raises:
        DocumentError: The data is damaged or encrypted.
    """
    with LOCK:
        try:
            document = pdfium.PdfDocument(data)
        except pdfium.PdfiumError as error:
            if error.err_code == raw.FPDF_ERR_PASSWORD:
                raise DocumentError(
                    "is protected by a password: remove it first, for example with qpdf --decrypt."
                ) from error
            raise DocumentError(
                "cannot be read as PDF, because it is damaged or incomplete: get it again, or "
                "open it in a viewer and save it again."
            ) from error
        try:
            if document.get_formtype() == raw.FORMTYPE_ACRO_FORM:
                document.init_forms()  # PDFium then draws fields that have a value alone
            yield document
        finally:
            document.close()


def read_outline(document: pdfium.PdfDocument) -> list[Bookmark]:
    """Read the outline; damaged parts of it are left out."""
    bookmarks: list[Bookmark] = []
    try:
        for item in document.get_toc(max_depth=16):
            destination = item.get_dest()
            index = destination.get_index() if destination else None
            top = None
            if destination is not None and index is not None:
                mode, position = destination.get_view()
                if mode == raw.PDFDEST_VIEW_XYZ and len(position) > 1 and position[1]:
                    top = position[1]
                elif mode == raw.PDFDEST_VIEW_FITH and position and position[0]:
                    top = position[0]
                if top is not None:
                    top = document.get_page_size(index)[1] - top
            number = 0 if index is None else index + 1
            bookmarks.append(Bookmark(item.level + 1, item.get_title().strip(), number, top))
    except (pdfium.PdfiumError, ValueError, IndexError):
        pass
    return bookmarks


def read_property(document: pdfium.PdfDocument, name: str) -> str:
    """Return a property of the file, such as "Title"; empty if there is none."""
    return str(document.get_metadata_value(name)).replace("\0", "").strip()


def read_page(document: pdfium.PdfDocument, index: int) -> Page:
    """Read the characters of the page with that index, from 0; a damaged page is empty."""
    page = text = None
    try:
        page = document[index]
        bounds, size = page.get_bbox(), page.get_size()  # PDFium's flattening may change them
        objects = objects_of(page)
        num_own = len(objects)
        is_annotated, notes = show_annotations(page)
        if is_annotated and raw.FPDFPage_Flatten(page, raw.FLAT_PRINT) == raw.FLATTEN_SUCCESS:
            page.close()
            page = document[index]
            objects = objects_of(page)
        hide_unseen(page, objects)
        text = page.get_textpage()
        reader = _PageReader(text, bounds, page.get_rotation() // 90)
        return reader.read(index + 1, size, objects, num_own, notes)
    except pdfium.PdfiumError:
        return _empty_page(index + 1)
    finally:
        if text is not None:
            text.close()
        if page is not None:
            page.close()


def _empty_page(number: int) -> Page:
    nothing = np.zeros((0, 4), np.float32)
    flags = np.zeros(0, np.bool_)
    characters = Characters(
        np.zeros(0, np.uint32), nothing, nothing[:, :2], nothing[:, 0], nothing[:, :2],
        np.zeros(0, np.int16), flags, flags,
    )  # fmt: skip
    return Page(number, 612.0, 792.0, characters, [], False)


_get_unicode = prototype(raw.FPDFText_GetUnicode, UINT, POINTER, INT)
_is_generated = prototype(raw.FPDFText_IsGenerated, INT, POINTER, INT)
_get_box = prototype(raw.FPDFText_GetLooseCharBox, INT, POINTER, INT, POINTER)
_get_origin = prototype(raw.FPDFText_GetCharOrigin, INT, POINTER, INT, POINTER, POINTER)
_get_text = prototype(raw.FPDFText_GetText, INT, POINTER, INT, INT, POINTER)
_get_size = prototype(raw.FPDFText_GetFontSize, ctypes.c_double, POINTER, INT)
_get_matrix = prototype(raw.FPDFText_GetMatrix, INT, POINTER, INT, POINTER)
_get_object = prototype(raw.FPDFText_GetTextObject, ctypes.c_size_t, POINTER, INT)
_get_font = prototype(raw.FPDFTextObj_GetFont, ctypes.c_size_t, POINTER)
_get_bounds = prototype(raw.FPDFPageObj_GetBounds, INT, *[POINTER] * 5)


class _PageReader:
    """Reads the text page of one page."""

    def __init__(
        self, text: pdfium.PdfTextPage, bounds: tuple[float, float, float, float], rotation: int
    ) -> None:
        self._text = text
        self._handle = ctypes.cast(text.raw, POINTER).value
        self._rotation = rotation
        self._bounds = bounds  # left, bottom, right, top
        self._matrix = raw.FS_MATRIX()
        self._fonts: dict[tuple[str, int, int], int] = {}
        self._font_list: list[Font] = []

    def read(
        self,
        number: int,
        size: tuple[float, float],
        objects: Sequence[int],
        num_own: int,
        notes: Sequence[Note],
    ) -> Page:
        """Read the page; of its objects, the first `num_own` are not annotations."""
        own_objects, has_picture = self._read_objects(objects, num_own)
        characters = self._read_characters(own_objects)
        for text, box in notes:
            self._font_list.append(Font(False, False, False, False))
            parts = zip(_parts(characters), _parts(self._typeset(text, box)), strict=True)
            characters = Characters(*map(np.concatenate, parts))
        return Page(number, *size, characters, self._font_list, has_picture)

    def _read_characters(self, own_objects: set[int]) -> Characters:
        handle = self._handle
        count = max(self._text.count_chars(), 0)
        codes, second_halves = _join_surrogates(self._read_codes(count))
        boxes = np.zeros((count, 4), np.float32)
        first, step = boxes.ctypes.data, 4 * boxes.itemsize
        rows = range(first, first + step * count, step)
        deque(map(_get_box, repeat(handle), range(count), rows), maxlen=0)
        white = np.isin(codes, _WHITE)
        owners = np.fromiter(map(_get_object, repeat(handle), range(count)), np.uint64, count)
        for index in np.flatnonzero((codes == 10) | (codes == 13)).tolist():
            white[index] = _is_generated(handle, index)
        white |= (owners == 0) & ~white & (boxes[:, 0] >= boxes[:, 2])
        inside = np.bincount(np.cumsum(white), ~white & self._is_inside(boxes)) > 0  # by word
        visible = np.flatnonzero(~(white | second_halves) & inside[np.cumsum(white)])
        origins = self._read_origins(visible, count)
        spaced = np.zeros(count, np.bool_)
        spaced[1:] = white[:-1]
        drawn, sizes, directions, fonts = self._read_objects_of(
            owners[visible], visible, own_objects
        )
        shown = self._turn(boxes[visible].astype(np.float64))
        return Characters(
            codes[visible],
            shown.astype(np.float32),
            self._turn_points(origins[visible]).astype(np.float32),
            sizes,
            directions,
            fonts,
            spaced[visible],
            drawn,
        )

    def _typeset(self, text: str, box: tuple[float, float, float, float]) -> Characters:
        """Typeset a note in its box, in the last font, as viewers do if it has no appearance."""
        left, bottom, right, top = box
        size = _NOTE_SIZE / 0.9
        lines: list[str] = []
        while not lines or (len(lines) * 1.2 * size > top - bottom and size > 2):
            size *= 0.9
            columns = max(int((right - left) / (0.5 * size)), 1)
            lines = [part for line in text.splitlines() for part in wrap(line, columns)]
        placed = [
            (
                ord(sign),
                left + 0.5 * size * x,
                top - size * (1 + 1.2 * y),
                line[:x][-1:] in ("", " "),
            )
            for y, line in enumerate(lines)
            for x, sign in enumerate(line)
            if sign != " "
        ]
        codes, x, y, spaced = map(np.array, zip(*placed, strict=True))
        boxes = np.stack([x, y - 0.2 * size, x + 0.5 * size, y + 0.8 * size], axis=1)
        direction = ((1, 0), (0, 1), (-1, 0), (0, -1))[self._rotation]
        return Characters(
            codes.astype(np.uint32),
            self._turn(boxes).astype(np.float32),
            self._turn_points(np.stack([x, y], axis=1)).astype(np.float32),
            np.full(len(codes), size, np.float32),
            np.full((len(codes), 2), direction, np.float32),
            np.full(len(codes), len(self._font_list) - 1, np.int16),
            spaced,
            np.zeros(len(codes), np.bool_),
        )

    def _is_inside(self, boxes: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return which boxes have their middle on the page."""
        left, bottom, right, top = self._bounds
        x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
        inside: NDArray[np.bool_] = (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
        return inside

    def _read_codes(self, count: int) -> NDArray[np.uint32]:
        """Return the code points of the characters."""
        buffer = np.zeros(count + 1, np.uint16)
        if _get_text(self._handle, 0, count, buffer.ctypes.data) == count + 1:
            return buffer[:count].astype(np.uint32)
        return np.fromiter(map(_get_unicode, repeat(self._handle), range(count)), np.uint32, count)

    def _read_origins(self, visible: NDArray[np.intp], count: int) -> NDArray[np.float64]:
        """Return where the baselines of the visible characters begin."""
        origins = np.zeros((count, 2))
        across = visible * 2 * origins.itemsize + origins.ctypes.data
        rows = visible.tolist(), across.tolist(), (across + origins.itemsize).tolist()
        deque(map(_get_origin, repeat(self._handle), *rows), maxlen=0)
        return origins

    def _read_objects_of(
        self, owners: NDArray[np.uint64], indices: NDArray[np.intp], own_objects: set[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32], NDArray[np.int16]]:
        """Read what all characters of a text object share."""
        starts = np.flatnonzero(np.diff(owners.astype(np.int64), prepend=-1))
        styles: list[tuple[bool, float, float, float, int]] = []
        known: dict[int, tuple[bool, float, float, float, int]] = {}
        known_fonts: dict[int, int] = {}
        for owner, index in zip(owners[starts].tolist(), indices[starts].tolist(), strict=True):
            if owner not in known or not owner:
                handle = _get_font(owner) if owner else 0
                if not handle or handle not in known_fonts:
                    known_fonts[handle] = self._font_of(index)
                known[owner] = (
                    bool(own_objects) and owner not in own_objects,
                    *self._read_style(index),
                    known_fonts[handle],
                )
            styles.append(known[owner])
        table = np.array(styles, np.float64).reshape(-1, 5)
        table = np.repeat(table, np.diff([*starts, len(owners)]), axis=0)
        return (
            table[:, 0] > 0,
            table[:, 1].astype(np.float32),
            table[:, 2:4].astype(np.float32),
            table[:, 4].astype(np.int16),
        )

    def _read_style(self, index: int) -> tuple[float, float, float]:
        """Return the size and the direction of a character."""
        matrix = self._matrix
        size = _get_size(self._handle, index)
        across, down = 1.0, 0.0
        if _get_matrix(self._handle, index, ctypes.addressof(matrix)):
            size *= abs(matrix.a * matrix.d - matrix.b * matrix.c) ** 0.5
            length = (matrix.a**2 + matrix.b**2) ** 0.5
            if length:
                directions = ((1, -1), (1, 1), (-1, 1), (-1, -1))
                first, second = matrix.a / length, matrix.b / length
                if self._rotation % 2:
                    first, second = second, first
                signs = directions[self._rotation]
                across, down = first * signs[0], second * signs[1]
        return size, across, down

    def _font_of(self, index: int) -> int:
        flags = INT()
        buffer = ctypes.create_string_buffer(_NAME_SIZE)
        length = raw.FPDFText_GetFontInfo(self._text, index, buffer, _NAME_SIZE, flags)
        name = buffer.raw[: max(min(length, _NAME_SIZE) - 1, 0)].decode("utf-8", "replace")
        weight = raw.FPDFText_GetFontWeight(self._text, index)
        key = name, flags.value, weight
        if key not in self._fonts:
            self._fonts[key] = len(self._font_list)
            plain = name.split("+", 1)[-1]
            is_mono = bool(_MONO.search(plain)) or (
                bool(flags.value & _FIXED_PITCH) and not _UNEVEN.search(plain)
            )
            self._font_list.append(
                Font(
                    bool(_BOLD.search(plain))
                    or (weight >= _BOLD_WEIGHT and not _NAMED_WEIGHT.search(plain)),
                    bool(flags.value & _ITALIC) or bool(_ITALIC_NAME.search(plain)),
                    is_mono,
                    bool(_MATH.search(plain)) and not is_mono,
                )
            )
        return self._fonts[key]

    def _read_objects(self, objects: Sequence[int], num_own: int) -> tuple[set[int], bool]:
        """Look at the objects of the page itself.

        Returns:
            The text objects that are not part of an embedded drawing; empty if the whole page is
            embedded. Whether there is a large picture.
        """
        bounds = np.zeros(4, np.float32)
        pointers = [bounds.ctypes.data + 4 * i for i in range(4)]
        own: set[int] = set()
        left, bottom, right, top = self._bounds
        pictured = 0.0
        for item in objects[:num_own]:
            kind = get_type(item)
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                own.add(item)
            elif kind == raw.FPDF_PAGEOBJ_IMAGE and _get_bounds(item, *pointers):
                x0, y0, x1, y1 = bounds.tolist()
                pictured += (x1 - x0) * (y1 - y0)
        if own:
            own.update(item for item, _, _ in leaves(objects[num_own:]))
        return own, pictured > 0.3 * (right - left) * (top - bottom)

    def _turn(self, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn boxes (left, top, right, bottom) of the page's space to the page as shown."""
        corners = self._turn_points(boxes.reshape(-1, 2)).reshape(-1, 4)
        return np.concatenate(
            [
                np.minimum(corners[:, :2], corners[:, 2:]),
                np.maximum(corners[:, :2], corners[:, 2:]),
            ],
            axis=1,
        )

    def _turn_points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        left, bottom, right, top = self._bounds
        x, y = points[:, 0], points[:, 1]
        turned = (
            (x - left, top - y),
            (y - bottom, x - left),
            (right - x, y - bottom),
            (top - y, right - x),
        )[self._rotation]
        return np.stack(turned, axis=1)


def _parts(characters: Characters) -> list[NDArray[Any]]:
    return [getattr(characters, part.name) for part in fields(characters)]


def _join_surrogates(codes: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Join the two halves of UTF-16 in the first; return which characters are second halves."""
    first = (codes[:-1] >> 10 == 0xD800 >> 10) & (codes[1:] >> 10 == 0xDC00 >> 10)
    second_halves = np.zeros(len(codes), np.bool_)
    second_halves[1:] = first
    joined = codes.copy()
    high, low = codes[:-1][first], codes[1:][first]
    joined[:-1][first] = 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
    return joined, second_halves


_WHITE = np.array(
    [0, 9, 11, 12, 32, 0xA0, 0x3000, 0xFEFF, 0x200B, *range(0x2000, 0x200B)], np.uint32
)
