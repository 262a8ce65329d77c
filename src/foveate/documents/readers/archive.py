"""ZIP and TAR archives, whose files are read from memory; nothing is written to disk."""

import tarfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import PurePosixPath

from foveate.documents.archives import archive_errors, is_suspicious
from foveate.documents.compression import MAX_BYTES
from foveate.documents.formats import Member
from foveate.documents.structure import DocumentError


def split(data: bytes) -> Iterator[Member]:
    """Yield the files of an archive, without hidden ones, in the order of the archive.

    Links and devices are left out.
    """
    files = _zip_files(data) if zipfile.is_zipfile(BytesIO(data)) else _tar_files(data)
    for name, content in files:
        if path := _safe_path(name):
            yield Member(f"/{path}", content)


def _zip_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    with (
        archive_errors("ZIP archive", "pack it again"),
        zipfile.ZipFile(BytesIO(data)) as archive,
    ):
        for info in archive.infolist():
            if info.is_dir() or not _safe_path(info.filename):
                continue
            if info.flag_bits & 1:
                raise DocumentError("is encrypted: unpack it first.")
            with archive.open(info) as stream:
                content = stream.read(MAX_BYTES + 1)
            if is_suspicious(len(content), info):
                raise DocumentError(
                    f"unpacks to far more than its size ({info.filename!r:.60}), and is "
                    "rejected as a ZIP bomb: unpack it first."
                )
            _check_size(info.filename, len(content))
            yield info.filename, content


def _tar_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    with (
        archive_errors("TAR archive", "pack it again"),
        tarfile.open(fileobj=BytesIO(data), mode="r:") as archive,
    ):
        for info in archive:
            if not info.isreg() or not _safe_path(info.name):
                continue
            _check_size(info.name, info.size)
            if stream := archive.extractfile(info):
                yield info.name, stream.read()


def _safe_path(name: str) -> str:
    """Return a name that cannot lead outside the archive; empty for a hidden file."""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    parts = [part for part in PurePosixPath(printable).parts if part not in ("/", "..")]
    is_hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
    return "" if is_hidden else "/".join(parts)


def _check_size(name: str, size: int) -> None:
    if size > MAX_BYTES:
        raise DocumentError(
            f"holds a file of more than {MAX_BYTES >> 20} MiB ({name!r:.60}): unpack it first."
        )
