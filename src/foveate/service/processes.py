"""The processes that read files and draw pages, each with its own memory and time."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from foveate.processes import ReaderProcess, ReaderProcesses
from foveate.service import frames
from foveate.service.limits import Limits

_log = logging.getLogger(__name__)

UNREADABLE, TIMED_OUT = 422, 504

_MAX_ANSWER = 2**30
"""Bytes of the longest answer that a process may give."""

_DRAWERS = 4
_DRAWING_SECONDS = 20
_IDLE_SECONDS = 60


class ReadingError(Exception):
    """A file cannot be read.

    Attributes:
        status: The HTTP status that says so.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Content:
    """A file or text that a client sent.

    Attributes:
        data: The bytes of a file, or a text in UTF-8.
        name: The name of the file; None for a text.
        format: Name of its format; None to recognize it.
        title: Replaces the title found in it.
        language: ISO 639 code of its language; None to detect it.
    """

    data: bytes
    name: str | None = None
    format: str | None = None
    title: str | None = None
    language: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is a file rather than a text."""
        return self.name is not None


@dataclass(frozen=True, slots=True)
class ReadContent:
    """What a process read.

    Attributes:
        packed: `Document.to_dict` as JSON.
        format: Name of the format.
        notes: Remarks of the reader, such as that scanned pages were left out.
    """

    packed: bytes
    format: str
    notes: list[str]


class _Child:
    """A process that runs `foveate.service.reader`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: ReaderProcess
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._process = process
        self.is_ready = True
        self.last_used = monotonic()
        self.lock = asyncio.Lock()

    @classmethod
    async def start(cls, processes: ReaderProcesses) -> "_Child":
        """Start a process.

        Raises:
            EOFError: It cannot be started.
        """
        try:
            process = processes.start()
            return cls(*await asyncio.open_connection(sock=process.channel), process)
        except OSError as error:
            raise EOFError(str(error)) from error

    async def ask(self, header: dict[str, Any], data: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a message and return the answer.

        Raises:
            ReadingError: The answer is that something is wrong.
            EOFError: The process has ended, or sends nonsense.
        """
        self.last_used = monotonic()
        self.is_ready = False  # until the whole answer has been read
        try:
            self._writer.write(frames.pack(header, len(data)))
            self._writer.write(data)
            await self._writer.drain()
            sizes = frames.LENGTHS.unpack(await self._reader.readexactly(frames.LENGTHS.size))
            if sum(sizes) > _MAX_ANSWER:
                raise EOFError("the answer is too long")
            answer = json.loads(await self._reader.readexactly(sizes[0]))
            result = await self._reader.readexactly(sizes[1])
            self.is_ready = True
            if "traceback" in answer:
                _log.error("A reader failed.\n%s", answer["traceback"])
            if "error" in answer:
                raise ReadingError(str(answer["error"]), int(answer["status"]))
            return answer, result
        except TimeoutError:  # which is an OSError, too
            raise
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise EOFError(str(error)) from error

    def stop(self) -> None:
        """Kill the process."""
        self._writer.transport.abort()
        self._process.kill()


class FileReaders:
    """Reads files, each in a process that is then killed: no file can affect another client's.

    Args:
        limits: The limits of the service.
        processes: Starts the processes.
    """

    def __init__(self, limits: Limits, processes: ReaderProcesses) -> None:
        self._limits = limits
        self._processes = processes
        self._turns = asyncio.Semaphore(limits.readers)

    async def read(self, content: Content) -> ReadContent:
        """Read a file or a text.

        Raises:
            ReadingError: It cannot be read, is too large, takes too long, or broke the process.
        """
        name = content.name or "The text"
        header = {
            "kind": "file" if content.is_file else "text",
            "name": content.name,
            "format": content.format,
            "title": content.title,
            "language": content.language,
            "pages": self._limits.pages,
            "characters": self._limits.characters,
        }
        async with self._turns:
            try:
                answer, packed = await self._ask(header, content)
            except EOFError:  # something else may have ended the process: try once more
                with _explained(name):
                    answer, packed = await self._ask(header, content)
        notes = [str(note) for note in answer.get("notes", ())]
        return ReadContent(packed, str(answer.get("format")), notes)

    async def _ask(self, header: dict[str, Any], content: Content) -> tuple[dict[str, Any], bytes]:
        """Have a process read what a client sent."""
        child = await _Child.start(self._processes)
        try:
            async with _time_limit(content.name or "The text", self._limits.reading_seconds):
                return await child.ask(header, content.data)
        finally:
            child.stop()


class Drawers:
    """Processes that draw the pages of PDFs: one for each of the most recently viewed documents.

    Args:
        limits: The limits of the service.
        processes: Starts the processes.
    """

    def __init__(self, limits: Limits, processes: ReaderProcesses) -> None:
        self._limits = limits
        self._processes = processes
        self._children: OrderedDict[str, _Child] = OrderedDict()
        self._lock = asyncio.Lock()

    async def draw(
        self, key: str, load: Callable[[], Awaitable[bytes]], page: int, scale: float
    ) -> bytes:
        """Draw a page.

        Args:
            key: What identifies the document.
            load: Returns the PDF, if it is not open yet.
            page: Number of the page, from 1.
            scale: Pixels per point.

        Returns:
            A PNG file.

        Raises:
            ReadingError: There is no such page, or it cannot be drawn.
        """
        return await self._ask(key, load, page, {"kind": "page", "scale": scale})

    async def text_layer(
        self,
        key: str,
        load: Callable[[], Awaitable[bytes]],
        page: int,
        text: str,
        language: str | None,
    ) -> bytes:
        """Read the words of a page and their places.

        Args:
            key: What identifies the document.
            load: Returns the PDF, if it is not open yet.
            page: Number of the page, from 1.
            text: What has been read of the page before.
            language: ISO 639 code of the document's language; None if it is unknown.

        Returns:
            A `foveate.documents.readers.pdf.text_layer.TextLayer` as JSON.

        Raises:
            ReadingError: There is no such page, or it cannot be read.
        """
        header = {"kind": "text layer", "text": text, "language": language}
        return await self._ask(key, load, page, header)

    async def _ask(
        self, key: str, load: Callable[[], Awaitable[bytes]], page: int, header: dict[str, Any]
    ) -> bytes:
        """Return what a process answers about a page."""
        child = await self._open(key, load)
        answering = asyncio.ensure_future(self._finish(key, child, page, header))
        try:
            return await asyncio.shield(answering)
        except asyncio.CancelledError:
            answering.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    async def _finish(self, key: str, child: _Child, page: int, header: dict[str, Any]) -> bytes:
        """Wait for an answer even if nobody else does anymore: it is on the way."""
        name = f"Page {page}"
        async with child.lock:
            try:
                with _explained(name):
                    async with _time_limit(name, _DRAWING_SECONDS):
                        _, result = await child.ask({**header, "name": name, "page": page})
                return result
            finally:
                if not child.is_ready:
                    self.close(key)

    async def _open(self, key: str, load: Callable[[], Awaitable[bytes]]) -> _Child:
        async with self._lock:
            if key in self._children:
                self._children.move_to_end(key)
                return self._children[key]
            data = await load()
            while len(self._children) >= _DRAWERS:
                self.close(next(iter(self._children)))
            child = await _Child.start(self._processes)
            try:
                with _explained("The file"):
                    async with _time_limit("The file", _DRAWING_SECONDS):
                        await child.ask({"kind": "open"}, data)
            except BaseException:
                child.stop()
                raise
            self._children[key] = child
            return child

    def close(self, key: str) -> None:
        """End the process of a document, if it has one."""
        if child := self._children.pop(key, None):
            child.stop()

    def close_idle(self) -> None:
        """End the processes that have not been used for a while."""
        limit = monotonic() - _IDLE_SECONDS
        for key in [key for key, child in self._children.items() if child.last_used < limit]:
            self.close(key)

    def stop(self) -> None:
        """End all processes."""
        for key in list(self._children):
            self.close(key)


@asynccontextmanager
async def _time_limit(name: str, seconds: float) -> AsyncIterator[None]:
    """End what takes too long, and say so."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        reason = f"reading it takes more than {seconds:g} seconds: send it in parts"
        raise ReadingError(f"{name}: {reason}.", TIMED_OUT) from error


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Explain that a process has ended."""
    try:
        yield
    except EOFError as error:
        reason = "it ended the process that reads it, most likely because it is damaged"
        raise ReadingError(f"{name} cannot be read: {reason}.", UNREADABLE) from error
