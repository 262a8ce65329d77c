"""The documents that were uploaded, which are kept only in memory, for a while."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from foveate.service.limits import Limits
from foveate.service.view import DocumentView


@dataclass(slots=True)
class _Upload:
    view: DocumentView
    num_bytes: int
    last_used: float = field(default_factory=monotonic)


class Uploads:
    """Uploaded documents; the least recently used ones are forgotten first.

    Args:
        limits: The limits of the service.
        on_forget: Called with each document that is forgotten.
    """

    def __init__(self, limits: Limits, on_forget: Callable[[DocumentView], None]) -> None:
        self._limits = limits
        self._on_forget = on_forget
        self._uploads: OrderedDict[str, _Upload] = OrderedDict()
        self.num_bytes = 0

    def add(self, view: DocumentView) -> bool:
        """Keep a document; return whether it is small enough for that."""
        size = view.num_bytes
        if view.id is None or size > self._limits.upload_bytes:
            return False
        while self.num_bytes + size > self._limits.upload_bytes:
            self.remove(next(iter(self._uploads)))
        self._uploads[view.id] = _Upload(view, size)
        self.num_bytes += size
        return True

    def get(self, document_id: str) -> DocumentView | None:
        """Return a document that is kept."""
        upload = self._uploads.get(document_id)
        if upload is None:
            return None
        upload.last_used = monotonic()
        self._uploads.move_to_end(document_id)
        return upload.view

    def remove(self, document_id: str) -> bool:
        """Forget a document; return whether it was there."""
        upload = self._uploads.pop(document_id, None)
        if upload is None:
            return False
        self.num_bytes -= upload.num_bytes
        self._on_forget(upload.view)
        return True

    def remove_expired(self) -> None:
        """Forget what nobody has used for a long time."""
        limit = monotonic() - self._limits.upload_seconds
        while self._uploads:
            document_id, upload = next(iter(self._uploads.items()))
            if upload.last_used > limit:
                break
            self.remove(document_id)
