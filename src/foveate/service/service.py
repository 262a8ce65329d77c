"""Shared by the routes: the model, the documents, and the workers."""

import asyncio
import copy
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from foveate.documents import Document
from foveate.inference import LLM
from foveate.processes import ReaderProcesses
from foveate.service.encoder import SharedEncoder
from foveate.service.errors import Refusal
from foveate.service.limits import Limits
from foveate.service.metrics import Metrics
from foveate.service.processes import Content, Drawers, FileReaders
from foveate.service.uploads import Uploads
from foveate.service.view import DocumentView
from foveate.service.work import Work

if TYPE_CHECKING:
    from foveate.inference.reranker import Reranker
    from foveate.service.library import ServedLibrary

_SWEEP_SECONDS = 30


class Service:
    """A service.

    Args:
        encoder: The model.
        model_name: What clients call it.
        limits: The limits.
        metrics: The counters.
        library: The library that is served; None for uploads alone.
        llm: The language model that writes; None if none does.
        reranker: The model that reranks; None if none does.
        needs_token: Whether clients must show a token.
    """

    def __init__(
        self,
        encoder: SharedEncoder,
        model_name: str,
        limits: Limits,
        metrics: Metrics,
        library: "ServedLibrary | None" = None,
        *,
        llm: LLM | None = None,
        reranker: "Reranker | None" = None,
        needs_token: bool = False,
    ) -> None:
        self.encoder = encoder
        self.model_name = model_name
        self.metrics = metrics
        self.library = library
        self.llm = llm
        self.reranker = reranker
        self.needs_token = needs_token
        self._processor = copy.deepcopy(encoder.processor)  # the encoder's own is in use
        self._processor_lock = threading.Lock()
        self.uploads = Uploads(limits, self._forget)
        self.work = Work(limits)
        self.processes = ReaderProcesses("foveate.service.reader", limits.reading_bytes)
        self.readers = FileReaders(limits, self.processes)
        self.drawers = Drawers(self.processes)
        metrics.running.set_function(lambda: self.work.num_running)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start what the service needs, and stop it at the end."""
        self.processes.warm_up()
        sweeping = asyncio.ensure_future(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            self.drawers.stop()
            await asyncio.to_thread(self.processes.stop)
            await asyncio.to_thread(self.work.stop)
            await asyncio.to_thread(self.encoder.stop)

    async def read(self, content: Content, document_id: str | None) -> DocumentView:
        """Read what a client sent.

        Args:
            content: What was sent.
            document_id: The id of the document; None if it is not kept.

        Raises:
            Refusal: It cannot be read.
        """
        return await self.work.call(self._read, content, document_id)

    def _read(self, content: Content, document_id: str | None) -> DocumentView:
        answer, packed = self.readers.read(content)
        is_pdf = answer["format"] == "pdf" and content.data.startswith(b"%PDF")
        return DocumentView(
            document_id,
            Document.from_dict(json.loads(packed)),
            answer["format"],
            answer["notes"],
            content.data if is_pdf and document_id is not None else None,
        )

    def count_tokens(self, texts: list[str]) -> int:
        """Count the tokens of texts."""
        with self._processor_lock:
            ids = self._processor.token_ids(texts)
        return sum(map(len, ids))

    async def find(self, document_id: str) -> DocumentView:
        """Return the document with this id.

        Raises:
            Refusal: There is none.
        """
        view = self.uploads.get(document_id)
        if view is None and self.library is not None:
            view = await asyncio.to_thread(self.library.view, document_id)
        if view is None:
            raise Refusal(
                404, "There is no document with this id: it may have been forgotten; send it again."
            )
        return view

    def _forget(self, view: DocumentView) -> None:
        self.encoder.forget(view.document)
        if view.id is not None:
            self.drawers.close(view.id)

    async def _sweep(self) -> None:
        """Periodically forget what nobody uses."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.uploads.remove_expired()
            self.drawers.close_idle()


def service_of(request: HTTPConnection) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service
