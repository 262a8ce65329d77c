"""Messages between the service and the processes that read files: a header in JSON, and bytes.

A message is two lengths of eight bytes each, the header and the bytes. Nothing is pickled, so a
process that was compromised by a file can send nothing worse than a wrong document.
"""

import json
import struct
from typing import Any, BinaryIO

LENGTHS = struct.Struct(">QQ")


def pack(header: dict[str, Any], size: int) -> bytes:
    """Return the beginning of a message, which `size` bytes follow."""
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(len(encoded), size) + encoded


def receive(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; None at the end of the stream."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    header_size, size = LENGTHS.unpack(lengths)
    header: dict[str, Any] = json.loads(stream.read(header_size))
    return header, stream.read(size)


def send(stream: BinaryIO, header: dict[str, Any], data: bytes = b"") -> None:
    """Write a message."""
    stream.write(pack(header, len(data)))
    stream.write(data)
    stream.flush()
