"""The files that a version of a table consists of, which Lance lists in a manifest.

A manifest ends with the position of a message in Protocol Buffers, the version of the format, and
"LANC". The messages are defined in Lance's `table.proto`. A few of their fields are read here, by
number; the others are skipped. Files that a later format may list elsewhere are not found.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

_LAST_VERSION = 2**64 - 1
_END = b"LANC"
_FORMAT = (0, 2)  # major and minor version
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")

# Fields of messages.
_FRAGMENTS, _INDEX_SECTION = 2, 6  # of a manifest
_FRAGMENT, _DATA_FILES, _DELETION_FILE = 1, 2, 3  # of a fragment
_PATH = 1  # of a data file
_FILE_TYPE, _READ_VERSION, _DELETION = 1, 2, 3  # of a deletion file
_INDEXES = 1  # of an index section
_UUID = 1  # of an index, and the bytes of that

_SUFFIXES = ("arrow", "bin")  # of deletion files, by type

# How fields are encoded.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def manifests(table: Path) -> dict[int, Path]:
    """Return the manifests of a table, by the version.

    Args:
        table: The table's folder.
    """
    found = {}
    for path in table.glob("_versions/*.manifest"):
        if path.stem.isdecimal():
            number = int(path.stem)
            # The last one comes first, unless an early version of Lance named it.
            is_reversed = len(path.stem) == len(str(_LAST_VERSION))
            found[_LAST_VERSION - number if is_reversed else number] = path
    return found


def breaks_off(manifest: Path) -> bool:
    """Return whether a manifest lacks its end; one that has been removed meanwhile does not."""
    try:
        return not manifest.read_bytes().endswith(_END)
    except FileNotFoundError:
        return False


def files_of(table: Path, version: int) -> Iterator[Path]:
    """Return the files that a version of a table consists of: its manifest, and what that lists.

    Args:
        table: The table's folder.
        version: The version. If it has no manifest, there are no files.

    Raises:
        NotImplementedError: A later Lance has written the manifest, in another format.
        ValueError: The manifest is damaged.
    """
    path = manifests(table).get(version)
    if path is None:
        return
    yield path
    content = path.read_bytes()
    try:
        start, *version_of_format, end = _FOOTER.unpack(content[-_FOOTER.size :])
        if end != _END:
            raise ValueError("it breaks off")
        if tuple(version_of_format) > _FORMAT:
            raise NotImplementedError(f"{path} has a later format")
        manifest = _fields(_message(content, start))
        for fragment in map(_fields, manifest.get(_FRAGMENTS, ())):
            for file in map(_fields, fragment.get(_DATA_FILES, ())):
                yield table / "data" / _last(file, _PATH).decode()
            for file in map(_fields, fragment.get(_DELETION_FILE, ())):
                ids = _last(fragment, _FRAGMENT), _last(file, _READ_VERSION), _last(file, _DELETION)
                suffix = _SUFFIXES[_last(file, _FILE_TYPE)]
                yield table / "_deletions" / f"{'-'.join(map(str, ids))}.{suffix}"
        for start in manifest.get(_INDEX_SECTION, ()):
            for index in map(_fields, _fields(_message(content, start)).get(_INDEXES, ())):
                uuid = UUID(bytes=_last(_fields(_last(index, _UUID)), _UUID))
                yield from sorted((table / "_indices" / str(uuid)).glob("*"))
    except (struct.error, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"it cannot be understood: {error}") from error


def _message(content: bytes, start: int) -> bytes:
    """Return the message at a position, before which its length stands."""
    (length,) = _LENGTH.unpack_from(content, start)
    start += _LENGTH.size
    return content[start : start + length]


def _last(fields: dict[int, list[Any]], number: int) -> Any:
    """Return the value of a field that occurs once; 0 is left out of messages."""
    return fields.get(number, [0])[-1]


def _fields(message: bytes) -> dict[int, list[Any]]:
    r"""Return the values of the fields of a message, by their numbers.

    Example:
        >>> _fields(b"\x08\xac\x02\x12\x03cod\x12\x03eel")
        {1: [300], 2: [b'cod', b'eel']}
    """
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, encoding = key >> 3, key & 7
        value: Any
        if encoding == _VARINT:
            value, at = _varint(message, at)
        elif encoding == _BYTES:
            size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        elif encoding in (_FIXED64, _FIXED32):
            size = 8 if encoding == _FIXED64 else 4
            value, at = message[at : at + size], at + size
        else:
            raise ValueError(f"a field has the unknown encoding {encoding}")
        fields.setdefault(number, []).append(value)
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode a number, seven bits a byte with the lowest first; return where it ends, too."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
