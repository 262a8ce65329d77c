"""Scanned pages: pictures of text, read with the Tesseract program."""

import csv
import subprocess
from collections.abc import Sequence
from itertools import groupby
from shutil import which
from statistics import median

import numpy as np
import pypdfium2 as pdfium

from foveate.documents.readers.pdf.lines import Frame, Line
from foveate.documents.structure import DocumentError

_RESOLUTION = 300  # dots per inch, what Tesseract reads best
_PATIENCE = 180  # seconds for one page
_MOST_PIXELS = 50_000_000
_LARGE = 1.4  # times the usual height of a line: a heading
_SIZE = 0.75  # size of a font, as a share of the height of its lines
_MODELS = {"zh": "chi_sim", "zh-Hant": "chi_tra", "sr": "srp"}


def check_tesseract(languages: str) -> str:
    """Return the names of Tesseract's models for languages.

    Args:
        languages: ISO 639 codes, joined by "+".

    Raises:
        DocumentError: Tesseract or one of the models is not installed.
    """
    from langcodes import Language

    if which("tesseract") is None:
        raise DocumentError(
            "has pages to read by character recognition, which needs the program tesseract: "
            "install it (apt install tesseract-ocr)."
        )
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


def read_scan(document: pdfium.PdfDocument, index: int, models: str) -> list[Line]:
    """Read the picture of a page.

    Args:
        document: The document.
        index: Index of the page, from 0.
        models: Names of Tesseract's models.

    Raises:
        DocumentError: Tesseract fails.
    """
    page = document[index]
    try:
        width, height = page.get_size()
        scale = min(_RESOLUTION / 72, (_MOST_PIXELS / (width * height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True)
        try:
            pixels = np.ascontiguousarray(bitmap.to_numpy().squeeze())
            picture = b"P5\n%d %d\n255\n" % pixels.shape[::-1] + pixels.tobytes()
        finally:
            bitmap.close()
    finally:
        page.close()
    resolution = str(round(72 * scale))
    table = _run(["stdin", "stdout", "-l", models, "--dpi", resolution, "tsv"], picture)
    return parse_table(table.decode("utf-8", "replace"), index + 1, scale)


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
    size = round((tall if tall > _LARGE * usual else usual) * _SIZE * 2) / 2
    count = len(rows)
    places = np.column_stack([boxes, np.full((count, 2), (bottom, size), np.float32)])
    return Line(
        page, tuple(row["text"].strip() for row in rows), (False,) * count, places, (),
        left, top, right, bottom, bottom, size, 0.0, 0.0, 0.0, 0.0, 0, frame,
    )  # fmt: skip
