"""From a path or bytes to text and its format."""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path

from foveate.documents.formats import OFFICE, check_format, format_from_name, sniff, sniff_bytes
from foveate.documents.structure import DocumentError

MARKUP = ("html", "xml", "jats", "tei")  # formats that may declare their encoding
MAX_BYTES = 256 * 2**20  # bytes after decompression

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED_ENCODING = re.compile(rb"(?:encoding|charset)\s*=\s*[\"']?\s*([A-Za-z][\w.:-]*)")
_WIDE = ("utf-16", "utf-32")
_GZIP = b"\x1f\x8b"
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class File:
    """A file's content as text."""

    name: str
    text: str
    format: str


def load(path: str | PathLike[str], format: str | None) -> File:
    """Read, decompress, and decode or convert a file.

    Args:
        path: The file.
        format: Its format; None to recognize it by name and content.
    """
    name, file = fspath(path), Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{name} is a directory: give one of the files in it.")
    if not file.exists():
        raise FileNotFoundError(f"{name} does not exist: check the path.")
    named = check_format(format) if format else format_from_name(file.name)
    return _read(name, file.read_bytes(), named, not format, file.suffix.lower() == ".gz")


def load_bytes(data: bytes, name: str, format: str | None) -> File:
    """Decompress, and decode or convert bytes.

    Args:
        data: The bytes.
        name: Their name in messages.
        format: Their format; None to recognize it by the content.
    """
    return _read(name, data, check_format(format) if format else "text", not format)


def _read(name: str, data: bytes, format: str, guess: bool, compressed: bool = False) -> File:
    if compressed or data.startswith(_GZIP):
        data = _decompress(data, name)
    try:
        if guess:
            format = sniff_bytes(format, data)
        if format in OFFICE:
            from foveate.documents.readers.office import to_markdown

            return File(name, to_markdown(data, format), "markdown")
        text = decode(data, markup=format in MARKUP)
        return File(name, text, sniff(format, text) if guess else format)
    except DocumentError as error:
        raise DocumentError(f"{name} {error}") from error


def _decompress(data: bytes, name: str) -> bytes:
    with gzip_errors(name), gzip.open(BytesIO(data)) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DocumentError(
            f"{name} decompresses to more than {MAX_BYTES >> 20} MiB: split it into smaller files."
        )
    return content


@contextmanager
def gzip_errors(name: object) -> Iterator[None]:
    """Turn errors about damaged gzip data into a `DocumentError` that names the file."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DocumentError(
            f"{name} is not a whole gzip file ({error}): compress it again."
        ) from error


def decode(data: bytes, *, markup: bool = False) -> str:
    """Decode bytes by their byte order mark, the encoding that markup declares, or as UTF-8."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    if markup and encoding == "utf-8" and (declared := _DECLARED_ENCODING.search(data[:1024])):
        encoding = declared[1].decode()
    if encoding not in _WIDE and b"\0" in data:
        raise DocumentError(
            f"is not text (byte 0 at offset {data.index(0)}): convert it, or name its format."
        )
    try:
        return data.decode(encoding)
    except LookupError:
        raise DocumentError(
            f"declares the unknown encoding {encoding!r}: convert it to UTF-8."
        ) from None
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"is not valid {encoding.upper()} (byte {error.start}): convert it to UTF-8."
        ) from error


def check_text(text: str) -> None:
    """Reject blank text and characters that are not text."""
    if not text.strip():
        raise DocumentError("is empty: give it some text.")
    check_characters(text)


def check_characters(text: str) -> None:
    """Reject null characters and lone surrogates, which tokenizers do not take."""
    if bad := _NOT_TEXT.search(text):
        raise DocumentError(
            f"has the character U+{ord(bad[0]):04X} at {bad.start()}, which is not text: remove it."
        )
