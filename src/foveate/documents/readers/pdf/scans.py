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

from foveate.documents.readers.pdf.lines import (
    Frame,
    Line,
    find_frames,
    find_segments,
    make_lines,
)
from foveate.documents.readers.pdf.words import Words
from foveate.documents.structure import DocumentError

_RESOLUTION = 300  # dots per inch, what Tesseract reads best
_PATIENCE = 180  # seconds for one page
_MOST_PIXELS = 50_000_000
_LARGE = 1.4  # times the usual height of a line: a heading
_SIZE = 0.75  # size of a font, as a share of the height of its lines
_MODELS = {"zh": "chi_sim", "zh-Hant": "chi_tra", "sr": "srp"}


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
        return partial(_read_with_tesseract, _tesseract_models(languages))
    if find_spec("rapidocr"):
        from rapidocr import RapidOCR

        return partial(_read_with_rapidocr, RapidOCR(params={"Global.log_level": "critical"}))
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


def _read_with_tesseract(models: str, document: pdfium.PdfDocument, index: int) -> list[Line]:
    pixels, scale = _render(document, index)
    picture = b"P5\n%d %d\n255\n" % pixels.shape[::-1] + pixels.tobytes()
    resolution = str(round(72 * scale))
    table = _run(["stdin", "stdout", "-l", models, "--dpi", resolution, "tsv"], picture)
    return parse_table(table.decode("utf-8", "replace"), index + 1, scale)


def _read_with_rapidocr(engine: Any, document: pdfium.PdfDocument, index: int) -> list[Line]:
    pixels, scale = _render(document, index)
    found = engine(pixels, return_word_box=True).word_results or ()
    corners = [np.array([quad for _, _, quad in line], np.float32) / scale for line in found]
    boxes = [np.concatenate([one.min(axis=1), one.max(axis=1)], axis=1) for one in corners]
    if not boxes:
        return []
    heights = [float(np.median(box[:, 3] - box[:, 1])) for box in boxes]
    usual = median(heights)
    sizes = [_font_size(height, usual) for height in heights]
    texts = [text for line in found for text, _, _ in line]
    counts = [len(line) for line in found]
    flags = np.zeros(len(texts), np.bool_)
    height, width = pixels.shape
    words = Words(
        texts,
        np.array(list(map(len, texts)), np.float32),
        np.concatenate(boxes),
        np.repeat(np.array([box[:, 3].max() for box in boxes], np.float32), counts),
        np.repeat(np.array(sizes, np.float32), counts),
        flags,
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


def parse_table(table: str, page: int, scale: float) -> list[Line]:
    """Make lines from Tesseract's table of words.

    Args:
        table: Tab-separated values, as Tesseract writes them.
        page: Number of the page.
        scale: Pixels per point.
    """
    rows = [
        row
        for row in csv.DictReader(table.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
        if row["level"] == "5" and (row["text"] or "").strip()
    ]
    heights = [int(row["height"]) / scale for row in rows if len(row["text"]) > 3]
    usual = median(heights) if heights else 12.0
    lines: list[Line] = []
    for _, block in groupby(rows, key=lambda row: row["block_num"]):
        frame = Frame(0.0, 0.0)
        made = [
            _make_line(list(members), page, scale, usual, frame)
            for _, members in groupby(block, key=lambda row: (row["par_num"], row["line_num"]))
        ]
        frame.left = min(line.left for line in made)
        frame.right = max(line.right for line in made)
        lines += made
    return lines


def _make_line(
    rows: Sequence[dict[str, str]], page: int, scale: float, usual: float, frame: Frame
) -> Line:
    corners = np.array(
        [[int(row[name]) for name in ("left", "top", "width", "height")] for row in rows],
        np.float32,
    )
    edges = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:]], axis=1)
    boxes = (edges / scale).astype(np.float32)
    left, top = boxes[:, :2].min(axis=0).tolist()
    right, bottom = boxes[:, 2:].max(axis=0).tolist()
    tall = float(np.median(boxes[:, 3] - boxes[:, 1]))
    size = _font_size(tall, usual)
    count = len(rows)
    places = np.column_stack([boxes, np.full((count, 2), (bottom, size), np.float32)])
    return Line(
        page, tuple(row["text"].strip() for row in rows), (False,) * count, places, (),
        left, top, right, bottom, bottom, size, 0.0, 0.0, 0.0, 0.0, 0, frame,
    )  # fmt: skip
