"""Messages between the service and the processes that read files: a header in JSON, and bytes.

A message is two lengths of eight bytes each, the header and the bytes. Nothing is pickled, so a
process that was compromised by a file can send nothing worse than a wrong document.
"""

import json
import struct
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">QQ")
_MAX_BYTES = 2**30  # of a message


def receive(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; None at the end of the stream.

    Raises:
        ValueError: It is no message, or is too long.
    """
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, size = _LENGTHS.unpack(lengths)
    if header_size + size > _MAX_BYTES:
        raise ValueError("the message is too long")
    header: dict[str, Any] = json.loads(stream.read(header_size))
    data = stream.read(size)
    return (header, data) if len(data) == size else None


def send(stream: BinaryIO, header: dict[str, Any], data: bytes = b"") -> None:
    """Write a message."""
    encoded = json.dumps(header).encode()
    stream.write(_LENGTHS.pack(len(encoded), len(data)) + encoded)
    stream.write(data)
    stream.flush()
