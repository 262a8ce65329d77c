"""ZIP and TAR archives, whose files are read from memory; nothing is written to disk."""

import re
import tarfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import chain, product
from pathlib import PurePosixPath

from foveate.documents.archives import archive_errors
from foveate.documents.compression import MAX_BYTES
from foveate.documents.formats import Member
from foveate.documents.structure import DocumentError

_IS_UTF_8 = 0x800  # flag of a member
_COMMON = "".join(  # the first level of JIS X 0208 and of GB 2312: the characters of daily use
    bytes(chain.from_iterable(product(range(0xB0, end), range(0xA1, 0xFF)))).decode(
        encoding, "ignore"
    )
    for encoding, end in (("euc_jp", 0xD0), ("gb2312", 0xD8))
)
_NAME_ENCODINGS = {  # and what names in them consist of
    "utf-8": re.compile(r".*", re.DOTALL),
    "cp866": re.compile(r"(?!.*(?:[A-Za-z][Ѐ-ӿ]|[Ѐ-ӿ][A-Za-z]))[\x00-\x7fА-Яа-яЁё№]+"),
    "cp932": re.compile(rf"(?:[\x00-\x7f]|[぀-ヿ、-〟！-～{_COMMON}]{{2,}})+"),
    "gb18030": re.compile(rf"(?:[\x00-\x7f]|[、-〟！-～{_COMMON}]{{2,}})+"),
}


def split(data: bytes) -> Iterator[Member]:
    """Yield the files of an archive, without hidden ones, in the order of the archive.

    Links and devices are left out.
    """
    files = _zip_files(data) if zipfile.is_zipfile(BytesIO(data)) else _tar_files(data)
    for name, content in files:
        if path := _safe_path(name):
            yield Member(f"/{path}", content)


def _zip_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    with archive_errors("ZIP archive", "pack it again"), zipfile.ZipFile(BytesIO(data)) as archive:
        names = _names(archive.infolist())
        for info in archive.infolist():
            name = names[info.filename]
            if info.is_dir() or not _safe_path(name):
                continue
            if info.flag_bits & 1:
                raise DocumentError("is encrypted: unpack it first.")
            with archive.open(info) as stream:
                content = stream.read(MAX_BYTES + 1)
            _check_size(name, len(content))
            yield name, content


def _names(members: list[zipfile.ZipInfo]) -> dict[str, str]:
    """Return the names of members that are not in UTF-8, in the encoding of their system.

    An encoding is that of all names if each of them is then a name that people give: common
    characters of Japanese or Chinese, or words of Cyrillic letters alone.
    """
    names = {info.filename: info.filename for info in members}
    marked = [info.filename for info in members if not info.flag_bits & _IS_UTF_8]
    try:
        written = {name: name.encode("cp437") for name in marked if not name.isascii()}
    except UnicodeEncodeError:
        return names
    for encoding, is_usual in _NAME_ENCODINGS.items():
        try:
            decoded = {name: data.decode(encoding) for name, data in written.items()}
        except UnicodeDecodeError:
            continue
        if all(map(is_usual.fullmatch, decoded.values())):
            return names | decoded
    return names


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
