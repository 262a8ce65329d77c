"""The program that reads files for the service, in a process of its own.

Files that strangers send may be made to break what reads them. This process holds nothing but the
one file, has little memory, may write no file, and is killed when it takes too long. Messages come
in and go out on the socket that is its standard input, see `foveate.service.frames`.
"""

import io
import json
import traceback
import warnings
import zlib
from dataclasses import asdict
from importlib import import_module
from pathlib import PurePath
from typing import Any, BinaryIO

import numpy as np
import pypdfium2 as pdfium

from foveate import processes
from foveate.documents import FORMATS, Document, DocumentError
from foveate.documents.decoding import File, load_bytes
from foveate.documents.formats import check_text_format
from foveate.documents.language import detect_language
from foveate.documents.members import expand
from foveate.documents.readers.pdf.extraction import opened
from foveate.documents.readers.pdf.text_layer import read_text_layer
from foveate.service import frames

MAX_PIXELS = 16_000_000
"""Most pixels of a page's picture; larger ones are drawn at a smaller scale."""

MAX_WORDS = 20_000
"""Most words of a page to select, as a browser must place each; the rest are left out."""

TOO_LARGE, UNREADABLE = 413, 422


class TooLargeError(DocumentError):
    """A document goes beyond a limit."""


def main() -> None:
    """Answer messages until there are no more."""
    warm_up()  # which unpacks a model into a temporary file, and so comes before the limits
    processes.answer(lambda channel: serve(channel.makefile("rb"), channel.makefile("wb")))


def warm_up() -> None:
    """Load what reading needs, so that the next file does not wait for it."""
    for name in ("pdf", "markdown", "html", "plain", "office.docx"):
        import_module(f"foveate.documents.readers.{name}")
    detect_language("Kein Englisch, das ohne das Modell aller Sprachen erkannt wird.")


def serve(requests: BinaryIO, output: BinaryIO) -> None:
    """Answer each message: documents for files, and what is on pages of the file that is open."""
    content, result = b"", b""
    answer: dict[str, Any]
    while message := frames.receive(requests):
        header, data = message
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                if header["kind"] == "open":
                    content, answer, result = data, {}, b""
                elif header["kind"] == "page":
                    answer, result = {}, draw_page(content, header["page"], header["scale"])
                elif header["kind"] == "text layer":
                    answer, result = {}, text_layer(content, header)
                else:
                    answer, result = read(header, data)
            except Exception as error:
                answer, result = describe(error, header.get("name") or "The text"), b""
        answer["notes"] = [str(one.message) for one in caught if one.category is UserWarning]
        frames.send(output, answer, result)


def describe(error: Exception, name: str) -> dict[str, Any]:
    """Describe what is wrong with a file, and give the status with which to refuse it."""
    if isinstance(error, TooLargeError):
        return {"error": str(error), "status": TOO_LARGE}
    if isinstance(error, DocumentError | ImportError):
        return {"error": str(error), "status": UNREADABLE}
    if isinstance(error, MemoryError):
        reason = "reading it takes more memory than this service allows: send it in parts"
        return {"error": f"{name}: {reason}.", "status": TOO_LARGE}
    reason = f"its reader failed ({type(error).__name__}): convert it to another format"
    return {
        "error": f"{name} cannot be read, {reason}.",
        "status": UNREADABLE,
        # A file that breaks a reader shows a defect of ours: it goes into the service's log.
        "traceback": "".join(traceback.format_exception(error)),
    }


