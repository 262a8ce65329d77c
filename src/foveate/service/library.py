"""The documents of a library, shared by many threads."""

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foveate.index import Index, LibraryDocument, LibraryError
from foveate.index.state import State
from foveate.inference import DocumentVectors
from foveate.service.errors import Refusal
from foveate.service.view import DocumentView, library_number
from foveate.tasks.arguments import Unit
from foveate.tasks.context import Prompt
from foveate.tasks.hits import Hit

_log = logging.getLogger(__name__)

_VIEWS = 32
_CLOCK = 1e-3  # seconds to which times of files are compared
_FUNCTIONS = ("array_has", "contains", "length", "lower", "starts_with", "upper")
"""Functions that a client's condition may call: others could be made to take all memory or time."""

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r"(\w++)\s*+\(")
_NOT_ALLOWED = re.compile(r"--|/\*|['\"`$;\\]")  # outside of texts


class ServedLibrary:
    """A library whose documents clients view and search.

    Args:
        index: The library.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self._lock = threading.Lock()
        self._state: State | None = None
        self._entries: dict[int, LibraryDocument] = {}
        self._views: OrderedDict[int, DocumentView] = OrderedDict()

    def entries(self) -> dict[int, LibraryDocument]:
        """Return the documents of the library's newest state by their number, in its order."""
        with self._usable():
            state = self.index.state
            if state != self._state:
                before = self._entries
                self._entries = {one.number: one for one in self.index.documents()}
                self._state = state
                for number in list(self._views):  # another library may have taken its place
                    if self._entries.get(number) != before.get(number):
                        del self._views[number]
            return self._entries

    def find(self, query: str) -> list[LibraryDocument]:
        """Return the documents whose title or name has all words of a query."""
        words = query.lower().split()
        return [
            one
            for one in self.entries().values()
            if all(word in f"{one.title}\n{one.source}".lower() for word in words)
        ]

    def entry(self, document_id: str) -> LibraryDocument | None:
        """Return the document with this id."""
        number = library_number(document_id)
        return None if number is None else self.entries().get(number)

    def view(self, document_id: str) -> DocumentView | None:
        """Return the document with this id, read from the library; None if there is none."""
        entry = self.entry(document_id)
        if entry is None:
            return None
        number = entry.number
        with self._usable():
            if number not in self._views:
                try:
                    document = self.index.document(number)
                except LibraryError:
                    raise
                except ValueError:  # removed since
                    return None
                self._views[number] = DocumentView(document_id, document, entry.format)
            self._views.move_to_end(number)
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
            return self._views[number]

    def pdf(self, document_id: str) -> Path | None:
        """Return the PDF of a document, if it is still there and has not been changed."""
        entry = self.entry(document_id)
        if entry is None or entry.format != "pdf" or entry.source != entry.file:
            return None
        path = Path(entry.file)
        try:
            stat = path.stat()
        except OSError:
            return None
        is_same = abs(stat.st_mtime - entry.modified.timestamp()) < _CLOCK
        return path if is_same and stat.st_size == entry.size else None

    def search(self, query: str, by: Unit, top_k: int, **conditions: Any) -> list[Hit]:
        """Search the library; see `Index.search`."""
        _check(conditions)
        with _readable():
            return self.index.search(query, by=by, top_k=top_k, **conditions)

    def context(self, query: str | None, tokens: int, **conditions: Any) -> Prompt:
        """Show what the library says; see `Index.context`."""
        _check(conditions)
        with _readable():
            return self.index.context(query, tokens=tokens, **conditions)

    def vectors(self, number: int) -> DocumentVectors:
        """Return the vectors of a document."""
        with _readable():
            return self.index.vectors(number)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Keep other threads out meanwhile, and refuse requests while the library is damaged.

        Nothing may be encoded meanwhile: a request that waits for its turn to encode would keep out
        those that have one.
        """
        with self._lock, _readable():
            yield


def _check(conditions: dict[str, Any]) -> None:
    """Refuse a client's condition that does more than compare columns.

    Raises:
        ValueError: It calls other functions, or has comments or other quotation marks.
    """
    for condition in conditions["where"]:
        unquoted = _QUOTED.sub("?", condition)
        called = {name.lower() for name in _CALL.findall(unquoted)}
        if called - {"and", "or", "not", "in", *_FUNCTIONS} or _NOT_ALLOWED.search(unquoted):
            raise ValueError(
                f"a condition may compare columns and call {', '.join(_FUNCTIONS)}, without "
                f"comments and other quotation marks, which {condition!r} does not keep to"
            )


@contextmanager
def _readable() -> Iterator[None]:
    """Refuse requests while the library is damaged."""
    try:
        yield
    except (OSError, LibraryError) as error:
        _log.error("The library cannot be read: %s", error)
        raise Refusal(503, "The library cannot be read at the moment.", retry_after=60) from error
