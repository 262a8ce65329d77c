"""ZIP archives, alone or as the container of DOCX, ODT and EPUB, without ZIP bombs."""

import zipfile
from io import BytesIO

from foveate.documents.structure import DocumentError

_MAX_BYTES = 256 * 2**20  # bytes of all members together
_MAX_MEMBERS = 10_000
_MAX_RATIO = 200  # compression ratio of a large member
_LARGE = 2**20  # bytes


def check_archive(data: bytes, kind: str) -> None:
    """Reject ZIP bombs by the sizes that their members really decompress to.

    Args:
        data: The archive.
        kind: What it should be, in messages, such as "DOCX".

    Raises:
        DocumentError: It is damaged, or decompresses to an unreasonable size.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise DocumentError(
                    f"has {len(members)} parts, too many for {kind}: save it again."
                )
            total = 0
            for member in members:
                size = _size(archive, member, _MAX_BYTES - total)
                total += size
                if total > _MAX_BYTES or size > max(_LARGE, _MAX_RATIO * member.compress_size):
                    raise DocumentError(
                        f"decompresses to far more than {kind} holds ({member.filename!r:.60}): "
                        "it is rejected as a ZIP bomb; split it or save it again."
                    )
    except DocumentError:
        raise
    except Exception as error:  # zipfile and zlib raise many types on damaged files
        raise DocumentError(
            f"is not a whole {kind} file ({type(error).__name__}): save it again."
        ) from error


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> int:
    """Return the size that a member decompresses to, or one just above the limit."""
    size = 0
    with archive.open(member) as stream:
        while size <= limit and (chunk := stream.read(2**20)):
            size += len(chunk)
    return size
