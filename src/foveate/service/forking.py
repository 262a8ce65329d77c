"""Starting the processes that run `foveate.service.reader`.

Loading what reading needs takes most of a second. On Linux one process does it once, and forks for
each file. It reads nothing itself, so what a file does to a process ends with that process.
"""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count

FORKS = sys.platform == "linux"
"""Whether processes are forked: elsewhere, libraries may not work in a forked process."""

Kill = Callable[[], Awaitable[None]]
"""Kills a process; it may have ended already."""

NUMBER_SIZE = 8
"""Bytes of the number by which a process is killed."""

_STOPPING_SECONDS = 1


class ReaderProcesses:
    """The processes that read files.

    Args:
        max_bytes: Memory that each may take.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._forker: _Forker | None = None
        self._lock = asyncio.Lock()

    async def start(self, channel: socket.socket) -> Kill:
        """Start a process that answers the messages of a socket.

        Returns:
            A function that kills it.

        Raises:
            OSError: It cannot be started.
        """
        if not FORKS:
            return partial(_kill, await _run_reader(channel, self._max_bytes))
        async with self._lock:
            if self._forker is not None and self._forker.has_ended:
                self._forker.close()
                self._forker = None
            if self._forker is None:
                self._forker = await _Forker.start(self._max_bytes)
            return self._forker.fork(channel)

    async def stop(self) -> None:
        """Kill all processes that were forked."""
        if self._forker is not None:
            await self._forker.stop()


class _Forker:
    """A process that forks."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._numbers = count()

    @classmethod
    async def start(cls, max_bytes: int) -> "_Forker":
        ours, theirs = socket.socketpair()
        with theirs:
            process = await _run_reader(theirs, max_bytes, "--fork")
        ours.setblocking(False)  # a process that no longer answers must not stop the service
        return cls(process, ours)

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def fork(self, channel: socket.socket) -> Kill:
        """Make it fork, and return a function that kills the new process."""
        number = next(self._numbers).to_bytes(NUMBER_SIZE, "big")
        socket.send_fds(self._control, [number], [channel.fileno()])
        return partial(self._kill, number)

    async def _kill(self, number: bytes) -> None:
        try:
            self._control.send(number)
        except OSError:  # it has ended, and no longer knows which process that is
            self._kill_all()

    def _kill_all(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop using it; what it forked can still be killed."""
        self._control.close()

    async def stop(self) -> None:
        """End it, which kills all that it forked."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOPPING_SECONDS):
                await self._process.wait()
        self._kill_all()
        await self._process.wait()


async def _run_reader(channel: socket.socket, max_bytes: int, *options: str) -> Process:
    secrets = ("FOVEATE_TOKEN",)
    environment = {name: value for name, value in os.environ.items() if name not in secrets}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "foveate.service.reader", str(max_bytes), *options),
        stdin=channel.fileno(),
        stdout=2,  # what libraries print belongs to the service's log
        # Threads would each take some of the memory that the process is allowed, and do not
        # survive a fork.
        env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for the service, which finishes what runs
    )


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
