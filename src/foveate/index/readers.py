"""Other processes of this machine read files, while this one encodes what they have read."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import Connection
from typing import Any

from foveate.documents import DocumentError
from foveate.index.build import Job, encode, in_this_process
from foveate.index.messages import received
from foveate.index.reading import Part, Unit
from foveate.processes import ReaderProcesses

MOST_READERS = 8
"""How many processes read by default, at most."""

_FEWEST_UNITS = 4
"""Units from which on other processes are worth their start, about half a second."""


@dataclass(frozen=True, slots=True)
class ReaderPool:
    """Processes of this machine that read files.

    Units are given to the processes in turns and taken back in order, so the library is the one
    that a single process makes. What a process has read waits until it is encoded, so each is at
    most a unit ahead.

    Args:
        number: How many; 0 reads in this process. By default, where the model runs on a GPU, one
            for each core but one, and no more than `MOST_READERS`, and none elsewhere: on a CPU
            the model takes all cores.
    """

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and self.number < 0:
            raise ValueError(f"there cannot be {self.number} readers: give 0 or more")

    def __call__(self, job: Job, units: Iterator[Unit]) -> Iterator[Part]:
        """Have units read, and encode them in this process."""
        first = list(islice(units, _FEWEST_UNITS))
        units = chain(first, units)
        number = self.number
        if number is None:
            number = _default_number(job) if len(first) == _FEWEST_UNITS else 0
        if not number:
            yield from in_this_process(job, units)
            return
        with ExitStack() as stack:
            processes = ReaderProcesses("foveate.index.reading")
            stack.callback(processes.stop)
            busy: deque[_ReaderProcess] = deque()
            for unit in islice(units, number):
                busy.append(_ReaderProcess(job, processes))
                stack.callback(busy[-1].stop)
                busy[-1].begin(unit)
            while busy:
                reader = busy.popleft()
                yield from reader.parts()
                if unit := next(units, []):
                    reader.begin(unit)
                    busy.append(reader)


def _default_number(job: Job) -> int:
    if job.load_encoder().model.device.type == "cpu":
        return 0
    return min(MOST_READERS, (os.cpu_count() or 1) - 1)


class _ReaderProcess:
    """A process that reads units.

    Args:
        job: How they become rows.
        processes: Starts it.
    """

    def __init__(self, job: Job, processes: ReaderProcesses) -> None:
        self._job = job
        self._unit: Unit = []
        self._process = processes.start()
        self._connection: Connection[Any, Any] = Connection(self._process.channel.detach())
        self._connection.send((dict(job.options), job.stops_at_error))

    def begin(self, unit: Unit) -> None:
        """Have a unit read."""
        self._unit = unit
        with suppress(BrokenPipeError):  # it has ended, which `parts` notices
            self._connection.send(unit)

    def parts(self) -> Iterator[Part]:
        """Encode the unit as it is read.

        Raises:
            DocumentError: The process has ended.
        """
        names = [file.name for file in self._unit]
        is_last = False
        while not is_last:
            try:
                part: Part = received(self._connection.recv())
            except (EOFError, ConnectionResetError) as error:
                raise DocumentError(
                    f"a process that read files has ended at {names[0]} or soon after it, most "
                    "likely because memory was short: use fewer readers, or leave the file out"
                ) from error
            names = names[len(part.done) :]
            is_last = part.is_last
            yield encode(part, self._job.load_encoder)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._connection.close()
        self._process.kill()
