"""A folder of files that are dear to compute: documents that have been read, and their vectors."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from foveate.files import atomic_write

MAX_BYTES = 2**30
"""How large the cache may become; what was used longest ago is then removed."""

# Another version of these may read a file differently. Any change to foveate itself is seen by the
# times of its files.
_READERS = (
    *("charset-normalizer", "docutils", "lxml", "markdown-it-py", "mdit-py-plugins"),
    *("py3langid", "pypdfium2", "sentencex", "striprtf", "torch"),
)


class Cache:
    """Files named by a hash of everything that they were computed from.

    Args:
        folder: Where they are; by default foveate's folder in the user's cache. It is made when
            something is put there. Where it cannot be written, nothing is kept.
        max_bytes: How large it may become.

    Example:
        >>> from foveate.cache import Cache
        >>> cache = Cache(getfixture("tmp_path"))
        >>> cache.put("documents", key := Cache.key("cod.txt", b"Cod swim."), b"[...]")
        >>> cache.get("documents", key), cache.get("vectors", key)
        (b'[...]', None)
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.folder = default_folder() if folder is None else folder
        self.max_bytes = max_bytes

    @staticmethod
    def key(*parts: object) -> str:
        """Hash what a file is computed from, and the versions of what computes it.

        Args:
            parts: Bytes, or anything whose `repr` says what it is.
        """
        digest = hashlib.sha256(_versions())
        for part in parts:
            data = part if isinstance(part, bytes) else repr(part).encode(errors="surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    def get(self, kind: str, key: str) -> bytes | None:
        """Return the content of a file, which is then the last to be removed; None without one."""
        path = self.folder / kind / key
        try:
            content = path.read_bytes()
        except OSError:
            return None
        with suppress(OSError):  # a cache that can only be read
            os.utime(path)
        return content

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Keep a file, and remove others if there are too many."""
        with suppress(OSError):
            path = self.folder / kind / key
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as temporary:
                temporary.write_bytes(content)
            self._make_room()

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """List the files, those used last at the end."""
        found = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):  # removed by another process
                found.append((path, path.stat()))
        return sorted(found, key=lambda file: file[1].st_mtime_ns)

    def clear(self) -> int:
        """Remove all files.

        Returns:
            How many bytes they had.
        """
        return self._remove(self.files())

    def _make_room(self) -> None:
        files = self.files()
        excess = sum(stat.st_size for _, stat in files) - self.max_bytes
        for file in files:
            if excess <= 0:
                break
            excess -= self._remove([file])

    @staticmethod
    def _remove(files: Iterable[tuple[Path, os.stat_result]]) -> int:
        num_bytes = 0
        for path, stat in files:
            path.unlink(missing_ok=True)
            num_bytes += stat.st_size
        return num_bytes


def default_folder() -> Path:
    """Return foveate's folder in the user's cache."""
    from platformdirs import user_cache_path  # takes a moment

    return user_cache_path("foveate")


@cache
def _versions() -> bytes:
    package = Path(__file__).parent
    newest = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    return repr([newest, *map(_version, _READERS)]).encode()


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
