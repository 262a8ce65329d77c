"""One model for many requests: what waits is batched, and nothing is encoded twice."""

import queue
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.inference import DocumentVectors, Encoder

V = TypeVar("V", Tensor, DocumentVectors)

_CHARACTERS_PER_TOKEN = 4
_RECENT_QUERIES = 1024


class _Job(Generic[V]):
    """Texts or a document for the model to read, for one request or several.

    Attributes:
        texts: The texts; None for a document.
        are_queries: Whether the texts are queries.
        document: The document; None for texts.
        num_tokens: Their size, by estimate.
        future: Its vectors.
    """

    def __init__(
        self,
        *,
        texts: Sequence[str] | None = None,
        are_queries: bool = False,
        document: Document | None = None,
    ) -> None:
        self.texts = texts
        self.are_queries = are_queries
        self.document = document
        size = len(document.text) if document is not None else sum(map(len, texts or ()))
        self.num_tokens = 1 + size // _CHARACTERS_PER_TOKEN
        self.future: Future[V] = Future()


class _Worker:
    """A thread that runs the model on whatever waits, up to a number of tokens at once."""

    def __init__(self, encoder: Encoder, batch_tokens: int, name: str) -> None:
        self._encoder = encoder
        self._batch_tokens = batch_tokens
        self._waiting: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: _Job[Any]) -> None:
        """Add a job."""
        self._waiting.put(job)

    def stop(self) -> None:
        """Finish what waits, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        following: _Job[Any] | None = None
        while True:
            job = following or self._waiting.get()
            if job is None:
                return
            batch, num_tokens, following, is_last = [job], job.num_tokens, None, False
            while not self._waiting.empty():
                job = self._waiting.get()
                if job is None:
                    is_last = True
                    break
                if num_tokens + job.num_tokens > self._batch_tokens:
                    following = job
                    break
                batch.append(job)
                num_tokens += job.num_tokens
            self._read(batch)
            if is_last:
                return

    def _read(self, batch: list[_Job[Any]]) -> None:
        """Run the model; the failure of one job must not harm the others."""
        try:
            results = self._encode(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for job in batch:
                self._read([job])
            return
        for job, result in zip(batch, results, strict=True):
            job.future.set_result(result)

    def _encode(self, batch: list[_Job[Any]]) -> list[Tensor | DocumentVectors]:
        documents = [job.document for job in batch if job.document is not None]
        encoded: Iterator[DocumentVectors] = iter(())
        if documents:
            encoded = iter(self._encoder.encode(documents, show_progress=False))
        texts = self._encode_texts(batch, are_queries=False)
        queries = self._encode_texts(batch, are_queries=True)
        return [
            next(encoded) if job.texts is None else next(queries if job.are_queries else texts)
            for job in batch
        ]

    def _encode_texts(self, batch: list[_Job[Any]], *, are_queries: bool) -> Iterator[Tensor]:
        lists = [
            job.texts for job in batch if job.texts is not None and job.are_queries == are_queries
        ]
        if not lists:
            return iter(())
        texts = list(chain.from_iterable(lists))
        joined = (
            self._encoder.encode_queries(texts)
            if are_queries
            else self._encoder.encode_texts(texts, show_progress=False)
        )
        return iter(joined.split([len(one) for one in lists]))


class SharedEncoder(Encoder):
    """An encoder that many threads can use at the same time.

    Texts and documents that wait are read together. Those longer than a batch have a thread of
    their own, so that a question does not wait until a book is read. The vectors of documents are
    kept while there is room, and those of the last queries.

    Args:
        encoder: The encoder.
        batch_tokens: Number of tokens, by estimate, that are read at once.
        vector_bytes: Memory for the vectors of documents.
    """

    def __init__(self, encoder: Encoder, batch_tokens: int, vector_bytes: int) -> None:
        self.__dict__.update(encoder.__dict__)
        self._max_tokens = batch_tokens
        self._max_bytes = vector_bytes
        self._short = _Worker(encoder, batch_tokens, "foveate-model")
        self._long = _Worker(encoder, batch_tokens, "foveate-model-long")
        self._lock = threading.Lock()
        self._documents: OrderedDict[int, _Job[DocumentVectors]] = OrderedDict()
        self._queries: OrderedDict[str, Tensor] = OrderedDict()

    def stop(self) -> None:
        """Finish what waits, and end the threads."""
        self._short.stop()
        self._long.stop()

    @overload
    def encode(
        self, documents: Document, *, show_progress: bool | None = None
    ) -> DocumentVectors: ...

    @overload
    def encode(
        self, documents: Sequence[Document], *, show_progress: bool | None = None
    ) -> list[DocumentVectors]: ...

    def encode(
        self, documents: Document | Sequence[Document], *, show_progress: bool | None = None
    ) -> DocumentVectors | list[DocumentVectors]:
        """Encode documents; see `Encoder.encode`. No progress is shown."""
        if isinstance(documents, Document):
            return self._encode_document(documents)
        return [self._encode_document(document) for document in documents]

    def encode_texts(
        self, texts: str | Sequence[str], *, show_progress: bool | None = None
    ) -> Tensor:
        """Encode texts, each by itself; see `Encoder.encode_texts`. No progress is shown."""
        if isinstance(texts, str):
            return self.encode_texts([texts])[0]
        return self._encode_parts(texts, are_queries=False)

    def _encode_parts(self, texts: Sequence[str], *, are_queries: bool) -> Tensor:
        if not texts:
            return torch.zeros(0, self.dimension)
        # One part after the other, so that long lists of one client do not hold up all others.
        vectors = []
        for part in self._parts(texts):
            job = _Job[Tensor](texts=part, are_queries=are_queries)
            self._short.submit(job)
            vectors.append(job.future.result())
        return torch.cat(vectors)

    def encode_queries(self, queries: str | Sequence[str]) -> Tensor:
        """Encode queries; see `Encoder.encode_queries`."""
        if isinstance(queries, str):
            return self.encode_queries([queries])[0]
        with self._lock:
            known = {query: self._queries[query] for query in queries if query in self._queries}
        missing = [query for query in dict.fromkeys(queries) if query not in known]
        known |= zip(missing, self._encode_parts(missing, are_queries=True), strict=True)
        with self._lock:
            for query in queries:
                self._queries[query] = known[query]
                self._queries.move_to_end(query)
            while len(self._queries) > _RECENT_QUERIES:
                self._queries.popitem(last=False)
        return torch.stack([known[query] for query in queries])

    def forget(self, document: Document) -> None:
        """Drop the vectors of a document."""
        with self._lock:
            self._documents.pop(id(document), None)

    def _parts(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Divide texts into lists of about as many tokens as are read at once."""
        part: list[str] = []
        room = self._max_tokens * _CHARACTERS_PER_TOKEN
        size = 0
        for text in texts:
            if part and size + len(text) > room:
                yield part
                part, size = [], 0
            part.append(text)
            size += len(text)
        yield part

    def _encode_document(self, document: Document) -> DocumentVectors:
        with self._lock:
            job = self._documents.get(id(document))
            if job is None or _has_failed(job):
                # It holds the document, so no other one can have the same id in the meantime.
                job = _Job[DocumentVectors](document=document)
                self._documents[id(document)] = job
                is_long = job.num_tokens > self._max_tokens
                (self._long if is_long else self._short).submit(job)
            self._documents.move_to_end(id(document))
        vectors = job.future.result()
        self._make_room()
        return vectors

    def _make_room(self) -> None:
        """Drop the least recently used vectors, except for those of the last document."""
        with self._lock:
            sizes = {key: _num_bytes(job) for key, job in self._documents.items()}
            total = sum(sizes.values())
            for key in list(sizes)[:-1]:
                if total <= self._max_bytes:
                    break
                if sizes[key]:
                    total -= sizes[key]
                    del self._documents[key]


def _has_failed(job: _Job[Any]) -> bool:
    return job.future.done() and job.future.exception() is not None


def _num_bytes(job: _Job[DocumentVectors]) -> int:
    """Return the memory that a job's vectors take; 0 if there are none yet."""
    if not job.future.done() or _has_failed(job):
        return 0
    vectors = job.future.result()
    return 4 * sum(x.numel() for x in (vectors.document, vectors.sections, vectors.sentences))
