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

from foveate.documents.formats import (
    FORMATS,
    Format,
    check_format,
    format_from_name,
    sniff,
    sniff_bytes,
)
from foveate.documents.structure import DocumentError

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
    """A file's decompressed content: text, or bytes if its format is binary."""

    name: str
    content: str | bytes
    format: Format


def load(path: str | PathLike[str], format: str | None, encoding: str | None) -> File:
    """Read and decompress a file, and decode it unless its format is binary.

    Args:
        path: The file.
        format: Name of its format; None to recognize it by name and content.
        encoding: Its encoding; None to detect it.
    """
    name, file = fspath(path), Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{name} is a directory: give one of the files in it.")
    if not file.exists():
        raise FileNotFoundError(f"{name} does not exist: check the path.")
    named = check_format(format).name if format else format_from_name(file.name)
    is_compressed = file.suffix.lower() == ".gz"
    return _read(name, file.read_bytes(), named, not format, encoding, is_compressed)


def load_bytes(data: bytes, name: str, format: str | None, encoding: str | None) -> File:
    """Decompress bytes, and decode them unless their format is binary.

    Args:
        data: The bytes.
        name: Their name in messages.
        format: Name of their format; None to recognize it by the content.
        encoding: Their encoding; None to detect it.
    """
    return _read(name, data, check_format(format).name if format else "text", not format, encoding)


def _read(
    name: str,
    data: bytes,
    format: str,
    guess: bool,
    encoding: str | None,
    is_compressed: bool = False,
) -> File:
    if is_compressed or data.startswith(_GZIP):
        data = _decompress(data, name)
    try:
        if guess:
            format = sniff_bytes(format, data)
        if format != "xml" and FORMATS[format].is_binary:
            return File(name, data, FORMATS[format])
        declares_encoding = format == "xml" or FORMATS[format].declares_encoding
        text = decode(data, encoding, markup=declares_encoding)
        return File(name, text, FORMATS[sniff(format, text) if guess else format])
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


def decode(data: bytes, encoding: str | None = None, *, markup: bool = False) -> str:
    """Decode bytes by their byte order mark, the encoding that markup declares, or as UTF-8."""
    if encoding is None:
        marks = (name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark))
        encoding = next(marks, "utf-8")
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
