"""Ctrl-C: one line and exit code 130, whatever the command is doing."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType

EXIT_CODE = 128 + signal.SIGINT
_PATIENCE = 0.6
"""Seconds in which the command may clean up before it is ended."""


class _Interrupt(BaseException):
    """Raised by Ctrl-C. Typer would turn a KeyboardInterrupt into an exit without a word."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Exit within a second of Ctrl-C.

    Python handles a signal between two of its own instructions, which a tokenizer, a matrix product
    or an import may delay for long. So the signal also wakes a thread, which ends the process
    unless that happens soon.
    """
    has_ended = Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    Thread(target=_end_unless, args=(has_ended, receiver), daemon=True).start()
    previous_handler = signal.signal(signal.SIGINT, _interrupt)
    previous_sender = signal.set_wakeup_fd(sender.fileno())
    try:
        yield
    except _Interrupt:
        _end()  # rather than return, because freeing a large document takes seconds
    finally:
        has_ended.set()
        signal.set_wakeup_fd(previous_sender)
        signal.signal(signal.SIGINT, previous_handler)
        sender.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _Interrupt


def _end_unless(has_ended: Event, signals: socket.socket) -> None:
    """Wait for Ctrl-C, and then for the command to end, but not long."""
    with signals:
        while number := signals.recv(1):
            if number[0] == signal.SIGINT and not has_ended.wait(_PATIENCE):
                _end()


def _end() -> None:
    """Say that the command was interrupted, and end the process."""
    # Past Python's streams, which the interrupted code may have locked. On a terminal, a progress
    # bar may have left its line there and the cursor hidden.
    restore = "\r\x1b[K\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{restore}foveate: interrupted\n".encode())
    os._exit(EXIT_CODE)
