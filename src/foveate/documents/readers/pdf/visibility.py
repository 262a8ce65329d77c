"""What a person sees of a page on paper: annotations and forms are printed, hidden layers are not.

PDFium's text is that of the page's own content. Annotations and the values of forms become part of
it by flattening, and text of layers that are switched off leaves it by deactivating its objects.
"""

import ctypes
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from foveate.documents.readers.pdf.prototypes import INT, POINTER, ULONG, prototype

MAX_OBJECTS = 20_000  # of a page or a drawing in it, looked at; drawings can have millions
_UNPRINTED = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)

get_type = prototype(raw.FPDFPageObj_GetType, INT, POINTER)
_count_objects = prototype(raw.FPDFPage_CountObjects, INT, POINTER)
_get_object = prototype(raw.FPDFPage_GetObject, POINTER, POINTER, INT)
_count_in_form = prototype(raw.FPDFFormObj_CountObjects, INT, POINTER)
_get_in_form = prototype(raw.FPDFFormObj_GetObject, POINTER, POINTER, ULONG)
_set_active = prototype(raw.FPDFPageObj_SetIsActive, INT, POINTER, INT)
_count_marks = prototype(raw.FPDFPageObj_CountMarks, INT, POINTER)
_get_mark = prototype(raw.FPDFPageObj_GetMark, POINTER, POINTER, ULONG)
_get_name = prototype(raw.FPDFPageObjMark_GetName, INT, POINTER, POINTER, ULONG, POINTER)
_get_mode = prototype(raw.FPDFTextObj_GetTextRenderMode, INT, POINTER)

_UNSEEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW

Note = tuple[str, tuple[float, float, float, float]]
"""Text typed onto a page, and the left, bottom, right and top of its box."""

Layer = tuple[int, ...]
"""The marks of the layers that an object belongs to."""


def show_annotations(page: pdfium.PdfPage) -> tuple[bool, list[Note]]:
    """Mark text typed onto a page as to be printed, even if it is shown on the screen alone.

    Returns:
        Whether there are annotations or fields of forms to print. The text that has no appearance,
        which viewers typeset, with its box.
    """
    is_annotated = False
    notes: list[Note] = []
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        is_annotated = is_annotated or kind not in _UNPRINTED
        flags = raw.FPDFAnnot_GetFlags(annotation)
        if kind == raw.FPDF_ANNOT_FREETEXT and not flags & _UNSEEN:
            raw.FPDFAnnot_SetFlags(annotation, flags | raw.FPDF_ANNOT_FLAG_PRINT)
            box, text = raw.FS_RECTF(), _read_contents(annotation)
            has_appearance = raw.FPDFAnnot_GetAP(annotation, 0, None, 0) > 2
            if text and not has_appearance and raw.FPDFAnnot_GetRect(annotation, box):
                notes.append((text, (box.left, box.bottom, box.right, box.top)))
        raw.FPDFPage_CloseAnnot(annotation)
    return is_annotated, notes


def _read_contents(annotation: Any) -> str:
    length = raw.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0)
    buffer = (ctypes.c_ushort * (length // 2 + 1))()
    raw.FPDFAnnot_GetStringValue(annotation, b"Contents", buffer, length)
    return bytes(buffer)[: max(length - 2, 0)].decode("utf-16-le", "replace").strip()


def objects_of(page: pdfium.PdfPage) -> list[int]:
    """Return the addresses of the objects of a page."""
    handle = ctypes.cast(page.raw, POINTER).value
    count = min(_count_objects(handle), MAX_OBJECTS)
    return list(map(_get_object, repeat(handle), range(count)))


def leaves(objects: Iterable[int], layer: Layer = ()) -> Iterator[tuple[int, int, Layer]]:
    """Yield the objects that are drawn, also within drawings, with their types and layers."""
    for item in objects:
        kind, own = get_type(item), layer + _layer_of(item)
        if kind == raw.FPDF_PAGEOBJ_FORM:
            count = min(_count_in_form(item), MAX_OBJECTS)
            yield from leaves(map(_get_in_form, repeat(item), range(count)), own)
        else:
            yield item, kind, own


def hide_unseen(page: pdfium.PdfPage, objects: Iterable[int]) -> None:
    """Deactivate invisible text that stands for no picture, and text of layers switched off.

    PDFium does not say which layers are: each is drawn alone, to see whether anything appears.
    """
    drawn = list(islice(leaves(objects), MAX_OBJECTS))
    hidden = _invisible(drawn)
    for item in hidden:
        _set_active(item, False)
    layers: defaultdict[Layer, list[int]] = defaultdict(list)
    for item, kind, layer in drawn:
        if layer and kind == raw.FPDF_PAGEOBJ_TEXT:
            layers[layer].append(item)
    if not layers:
        return
    for item, _, _ in drawn:
        _set_active(item, False)
    for members in layers.values():
        if any(map(_is_invisible, members)):
            continue  # recognized characters behind a picture
        for item in members:
            _set_active(item, True)
        bitmap = page.render(
            fill_color=(0, 0, 0, 0), maybe_alpha=True, may_draw_forms=False, optimize_mode="print"
        )
        if not bitmap.to_numpy()[..., -1].any():
            hidden.update(members)
        bitmap.close()
        for item in members:
            _set_active(item, False)
    for item, _, _ in drawn:
        _set_active(item, item not in hidden)


def _invisible(drawn: list[tuple[int, int, Layer]]) -> set[int]:
    """Return invisible text among visible text; that of a picture or drawing is what it shows."""
    if any(kind == raw.FPDF_PAGEOBJ_IMAGE for _, kind, _ in drawn):
        return set()
    texts = {item for item, kind, _ in drawn if kind == raw.FPDF_PAGEOBJ_TEXT}
    invisible = set(filter(_is_invisible, texts))
    return invisible if len(invisible) < len(texts) else set()


def _is_invisible(text: int) -> bool:
    return bool(_get_mode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _layer_of(item: int) -> Layer:
    marks = []
    for index in range(_count_marks(item)):
        mark = _get_mark(item, index)
        name, length = ctypes.create_string_buffer(6), ULONG()
        _get_name(mark, ctypes.addressof(name), 6, ctypes.addressof(length))
        if name.raw == "OC\0".encode("utf-16-le"):
            marks.append(mark)
    return tuple(marks)
