"""The vectors of the documents that were used last, in memory."""

from collections import OrderedDict
from threading import Lock

from foveate.documents import Document
from foveate.inference.runner import DocumentVectors


class KeptVectors:
    """Vectors of documents, of which the least recently used are dropped when there are too many.

    A document is known by its identity, and lives as long as its vectors do.

    Args:
        max_bytes: How many bytes the vectors may take together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, tuple[Document, DocumentVectors]] = OrderedDict()
        self._num_bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[type["KeptVectors"], tuple[int]]:
        """Copies begin empty, with documents of their own."""
        return KeptVectors, (self.max_bytes,)

    def get(self, document: Document) -> DocumentVectors | None:
        """Return the vectors of a document, if they are here."""
        with self._lock:
            if id(document) not in self._entries:
                return None
            self._entries.move_to_end(id(document))
            return self._entries[id(document)][1]

    def put(self, document: Document, vectors: DocumentVectors) -> None:
        """Keep the vectors of a document."""
        self.forget(document)
        with self._lock:
            self._entries[id(document)] = document, vectors
            self._num_bytes += vectors.num_bytes
            while self._num_bytes > self.max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._num_bytes -= dropped.num_bytes

    def forget(self, document: Document) -> None:
        """Drop the vectors of a document."""
        with self._lock:
            if entry := self._entries.pop(id(document), None):
                self._num_bytes -= entry[1].num_bytes
