"""ZIP archives, alone or as the container of DOCX, ODT and EPUB, without ZIP bombs."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from foveate.documents.structure import DocumentError

_MAX_BYTES = 256 * 2**20  # bytes of all members together
_MAX_MEMBERS = 10_000
_MAX_RATIO = 200  # compression ratio of a large member
_LARGE = 2**20  # bytes


def check_archive(archive: zipfile.ZipFile, kind: str) -> None:
    """Reject ZIP bombs by the sizes that the archive declares.

    Reading a member yields no more than that, so an archive can hide nothing by declaring less.

    Args:
        archive: The archive.
        kind: What it should be, for messages, such as "DOCX".

    Raises:
        DocumentError: It would decompress to an unreasonable size.
    """
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise DocumentError(f"has {len(members)} parts, too many for {kind}: save it again.")
    total = 0
    for member in members:
        total += member.file_size
        if total > _MAX_BYTES or is_suspicious(member.file_size, member):
            raise DocumentError(
                f"decompresses to far more than {kind} holds ({member.filename!r:.60}): "
                "it is rejected as a ZIP bomb; split it or save it again."
            )


def unpacked_size(data: bytes) -> int:
    """Return the size of all members of a ZIP archive; 0 if it is not one or is damaged."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except Exception:  # zipfile raises many types; the reader of the format says what is wrong
        return 0


def is_suspicious(size: int, member: zipfile.ZipInfo) -> bool:
    """Return whether a member that decompresses to this size is compressed like a ZIP bomb."""
    return size > max(_LARGE, _MAX_RATIO * member.compress_size)


@contextmanager
def archive_errors(kind: str, advice: str) -> Iterator[None]:
    """Turn errors about a damaged archive into a `DocumentError`.

    Args:
        kind: What it should be, in the message, such as "ZIP archive".
        advice: What to do about it.
    """
    try:
        yield
    except DocumentError:
        raise
    except Exception as error:  # zipfile, zlib and tarfile raise many types on damaged files
        name = type(error).__name__
        raise DocumentError(f"is not a whole {kind} ({name}): {advice}.") from error
