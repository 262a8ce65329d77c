"""The processes that read files and draw pages, each with its own memory and time."""

import logging
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any, BinaryIO, cast

from foveate.processes import ReaderProcesses
from foveate.service import frames
from foveate.service.errors import Refusal
from foveate.service.limits import Limits

_log = logging.getLogger(__name__)

_DRAWERS = 4
_DRAWING_SECONDS = 20
_IDLE_SECONDS = 60


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


class _Child:
    """A process that runs `foveate.service.reader`; one thread at a time may ask it.

    Args:
        processes: Starts it.

    Raises:
        EOFError: It cannot be started.
    """

    def __init__(self, processes: ReaderProcesses) -> None:
        try:
            self._process = processes.start()
        except OSError as error:
            raise EOFError(str(error)) from error
        self._channel = cast(BinaryIO, self._process.channel.makefile("rwb"))
        self.is_ready = True
        self.last_used = monotonic()
        self.lock = Lock()

    def ask(
        self, header: dict[str, Any], data: bytes, name: str, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a message and return the answer.

        Args:
            header: The message's header.
            data: The message's bytes.
            name: What it is about, for errors.
            seconds: How long the process may take.

        Raises:
            Refusal: The answer is that something is wrong, or takes too long.
            EOFError: The process has ended, or sends nonsense.
        """
        self.last_used = monotonic()
        self.is_ready = False  # until the whole answer has been read
        self._process.channel.settimeout(seconds)
        try:
            frames.send(self._channel, header, data)
            message = frames.receive(self._channel)
            if message is None:
                raise EOFError("it has ended")
            answer, result = message
            self.is_ready = True
            if "traceback" in answer:
                _log.error("A reader failed.\n%s", answer["traceback"])
            if "error" in answer:
                raise Refusal(int(answer["status"]), str(answer["error"]))
            return answer, result
        except TimeoutError as error:  # which is an OSError, too
            reason = f"reading it takes more than {seconds:g} seconds: send it in parts"
            raise Refusal(504, f"{name}: {reason}.") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise EOFError(str(error)) from error

    def stop(self) -> None:
        """Kill the process; a thread that waits for its answer gets an error."""
        with suppress(OSError):
            self._process.channel.shutdown(socket.SHUT_RDWR)
        self._process.kill()
        with suppress(OSError):  # what it was sent has not arrived
            self._channel.close()
        self._process.channel.close()


class FileReaders:
    """Reads files, each in a process that is then killed: no file can affect another client's.

    Args:
        limits: The limits of the service.
        processes: Starts the processes.
    """

    def __init__(self, limits: Limits, processes: ReaderProcesses) -> None:
        self._limits = limits
        self._processes = processes
        self._turns = BoundedSemaphore(limits.readers)

    def read(self, content: Content) -> tuple[dict[str, Any], bytes]:
        """Read a file or a text; return what `reader.read` does, with its "notes".

        Raises:
            Refusal: It cannot be read, is too large, takes too long, or broke the process.
        """
        with self._turns:
            try:
                return self._ask(content)
            except EOFError:  # something else may have ended the process: try once more
                try:
                    return self._ask(content)
                except EOFError as error:
                    raise _ended(content.name or "The text") from error

    def _ask(self, content: Content) -> tuple[dict[str, Any], bytes]:
        """Have a process read what a client sent."""
        header = {
            "kind": "document",
            "name": content.name,
            "format": content.format,
            "title": content.title,
            "language": content.language,
            "pages": self._limits.pages,
            "characters": self._limits.characters,
        }
        child = _Child(self._processes)
        try:
            name = content.name or "The text"
            return child.ask(header, content.data, name, self._limits.reading_seconds)
        finally:
            child.stop()


class Drawers:
    """Processes that draw the pages of PDFs: one for each of the most recently viewed documents.

    Args:
        processes: Starts the processes.
    """

    def __init__(self, processes: ReaderProcesses) -> None:
        self._processes = processes
        self._children: OrderedDict[str, _Child] = OrderedDict()
        self._lock = Lock()

    def ask(
        self, key: str, load: Callable[[], bytes], page: int, kind: str, **options: Any
    ) -> bytes:
        """Return what a process answers about a page; see `reader.draw_page` and `text_layer`.

        Args:
            key: What identifies the document.
            load: Returns the PDF, if it is not open yet.
            page: Number of the page, from 1.
            kind: "page" or "text layer".
            options: The other fields of the message.

        Raises:
            Refusal: There is no such page, or it cannot be drawn or read.
        """
        name = f"Page {page}"
        child = self._open(key, load)
        with child.lock:
            try:
                message = {"kind": kind, "name": name, "page": page, **options}
                return child.ask(message, b"", name, _DRAWING_SECONDS)[1]
            except EOFError as error:
                raise _ended(name) from error
            finally:
                if not child.is_ready:
                    self.close(key)

    def _open(self, key: str, load: Callable[[], bytes]) -> _Child:
        with self._lock:
            if key in self._children:
                self._children.move_to_end(key)
                return self._children[key]
            data = load()
            while len(self._children) >= _DRAWERS:
                self.close(next(iter(self._children)))
            child: _Child | None = None
            try:
                child = _Child(self._processes)
                child.ask({"kind": "open"}, data, "The file", _DRAWING_SECONDS)
            except (EOFError, Refusal) as error:
                if child is not None:
                    child.stop()
                raise _ended("The file") from error
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


def _ended(name: str) -> Refusal:
    """Explain that a process has ended."""
    reason = "it ended the process that reads it, most likely because it is damaged"
    return Refusal(422, f"{name} cannot be read: {reason}.")
