"""PDF and DOCX, converted to Markdown."""

import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from foveate.documents.structure import DocumentError

_MAX_BYTES = 256 * 2**20  # bytes of all members together
_MAX_MEMBERS = 10_000
_MAX_RATIO = 200  # compression ratio of a large member
_LARGE = 2**20  # bytes


def to_markdown(data: bytes, format: str) -> str:
    """Convert the content of a PDF or DOCX file.

    Raises:
        DocumentError: The file is damaged, decompresses to an unreasonable size, or has no text.
        ImportError: The `office` extra is not installed.
    """
    try:
        from markitdown import StreamInfo
        from markitdown.converters import DocxConverter, PdfConverter
    except ImportError as error:
        raise ImportError(
            f"Reading {format.upper()} needs markitdown: pip install 'foveate[office]'."
        ) from error
    converters: dict[str, Callable[[], Any]] = {"docx": DocxConverter, "pdf": PdfConverter}
    if format == "docx":
        _check_archive(data)
    try:
        with _quiet():
            # MarkItDown itself would try other converters on failure, and read junk as text.
            info = StreamInfo(extension=f".{format}")
            text: str = converters[format]().convert(BytesIO(data), info).markdown
    except Exception as error:  # the libraries raise many types on damaged files
        raise DocumentError(
            f"cannot be read as {format.upper()} ({type(error).__name__}): "
            "check that it is one, or open it and save it again."
        ) from error
    if not text.strip():
        raise DocumentError(
            "has no text: if its pages are pictures, as in a scan, run character recognition "
            "(OCR) on it first."
        )
    return text


def _check_archive(data: bytes) -> None:
    """Reject ZIP bombs by the sizes that their members really decompress to."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise DocumentError(f"has {len(members)} parts, too many for DOCX: save it again.")
            total = 0
            for member in members:
                size = _size(archive, member, _MAX_BYTES - total)
                total += size
                if total > _MAX_BYTES or size > max(_LARGE, _MAX_RATIO * member.compress_size):
                    raise DocumentError(
                        f"decompresses to far more than a DOCX holds ({member.filename!r:.60}): "
                        "it is rejected as a ZIP bomb; split it or save it again."
                    )
    except DocumentError:
        raise
    except Exception as error:  # zipfile and zlib raise many types on damaged files
        raise DocumentError(f"is not a whole DOCX file ({error}): save it again.") from error


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> int:
    """Return the size that a member decompresses to, or one just above the limit."""
    size = 0
    with archive.open(member) as stream:
        while size <= limit and (chunk := stream.read(2**20)):
            size += len(chunk)
    return size


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the libraries' warnings and log messages."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
