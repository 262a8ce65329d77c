"""Scanned pages: pictures of text, read with the Tesseract program or else with RapidOCR."""

import csv
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from shutil import which
from statistics import median
from typing import Any

import numpy as np
import pypdfium2 as pdfium
from numpy.typing import NDArray

from foveate.documents.readers.pdf.lines import Line, find_frames, find_segments, make_lines
from foveate.documents.readers.pdf.words import Words
from foveate.documents.structure import DocumentError

_RESOLUTION = 300  # dots per inch, what Tesseract reads best
_PATIENCE = 180  # seconds for one page
_MOST_PIXELS = 50_000_000
_LARGE = 1.4  # times the usual height of a line: a heading
_SIZE = 0.75  # size of a font, as a share of the height of its lines
_MODELS = {"zh": "chi_sim", "zh-Hant": "chi_tra", "sr": "srp"}


Read = list[list[tuple[str, list[float]]]]
"""Lines of words, each with its left, top, right and bottom in pixels."""

Recognizer = Callable[[pdfium.PdfDocument, int], list[Line]]
"""Reads the picture of the page of a document with that index, from 0."""


def find_recognizer(languages: str) -> Recognizer:
    """Return what reads pictures: Tesseract or, where that is not installed, RapidOCR.

    Args:
        languages: ISO 639 codes, joined by "+", for Tesseract's models.

    Raises:
        DocumentError: Neither is installed, or Tesseract lacks a model.
    """
    if which("tesseract"):
        return partial(_read_page, partial(_read_with_tesseract, _tesseract_models(languages)))
    if find_spec("rapidocr"):
        from rapidocr import RapidOCR

        engine = RapidOCR(params={"Global.log_level": "critical"})
        return partial(_read_page, partial(_read_with_rapidocr, engine))
    raise DocumentError(
        "has pages to read by character recognition, which needs the program tesseract (apt "
        "install tesseract-ocr) or RapidOCR: install one of them (pip install 'foveate[ocr]')."
    )


def _tesseract_models(languages: str) -> str:
    from langcodes import Language

    listed = _run(["--list-langs"], b"").decode("utf-8", "replace").split()
    models: list[str] = []
    for code in languages.split("+"):
        model = _MODELS.get(code, code if len(code) > 2 else Language.get(code).to_alpha3())
        if model not in listed:
            raise DocumentError(
                f"cannot be read by character recognition: tesseract has no model of {code!r}; "
                f"install it (apt install tesseract-ocr-{model.replace('_', '-')})."
            )
        models.append(model)
    return "+".join(models)


def _render(document: pdfium.PdfDocument, index: int) -> tuple[NDArray[np.uint8], float]:
    """Return the `(height, width)` picture of a page in grey, and its pixels per point."""
    page = document[index]
    try:
        width, height = page.get_size()
        scale = min(_RESOLUTION / 72, (_MOST_PIXELS / (width * height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True)
        try:
            return np.ascontiguousarray(bitmap.to_numpy().squeeze()), scale
        finally:
            bitmap.close()
    finally:
        page.close()


def _read_with_tesseract(models: str, pixels: NDArray[np.uint8], scale: float) -> Read:
    picture = b"P5\n%d %d\n255\n" % pixels.shape[::-1] + pixels.tobytes()
    resolution = str(round(72 * scale))
    table = _run(["stdin", "stdout", "-l", models, "--dpi", resolution, "tsv"], picture)
    return parse_table(table.decode("utf-8", "replace"))


def _read_with_rapidocr(engine: Any, pixels: NDArray[np.uint8], scale: float) -> Read:
    found = engine(pixels, return_word_box=True).word_results or ()
    return [
        [(text, [*np.min(corners, axis=0), *np.max(corners, axis=0)]) for text, _, corners in line]
        for line in found
    ]


def _read_page(
    recognize: Callable[[NDArray[np.uint8], float], Read], document: pdfium.PdfDocument, index: int
) -> list[Line]:
    """Read the picture of a page, and put its words together like those of other pages."""
    pixels, scale = _render(document, index)
    read = recognize(pixels, scale)
    if not read:
        return []
    boxes = [np.array([box for _, box in line], np.float32) / scale for line in read]
    heights = [float(np.median(line[:, 3] - line[:, 1])) for line in boxes]
    usual = median(heights)
    sizes = [_font_size(height, usual) for height in heights]
    texts = [text for line in read for text, _ in line]
    counts = [len(line) for line in read]
    height, width = pixels.shape
    words = Words(
        texts,
        np.array(list(map(len, texts)), np.float32),
        np.concatenate(boxes),
        np.repeat(np.array([line[:, 3].max() for line in boxes], np.float32), counts),
        np.repeat(np.array(sizes, np.float32), counts),
        np.zeros(len(texts), np.bool_),
        np.zeros((len(texts), 4), np.float32),
        width / scale, height / scale, 0, False, False,
    )  # fmt: skip
    return [
        line
        for frame, members in find_frames(find_segments(words), words)
        for line in make_lines(index + 1, words, members, frame)
    ]


def _font_size(height: float, usual: float) -> float:
    """Return the size of a font, in half points, by the height of its line and of most lines."""
    return round((height if height > _LARGE * usual else usual) * _SIZE * 2) / 2


def _run(arguments: Sequence[str], data: bytes) -> bytes:
    try:
        done = subprocess.run(
            ["tesseract", *arguments],
            input=data,
            capture_output=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", b"") or b"").decode("utf-8", "replace").strip()
        last = reason.splitlines()[-1] if reason else type(error).__name__
        raise DocumentError(f"cannot be read by character recognition: {last}.") from error
    return done.stdout


def parse_table(table: str) -> Read:
    """Return the lines in Tesseract's table of words, which has tab-separated values."""
    rows = [
        row
        for row in csv.DictReader(table.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
        if row["level"] == "5" and (row["text"] or "").strip()
    ]
    lines: Read = []
    for _, line in groupby(rows, lambda row: (row["block_num"], row["par_num"], row["line_num"])):
        lines.append([])
        for row in line:
            left, top, width, height = (
                float(row[name]) for name in ("left", "top", "width", "height")
            )
            lines[-1].append((row["text"].strip(), [left, top, left + width, top + height]))
    return lines