def read(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Read a file or a text.

    Args:
        header: "name" of a file, "format", "title" and "language", each None unless the sender
            gave it; and the limits "pages" and "characters".
        data: The file, or the text in UTF-8.

    Returns:
        The document's "format", and `Document.to_dict` as JSON.
    """
    name, format = header["name"], header["format"]
    if name is None:
        file = File("The text", data.decode(), check_text_format(format or "text"))
        source = None
    else:
        file = only_member(load_bytes(data, name, format, None, PurePath(name).name))
        source = file.name
    check_size(file, header["pages"], header["characters"])
    document = Document.from_content(
        file, title=header["title"], source=source, language=header["language"]
    )
    check_length(file.name, document.text, header["characters"])
    packed = json.dumps(document.to_dict(), ensure_ascii=False)
    return {"format": file.format.name}, packed.encode()


def only_member(file: File) -> File:
    """Return the file or, if it is a collection, the one document in it."""
    members = expand(file, None)
    first = next(members)
    if next(members, None) is not None:
        raise DocumentError(
            f"{file.name} holds several documents: send them one by one, or make a library of "
            "them with `foveate index`."
        )
    return first


def check_size(file: File, max_pages: int, max_characters: int) -> None:
    """Refuse files that are too long, before they are read."""
    if isinstance(file.content, str):
        check_length(file.name, file.content, 8 * max_characters)  # markup takes room too
    elif file.format is FORMATS["pdf"]:
        try:
            with opened(file.content) as document:
                count = len(document)
        except DocumentError as error:
            raise DocumentError(f"{file.name} {error}") from error
        if count > max_pages:
            raise TooLargeError(
                f"{file.name} has {count:,} pages, and this service takes {max_pages:,}: "
                "send it in parts."
            )


def check_length(name: str, text: str, max_characters: int) -> None:
    """Refuse texts that are too long."""
    if len(text) > max_characters:
        raise TooLargeError(
            f"{name} has {len(text):,} characters, and this service takes {max_characters:,}: "
            "send it in parts."
        )


def draw_page(data: bytes, number: int, scale: float) -> bytes:
    """Draw a page of a PDF.

    Args:
        data: The PDF.
        number: The page, from 1.
        scale: Pixels per point.

    Returns:
        A PNG file.
    """
    with opened(data) as document:
        check_number(document, number)
        page = document[number - 1]
        width, height = page.get_size()
        largest = (MAX_PIXELS / max(width * height, 1)) ** 0.5
        bitmap = page.render(scale=min(scale, largest), rev_byteorder=True)
        try:
            return png(bitmap)
        finally:
            bitmap.close()


def text_layer(data: bytes, header: dict[str, Any]) -> bytes:
    """Read the words of a page of a PDF and their places.

    Args:
        data: The PDF.
        header: "page", its number from 1; "text", what has been read of it; and "language", the
            document's.

    Returns:
        A `TextLayer` as JSON.
    """
    number, text, language = header["page"], header["text"], header["language"]
    with opened(data) as document:
        check_number(document, number)
        layer = read_text_layer(document, number - 1, text, language, MAX_WORDS)
    return json.dumps(asdict(layer), ensure_ascii=False).encode(errors="replace")


def check_number(document: pdfium.PdfDocument, number: int) -> None:
    """Refuse the number of a page that is not there."""
    if number > len(document):
        raise DocumentError(f"There is no page {number}: the last one is {len(document)}.")


def png(bitmap: pdfium.PdfBitmap) -> bytes:
    """Return a picture as a PNG file."""
    pixels = np.ascontiguousarray(bitmap.to_numpy()[:, :, :3])
    height, width, _ = pixels.shape
    # Each row begins with the number of its filter: 1 stores differences from the left, which
    # deflate packs well on white paper.
    rows = np.ones((height, 1 + 3 * width), np.uint8)
    rows[:, 1:4] = pixels[:, 0]
    rows[:, 4:] = (pixels[:, 1:] - pixels[:, :-1]).reshape(height, -1)
    file = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    file.seek(0, io.SEEK_END)
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    for kind, content in (
        (b"IHDR", size + b"\x08\x02\x00\x00\x00"),  # 8 bits of red, green and blue
        (b"IDAT", zlib.compress(rows.tobytes(), 3)),
        (b"IEND", b""),
    ):
        check = zlib.crc32(kind + content).to_bytes(4, "big")
        file.write(len(content).to_bytes(4, "big") + kind + content + check)
    return file.getvalue()
