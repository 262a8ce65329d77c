"""Checksums of a library's files, by which damage is noticed.

Lance never changes a file that it has written, so each is hashed once: when the state that first
needs it is committed, while the system still has it in memory. The checksums are part of the state,
so that they are replaced together with it. Only files that the state needs have one: not those of
older states, nor tags and hints, which Lance can do without.
"""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from foveate.index.lance import limits
from foveate.index.manifest import breaks_off, files_of, manifests

_DIGEST_BYTES = 16

_DATA, _INDEXES = "data", "_indices"
"""Folders of a table: for its rows, and to look them up."""


class Checksum(NamedTuple):
    """What a file must be like.

    Attributes:
        size: Its size in bytes.
        digest: Hash of its content.
        documents: The number of the first document whose rows it may hold, and the number after the
            last one; None if it holds something else, or rows of any documents.
    """

    size: int
    digest: str
    documents: tuple[int, int] | None = None


class Damage(NamedTuple):
    """A file that is not as it was written.

    Attributes:
        name: Its path in the library's folder.
        reason: What is wrong with it, such as "is missing".
        is_readable: Whether Lance can read it, though what it holds may be wrong.
        repair: What compacting the library does about it; None if that does not help.
    """

    name: str
    reason: str
    is_readable: bool = False
    repair: str | None = None

    @property
    def table(self) -> str:
        """The table that it belongs to."""
        return self.name.partition(".lance/")[0]


def digest(content: bytes) -> str:
    """Return the hash of some content."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def checksums(
    folder: Path,
    versions: Mapping[str, int],
    known: Mapping[str, Checksum],
    documents: tuple[int, int] | None = None,
) -> dict[str, Checksum]:
    """Return the checksum of each file that a state of a library needs, by its name.

    There are none if a later Lance has written the manifests in another format.

    Args:
        folder: The library's folder.
        versions: The version of each table.
        known: Checksums of the state before, whose files are not hashed again.
        documents: The documents whose rows new files hold, see `Checksum`.
    """
    found = {}
    for table, version in versions.items():
        try:
            paths = list(files_of(folder / f"{table}.lance", version))
        except NotImplementedError:
            return {}
        for path in paths:
            name = path.relative_to(folder).as_posix()
            # Terms stay when documents are removed, so removing some would not repair their table.
            has_rows = path.parent.name == _DATA and table != "terms"
            found[name] = known.get(name) or Checksum(
                path.stat().st_size, _hash(path), documents if has_rows else None
            )
    return found


def find_damage(
    folder: Path, files: Mapping[str, Checksum], *, is_thorough: bool = True
) -> list[Damage]:
    """Find the files that are missing, or not as they were written.

    Args:
        folder: The library's folder.
        files: Their checksums.
        is_thorough: Whether to hash all of them. Otherwise, of those that hold the rows, which are
            nearly all of a library, only the sizes are compared. Others say where rows are and
            which ones are deleted: with a wrong number there, Lance may find or delete other rows,
            or claim so much memory that the process ends.

    Raises:
        OSError: A permission or a limit of the system keeps a file from being read.
    """

    def check(name: str) -> Damage | None:
        path, expected = folder / name, files[name]
        has_rows = path.parent.name == _DATA
        repair = "builds it again" if path.parent.parent.name == _INDEXES else None
        try:
            size = path.stat().st_size
            if size != expected.size:
                reason = f"has {size:,} bytes instead of {expected.size:,}"
                return Damage(name, reason, repair=repair)
            if (is_thorough or not has_rows) and _hash(path) != expected.digest:
                return Damage(name, "is not as it was written", has_rows, repair)
        except FileNotFoundError:
            return Damage(name, "is missing", repair=repair)
        except OSError as error:
            if limits(error):
                raise
            return Damage(name, f"cannot be read: {error.strerror}", repair=repair)
        return None

    if not is_thorough:
        return [one for one in map(check, files) if one is not None]
    with ThreadPoolExecutor() as pool:  # hashing does not hold the interpreter's lock
        return [one for one in pool.map(check, files) if one is not None]


def find_unfinished(folder: Path, versions: Mapping[str, int]) -> list[Damage]:
    """Find manifests of later versions that a writer did not finish, since the power failed.

    Lance reads the last one, whatever version is asked for.

    Args:
        folder: The library's folder.
        versions: The version of each table.
    """
    return [
        Damage(path.relative_to(folder).as_posix(), "was never finished", repair="removes it")
        for table, version in versions.items()
        for later, path in manifests(folder / f"{table}.lance").items()
        if later > version and breaks_off(path)
    ]


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)
        ).hexdigest()
