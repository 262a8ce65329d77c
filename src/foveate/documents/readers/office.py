"""PDF and DOCX, by way of Markdown."""

import logging
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from foveate.documents.errors import DocumentError

_LARGEST = 256 * 2**20  # bytes of all members together
_MOST_MEMBERS = 10_000
_HIGHEST_RATIO = 200  # of a member that is large
_LARGE = 2**20


def to_markdown(data: bytes, format: str) -> str:
    """Convert the content of a PDF or DOCX file.

    Raises:
        DocumentError: It is damaged, would decompress to an unreasonable size, or has no text.
        ImportError: The ``office`` extra is not installed.
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
            # MarkItDown itself would try one converter after the other, and read junk as text.
            text: str = (
                converters[format]()
                .convert(BytesIO(data), StreamInfo(extension=f".{format}"))
                .markdown
            )
    except Exception as error:  # whatever the libraries below raise on a damaged file
        raise DocumentError(
            f"cannot be read as {format.upper()} ({type(error).__name__}): "
            "open and save it anew, or check that it is one."
        ) from error
    if not text.strip():
        raise DocumentError(
            "has no text: if its pages are pictures, as in a scan, run character recognition "
            "(OCR) on it first."
        )
    return text


def _check_archive(data: bytes) -> None:
    """Refuse a ZIP bomb before anything unpacks it; what it declares is not believed."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise DocumentError(f"has {len(members)} parts, too many for a DOCX: resave it.")
            total = 0
            for member in members:
                size = _size(archive, member, _LARGEST - total)
                total += size
                if total > _LARGEST or size > max(_LARGE, _HIGHEST_RATIO * member.compress_size):
                    raise DocumentError(
                        f"decompresses to far more than a DOCX holds ({member.filename!r:.60}): "
                        "it is refused as a ZIP bomb; split or resave it."
                    )
    except DocumentError:
        raise
    except Exception as error:  # whatever zipfile and zlib raise on a damaged file
        raise DocumentError(f"is not a whole DOCX file ({error}): save it anew.") from error


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> int:
    """What a member really decompresses to, up to just above the limit."""
    size = 0
    with archive.open(member) as stream:
        while size <= limit and (chunk := stream.read(2**20)):
            size += len(chunk)
    return size


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' warnings and log messages to themselves."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
