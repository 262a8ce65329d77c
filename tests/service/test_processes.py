"""The processes that read files: where they come from, what they hold, and when they end."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from foveate import processes
from foveate.processes import ReaderProcesses
from foveate.service import frames
from foveate.service.limits import Limits
from foveate.service.processes import Drawers, ReadingError
from tests.service.conftest import FISH, readers, serving, until, write_pdf

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked only on Linux")


def upload(served, name="fish.md", data=None):
    files = {"file": (name, data or FISH.encode())}
    answer = served.client.post("/documents", files=files)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def is_running(pid):
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except OSError:
        return False


def waiting(served):
    """Wait until one process is left, the one for the next file, and return its id."""
    until(lambda: len(readers(served)) == len(served.service.readers._spares) == 1)
    return readers(served)[0]


@pytest.fixture(scope="module")
def forking_service(small_encoder):
    """A service whose processes are forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEATE_TOKEN", "herring")
        with serving(small_encoder, limits=Limits(reading_bytes=2**30)) as running:
            yield running


@linux
def test_each_file_has_a_process_of_its_own_which_is_forked(forking_service):
    used = []
    for _ in range(3):
        used.append(waiting(forking_service))
        upload(forking_service)
    used.append(waiting(forking_service))
    assert len(set(used)) == 4
    assert [is_running(pid) for pid in used] == [False, False, False, True]


@linux
def test_a_process_holds_nothing_of_the_service(forking_service):
    pid = waiting(forking_service)
    process = Path(f"/proc/{pid}")
    for secret in (b"FOVEATE_TOKEN", b"herring"):
        assert secret not in (process / "environ").read_bytes()
    opened = {int(file.name): str(file.readlink()) for file in (process / "fd").iterdir()}
    assert [number for number, name in opened.items() if "socket" in name] == [0]
    assert opened[0] != str(Path(f"/proc/{os.getsid(pid)}/fd/0").readlink())
    assert len(list((process / "task").iterdir())) == 1
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (2**30, 2**30)
    assert resource.prlimit(pid, resource.RLIMIT_FSIZE) == (0, 0)
    assert os.getsid(pid) != os.getsid(0)  # no Ctrl-C


@linux
def test_a_forker_that_is_killed_is_replaced(forking_service):
    pid = waiting(forking_service)
    forker = os.getsid(pid)
    os.kill(forker, signal.SIGKILL)
    for _ in range(3):
        upload(forking_service)
    assert os.getsid(waiting(forking_service)) != forker
    until(lambda: not is_running(pid))


@linux
def test_a_forker_ends_with_the_service_and_kills_what_it_forked():
    control, theirs = socket.socketpair()
    code = "from foveate.service.reader import main; main()"
    command = [sys.executable, "-c", code, str(2**30), "--fork"]
    with theirs:
        forker = subprocess.Popen(command, stdin=theirs, start_new_session=True)
    channels = []
    for number in range(3):
        channel, theirs = socket.socketpair()
        with theirs:
            name = number.to_bytes(processes.NUMBER_SIZE, "big")
            socket.send_fds(control, [name], [theirs.fileno()])
        channels.append(channel.makefile("rwb"))
        channel.close()
    for channel in channels:
        frames.send(channel, {"kind": "open"})
        assert frames.receive(channel) == ({"notes": []}, b"")
    control.send((1).to_bytes(processes.NUMBER_SIZE, "big"))
    assert channels[1].read() == b""
    frames.send(channels[2], {"kind": "open"})
    assert frames.receive(channels[2]) == ({"notes": []}, b"")
    control.close()
    assert forker.wait(timeout=10) == 0
    assert [channel.read() for channel in channels] == [b""] * 3
    for channel in channels:
        channel.close()


def test_processes_that_are_not_forked(strict, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "FORKS", False)
    write_pdf(tmp_path / "a.pdf")
    with strict() as served:
        document_id = upload(served, "a.pdf", (tmp_path / "a.pdf").read_bytes())
        assert served.client.get(f"/documents/{document_id}/pages/1.png").status_code == 200
        served.upload()
        assert served.service.processes._forker is None


def test_a_page_that_cannot_be_drawn_is_named(tmp_path):
    write_pdf(tmp_path / "a.pdf")

    async def load():
        return (tmp_path / "a.pdf").read_bytes()

    async def draw():
        readers = ReaderProcesses("foveate.service.reader", 2**31)
        drawers = Drawers(Limits(), readers)
        try:
            await drawers.draw("a", load, page=1, scale=0.0)
        finally:
            drawers.stop()
            readers.stop()

    with pytest.raises(ReadingError, match=r"^Page 1 cannot be read, its reader failed"):
        asyncio.run(draw())
