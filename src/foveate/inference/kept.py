"""What was computed from the documents that were used last, in memory."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, Protocol, TypeVar

from foveate.documents import Document


class _Sized(Protocol):
    @property
    def num_bytes(self) -> int: ...


Value = TypeVar("Value", bound=_Sized)


class Kept(Generic[Value]):
    """Values of documents, of which the least recently used are dropped when there are too many.

    A document is known by its identity, and lives as long as its value does.

    Args:
        max_bytes: How many bytes the values may take together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, tuple[Document, Value]] = OrderedDict()
        self._num_bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> "tuple[type[Kept[Value]], tuple[int]]":
        """Copies begin empty, with documents of their own."""
        return Kept, (self.max_bytes,)

    def get(self, document: Document) -> Value | None:
        """Return the value of a document, if it is here."""
        with self._lock:
            if id(document) not in self._entries:
                return None
            self._entries.move_to_end(id(document))
            return self._entries[id(document)][1]

    def put(self, document: Document, value: Value) -> None:
        """Keep the value of a document."""
        self.forget(document)
        with self._lock:
            self._entries[id(document)] = document, value
            self._num_bytes += value.num_bytes
            while self._num_bytes > self.max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._num_bytes -= dropped.num_bytes

    def forget(self, document: Document) -> None:
        """Drop the value of a document."""
        with self._lock:
            if entry := self._entries.pop(id(document), None):
                self._num_bytes -= entry[1].num_bytes
