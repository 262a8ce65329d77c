"""Processes that read files: started quickly, and killed whatever a file does to them.

Loading what reading needs takes most of a second. On Linux one process does it once, and forks for
each reader. It reads nothing itself, so what a file does to a process ends with that process.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count

if sys.platform == "win32":
    raise ImportError(
        "libraries and the service need Linux or macOS, where processes that read files can be "
        "limited: on Windows, run foveate in WSL"
    )

import resource

FORKS = sys.platform == "linux"
"""Whether processes are forked: elsewhere, libraries may not work in a forked process."""

NUMBER_SIZE = 8
"""Bytes of the number by which a process that was forked is killed."""

_SECRETS = ("FOVEATE_TOKEN",)
_STOPPING_SECONDS = 1


@dataclass(frozen=True, slots=True)
class ReaderProcess:
    """A process that reads files.

    Attributes:
        channel: The socket whose other end is its standard input.
        kill: Ends it, whatever it is doing; it may have ended already.
    """

    channel: socket.socket
    kill: Callable[[], None]


class ReaderProcesses:
    """Starts processes that read files, which end with this one at the latest.

    Args:
        module: The module whose `main` they run, which calls `answer`.
        max_bytes: Memory that each may take, and it may then write no file; None for no limit.
    """

    def __init__(self, module: str, max_bytes: int | None = None) -> None:
        self._module = module
        self._max_bytes = max_bytes
        self._forker: _Forker | None = None
        self._lock = threading.Lock()

    def warm_up(self) -> None:
        """Begin to load what reading needs, so that the first process starts as fast as others."""
        if FORKS:
            self._forker = self._start_forker()

    def start(self) -> ReaderProcess:
        """Start a process.

        Raises:
            OSError: It cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return ReaderProcess(ours, self._start(theirs))
            except BaseException:
                ours.close()
                raise

    def _start(self, channel: socket.socket) -> Callable[[], None]:
        if not FORKS:
            return partial(_kill, self._run(channel))
        with self._lock:
            if self._forker is not None:
                try:
                    return self._forker.fork(channel)
                except OSError:  # it has ended, or no longer answers
                    self._forker.stop()
            self._forker = self._start_forker()
            return self._forker.fork(channel)

    def _start_forker(self) -> "_Forker":
        ours, theirs = socket.socketpair()
        with theirs:
            return _Forker(self._run(theirs, "--fork"), ours)

    def _run(self, channel: socket.socket, *options: str) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        # Not by multiprocessing, which would run the program's main module again in the process.
        code = f"from {self._module} import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self._max_bytes or 0), *options],
            stdin=channel.fileno(),
            stdout=2,  # what libraries print is not for those who read our output
            # Threads would each take some of the memory that the process is allowed, and do not
            # survive a fork.
            env=environment
            | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            | {"OMP_WAIT_POLICY": "PASSIVE"}
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )

    def stop(self) -> None:
        """Kill all processes that were forked."""
        if self._forker is not None:
            self._forker.stop()
            self._forker = None


class _Forker:
    """A process that forks."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control
        self._numbers = count()
        control.setblocking(False)  # one that no longer answers must not stop this process

    def fork(self, channel: socket.socket) -> Callable[[], None]:
        """Make it fork, and return a function that kills the new process."""
        number = next(self._numbers).to_bytes(NUMBER_SIZE, "big")
        socket.send_fds(self.control, [number], [channel.fileno()])
        return partial(self._kill, number)

    def _kill(self, number: bytes) -> None:
        try:
            self.control.send(number)
        except OSError:  # it has ended, and no longer knows which process that is
            self._kill_all()

    def _kill_all(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it, which kills all that it forked."""
        self.control.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOPPING_SECONDS)
        self._kill_all()
        self.process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def answer(serve: Callable[[socket.socket], None]) -> None:
    """Answer messages, as the main function of a module that `ReaderProcesses` names.

    Args:
        serve: Answers the messages that come through a socket, until there are no more.
    """
    max_bytes, *options = sys.argv[1:]
    if int(max_bytes):
        _restrict(int(max_bytes))
    with socket.socket(fileno=0) as channel:
        if "--fork" in options:
            _fork_for_each_reader(channel)
        serve(channel)


def _restrict(max_bytes: int) -> None:
    """Limit the memory, and forbid writing files."""
    if sys.platform == "linux":  # others do not bound what a process may use
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fork_for_each_reader(control: socket.socket) -> None:
    """Fork whenever it is asked for, and return only in the processes that were forked.

    A message is a number. If a socket comes with it, a process is forked, of which the socket
    becomes the standard input; otherwise the process that got this number is killed.
    """
    pids: dict[bytes, int] = {}
    gc.freeze()  # collecting what was loaded would copy the memory that the processes share
    while True:
        number, sockets, _, _ = socket.recv_fds(control, NUMBER_SIZE, 1)
        if sockets:
            pid = os.fork()
            if pid == 0:
                os.dup2(sockets[0], 0)  # in place of the control, which is not for this process
                os.close(sockets[0])
                return
            os.close(sockets[0])
            pids[number] = pid
        elif number:
            _kill_forked(pids.pop(number))
        else:  # the process that started this one has ended
            break
    for pid in pids.values():
        _kill_forked(pid)
    sys.exit()


def _kill_forked(pid: int) -> None:
    """Kill a process that was forked; until then its number belongs to no other process."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
