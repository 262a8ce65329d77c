"""One model for many requests: what waits is batched, and no document is encoded twice."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, cast

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder
from foveate.inference.kept import KeptVectors

Kind = Literal["texts", "queries", "documents"]

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, eq=False)
class _Job:
    """Texts, queries or documents for the model to read, for one request or several.

    Attributes:
        kind: What they are.
        items: The texts, queries or documents.
        num_characters: Their size.
        future: Their vectors, `(items, dimension)`, or those of each document.
    """

    kind: Kind
    items: Sequence[Any]
    num_characters: int
    future: "Future[Any]" = field(default_factory=Future)


class _Worker:
    """A thread that runs the model on whatever waits, up to a number of characters at once."""

    def __init__(self, encoder: Encoder, max_characters: int, name: str) -> None:
        self._encode: dict[Kind, Callable[[list[Any]], Any]] = {
            "texts": lambda texts: encoder.encode_texts(texts, show_progress=False),
            "queries": lambda queries: encoder.encode_queries(queries),
            "documents": lambda documents: encoder.encode(documents, show_progress=False),
        }
        self._max_characters = max_characters
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: _Job) -> None:
        """Add a job."""
        self._waiting.put(job)

    def stop(self) -> None:
        """Finish what waits, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        batch: list[_Job] = []
        size = 0
        while True:
            if batch and self._waiting.empty():
                self._read(batch)
                batch, size = [], 0
            job = self._waiting.get()
            if batch and (job is None or size + job.num_characters > self._max_characters):
                self._read(batch)
                batch, size = [], 0
            if job is None:
                return
            batch.append(job)
            size += job.num_characters

    def _read(self, batch: list[_Job]) -> None:
        """Run the model; the failure of one job must not harm the others."""
        results: list[tuple[_Job, Any]] = []
        try:
            for kind, encode in self._encode.items():
                jobs = [job for job in batch if job.kind == kind]
                items = list(chain.from_iterable(job.items for job in jobs))
                vectors, start = encode(items) if items else (), 0
                for job in jobs:
                    results.append((job, vectors[start : start + len(job.items)]))
                    start += len(job.items)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for job in batch:
                self._read([job])
            return
        for job, result in results:
            job.future.set_result(result)


class SharedEncoder(Encoder):
    """An encoder that many threads can use at the same time.

    Texts and documents that wait are read together. Those longer than a batch have a thread of
    their own, so that a question does not wait until a book is read. The vectors of documents are
    kept while there is room.

    Args:
        encoder: The encoder.
        batch_tokens: Number of tokens, by estimate, that are read at once.
        vector_bytes: Memory for the vectors of documents.
    """

    def __init__(self, encoder: Encoder, batch_tokens: int, vector_bytes: int) -> None:
        super().__init__(encoder.runner, encoder.languages)
        self.kept = encoder.kept = KeptVectors(vector_bytes)
        self._max_characters = batch_tokens * _CHARACTERS_PER_TOKEN
        self._short = _Worker(encoder, self._max_characters, "foveate-model")
        self._long = _Worker(encoder, self._max_characters, "foveate-model-long")
        self._lock = threading.Lock()
        self._running: dict[int, _Job] = {}  # of documents, by their ids

    def stop(self) -> None:
        """Finish what waits, and end the threads."""
        self._short.stop()
        self._long.stop()

    def _encode_documents(
        self, documents: Sequence[Document], show_progress: bool | None
    ) -> list[DocumentVectors]:
        return [self._encode_document(document) for document in documents]

    def encode_texts(
        self, texts: str | Sequence[str], *, show_progress: bool | None = None
    ) -> Tensor:
        """Encode texts, each by itself; see `Encoder.encode_texts`. No progress is shown."""
        return self._encode_parts("texts", texts)

    def encode_queries(self, queries: str | Sequence[str]) -> Tensor:
        """Encode queries; see `Encoder.encode_queries`."""
        return self._encode_parts("queries", queries)

    def _encode_parts(self, kind: Kind, texts: str | Sequence[str]) -> Tensor:
        if isinstance(texts, str):
            return self._encode_parts(kind, [texts])[0]
        # One part after the other, so that long lists of one client do not hold up all others.
        vectors = [torch.zeros(0, self.dimension)]
        for part in self._parts(texts):
            job = _Job(kind, part, sum(map(len, part)))
            self._short.submit(job)
            vectors.append(job.future.result())
        return torch.cat(vectors)

    def _parts(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Divide texts into lists of about as many tokens as are read at once."""
        part: list[str] = []
        size = 0
        for text in texts:
            if part and size + len(text) > self._max_characters:
                yield part
                part, size = [], 0
            part.append(text)
            size += len(text)
        if part:
            yield part

    def _encode_document(self, document: Document) -> DocumentVectors:
        with self._lock:
            if (vectors := self.kept.get(document)) is not None:
                return vectors
            job = self._running.get(id(document))
            if job is None:
                # It holds the document, so no other one can have the same id in the meantime.
                job = self._running[id(document)] = _Job(
                    "documents", [document], len(document.text)
                )
                is_long = job.num_characters > self._max_characters
                (self._long if is_long else self._short).submit(job)
        try:
            [encoded] = job.future.result()
            self.kept.put(document, encoded)
            return cast(DocumentVectors, encoded)
        finally:
            with self._lock:
                self._running.pop(id(document), None)
