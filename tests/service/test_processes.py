"""The processes that read files: where they come from, what they hold, and when they end."""

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
from foveate.service.errors import Refusal
from foveate.service.processes import Drawers
from tests.service.conftest import FISH, readers, until, write_pdf

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


@pytest.fixture(scope="module")
def started():
    """What starts processes for the service."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEATE_TOKEN", "herring")
        starts = ReaderProcesses("foveate.service.reader", 2**30)
        starts.warm_up()
        yield starts
        starts.stop()


@linux
def test_processes_are_forked_and_killed(started):
    processes = [started.start() for _ in range(3)]
    until(lambda: len(readers(started)) == 3)
    first, *others = readers(started)
    processes[0].kill()
    until(lambda: not is_running(first))
    assert all(map(is_running, others))
    for process in processes[1:]:
        process.kill()
    until(lambda: not any(map(is_running, others)))
    for process in processes:
        process.channel.close()


@linux
def test_a_process_holds_nothing_of_the_service(started):
    process = started.start()
    with process.channel.makefile("rwb") as channel:
        frames.send(channel, {"kind": "open"})
        assert frames.receive(channel) == ({"notes": []}, b"")
    [pid] = readers(started)
    folder = Path(f"/proc/{pid}")
    for secret in (b"FOVEATE_TOKEN", b"herring"):
        assert secret not in (folder / "environ").read_bytes()
    opened = {int(file.name): str(file.readlink()) for file in (folder / "fd").iterdir()}
    assert [number for number, name in opened.items() if "socket" in name] == [0]
    assert opened[0] != str(Path(f"/proc/{os.getsid(pid)}/fd/0").readlink())
    assert len(list((folder / "task").iterdir())) == 1
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (2**30, 2**30)
    assert resource.prlimit(pid, resource.RLIMIT_FSIZE) == (0, 0)
    assert os.getsid(pid) != os.getsid(0)  # no Ctrl-C
    process.kill()
    process.channel.close()


@linux
def test_a_forker_that_is_killed_is_replaced(strict):
    with strict() as served:
        upload(served)
        forker = served.service.processes._forker.process.pid
        os.kill(forker, signal.SIGKILL)
        for _ in range(3):
            upload(served)
        assert served.service.processes._forker.process.pid != forker
        until(lambda: not readers(served.service.processes))  # each is killed when it has read


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


def test_a_page_that_cannot_be_drawn_is_named(tmp_path, started):
    write_pdf(tmp_path / "a.pdf")
    drawers = Drawers(started)
    with pytest.raises(Refusal, match=r"^Page 1 cannot be read, its reader failed"):
        drawers.ask("a", (tmp_path / "a.pdf").read_bytes, 1, "page", scale=0.0)
    drawers.stop()
