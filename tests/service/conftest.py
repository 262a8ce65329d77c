"""A real server in a thread, with a small random model."""

import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

import httpx

from foveate import Index
from foveate.processes import ReaderProcess, ReaderProcesses
from foveate.service import reader
from foveate.service.app import create_app
from foveate.service.limits import Limits
from foveate.service.server import listen

FISH = """# Fish of the sea

Fish live in all seas.

## Cod

The cod is a fish of cold seas. It eats herring. It was cheap once.

### Nets

Trawlers drag nets behind them.

## Eel

The eel is a long fish. Its larvae drift across the ocean.
"""


def until(condition, seconds=10):
    """Wait until something is so."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "this did not happen"
        time.sleep(0.01)


def readers(processes):
    """Return the ids of the processes that were forked to read files."""
    pid = processes._forker.process.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Served:
    """A service that runs, and a client of it."""

    def __init__(self, app, port):
        self.app = app
        self.service = app.state.service
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def upload(self, text=FISH, **fields):
        """Send a text, and return its id."""
        answer = self.client.post("/documents", json={"text": text, "format": "markdown", **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


@contextmanager
def serving(encoder, **options):
    """Run a service on a free port."""
    app = create_app(encoder, **options)
    with listen("127.0.0.1", 0) as opened:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        served = Served(app, opened.getsockname()[1])
        try:
            yield served
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            served.client.close()
            assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory, small_encoder):
    """A library of a text and a PDF."""
    pytest.importorskip("lance", reason="a library needs the extra `index`")
    folder = tmp_path_factory.mktemp("files")
    (folder / "fish.md").write_text(FISH)
    (folder / "salt.txt").write_text("Salt is white. It comes from the sea. Miners dig for it.\n")
    write_pdf(folder / "herring.pdf")
    index = Index.create(tmp_path_factory.mktemp("libraries") / "library", model=small_encoder)
    index.add(folder)
    return index.path


@pytest.fixture(scope="session")
def served(small_encoder, library_folder):
    """A service with a library."""
    with serving(small_encoder, library=library_folder) as running:
        yield running


@pytest.fixture
def strict(small_encoder):
    """Run a service with limits of its own."""

    def run(*, limits=None, **options):
        return serving(small_encoder, limits=Limits(**(limits or {})), **options)

    return run


@pytest.fixture
def without_processes(monkeypatch):
    """Have threads read documents, where a test is not about the processes that do.

    The first process takes a second to start.
    """

    def start(self):
        ours, theirs = socket.socketpair()

        def answer():
            with theirs:
                reader.serve(theirs.makefile("rb"), theirs.makefile("wb"))

        threading.Thread(target=answer, daemon=True).start()
        return ReaderProcess(ours, lambda: None)

    monkeypatch.setattr(ReaderProcesses, "start", start)
    monkeypatch.setattr(ReaderProcesses, "warm_up", lambda self: None)


def write_pdf(path, *, num_pages=2):
    """Write a PDF of a few pages."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    drawing = canvas.Canvas(str(path), pagesize=(400, 300))
    for number in range(1, num_pages + 1):
        drawing.setFont("Helvetica-Bold", 18)
        drawing.drawString(40, 250, f"{number} Herring")
        drawing.setFont("Helvetica", 11)
        drawing.drawString(40, 220, "The herring swims in large shoals near the coast.")
        drawing.drawString(40, 205, f"Fishermen counted {number} hundred of them in May.")
        drawing.showPage()
    drawing.save()
