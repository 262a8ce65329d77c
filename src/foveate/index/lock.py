"""One writer at a time."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

_LOCK = "writer.lock"
_OWNER = "writer.json"


class LockedError(OSError):
    """Another process is writing to the library."""


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Keep other writers out of a library.

    It is a lock of the operating system, which releases it when the process ends, however it ends:
    a process that is killed never leaves a lock behind. A file next to it says who holds it.

    Args:
        folder: The library's folder.

    Raises:
        LockedError: Another process holds the lock.
        OSError: The folder cannot be written to.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(
            f"the library {folder} is being written to by {_owner(folder)}: wait until that has "
            "ended; it can be searched meanwhile"
        ) from error
    except OSError as error:
        raise type(error)(
            f"the library {folder} cannot be written to ({error.strerror}): it can only be searched"
        ) from error
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with suppress(OSError):  # the lock is held even if a full disk cannot take this
            (folder / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / _OWNER).unlink(missing_ok=True)
        lock.release()


def _owner(folder: Path) -> str:
    """Describe the process that holds the lock."""
    try:
        owner = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
