"""ZIP archives, alone or as the container of DOCX, ODT and EPUB, without ZIP bombs."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from foveate.documents.compression import MAX_BYTES
from foveate.documents.structure import DocumentError

_MAX_MEMBERS = 10_000


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
    if sum(member.file_size for member in members) > MAX_BYTES or len(members) > _MAX_MEMBERS:
        raise DocumentError(
            f"has {len(members)} parts, together larger than {kind} is: it is rejected as a ZIP "
            "bomb; split it or save it again."
        )


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
