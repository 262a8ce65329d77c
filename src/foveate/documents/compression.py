"""Compressed files: gzip, bzip2, xz and Zstandard, recognized by their content."""

import bz2
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

from foveate.documents.structure import DocumentError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BYTES = 256 * 2**20  # bytes after decompression


class _Compression(NamedTuple):
    """A way to compress a single file."""

    name: str  # in messages
    suffixes: tuple[str, ...]  # those that also stand for TAR are replaced
    signature: re.Pattern[bytes]  # with which compressed files begin
    open: Callable[[IO[bytes]], Any]  # a stream that decompresses another


_COMPRESSIONS = (
    _Compression("gzip", (".gz", ".tgz"), re.compile(rb"\x1f\x8b"), gzip.open),
    _Compression("bzip2", (".bz2", ".tbz2"), re.compile(rb"BZh\d(?:1AY&SY|\x17rE8P)"), bz2.open),
    _Compression("xz", (".xz", ".txz"), re.compile(rb"\xfd7zXZ\0"), lzma.open),
    _Compression("zstd", (".zst", ".tzst"), re.compile(rb"\x28\xb5\x2f\xfd"), zstd.open),
)
_DAMAGE = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstd.ZstdError)


def decompress(data: bytes, name: str, file_name: str) -> bytes:
    """Return the content of a compressed file, and any other data unchanged.

    Args:
        data: The file's bytes.
        name: Its name in messages.
        file_name: The name by whose suffix it should be compressed; empty if that is not known.

    Raises:
        DocumentError: The data is damaged, or decompresses to more than 256 MiB.
    """
    compression = _find(data, PurePath(file_name).suffix.lower())
    if compression is None:
        return data
    with _damage(name, compression), compression.open(BytesIO(data)) as stream:
        content: bytes = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DocumentError(
            f"{name} decompresses to more than {MAX_BYTES >> 20} MiB: split it into smaller files."
        )
    return content


def strip_suffix(name: str) -> str:
    """Return a file's name without the suffix of compression; "a.tgz" becomes "a.tar"."""
    path = PurePath(name)
    suffix = path.suffix.lower()
    for compression in _COMPRESSIONS:
        if suffix in compression.suffixes:
            return path.stem + (".tar" if suffix.startswith(".t") else "")
    return path.name


@contextmanager
def decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and decompress it if its suffix says that it is compressed.

    Raises:
        DocumentError: While it is open: the data is damaged.
        OSError: The file does not exist.
    """
    compression = _find(b"", path.suffix.lower())
    with path.open("rb") as file:
        if compression is None:
            yield file
            return
        with _damage(path, compression), compression.open(file) as stream:
            yield stream


@contextmanager
def _damage(name: object, compression: _Compression) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise DocumentError(
            f"{name} is not a whole {compression.name} file ({error}): compress it again."
        ) from error


def _find(data: bytes, suffix: str) -> _Compression | None:
    by_suffix = (known for known in _COMPRESSIONS if suffix in known.suffixes)
    by_content = (known for known in _COMPRESSIONS if known.signature.match(data))
    return next(chain(by_suffix, by_content), None)
