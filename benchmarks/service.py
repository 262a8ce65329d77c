"""The HTTP service: how many requests it answers, how fast, and what it does when there are more.

    python -m benchmarks service --rounds 3
    python -m benchmarks service-soak --minutes 10

Clients send one request after the other over a connection each, from a process of their own on the
same machine. `embeddings` asks for the vector of one sentence; `search` searches a library that is
made of `--documents` proposals and papers. Servers take turns within a round.

- `foveate`: `foveate serve` with foveate's own model
- `foveate, MiniLM`: the same with all-MiniLM-L6-v2
- `sentence-transformers, MiniLM`: the twenty lines of `serve_peer`
- `Python`: a loop that calls the library directly, without a server

`service-soak` first measures what 64 clients get of a mix of embeddings, searches and uploads,
then sends twice as many requests for so long, whether or not they are answered, and writes down the
statuses and the memory of the service with its reader processes.
"""

import asyncio
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.library import write_files
from benchmarks.processes import in_new_process
from benchmarks.registry import measurement, table
from benchmarks.retrieval_systems import minilm_path

WARM_UP = 2.0  # seconds
PAGE = "numbers/service.md"
PACKAGES = ("fastapi", "uvicorn", "sentence-transformers", "pylance")


def serve_peer(port: int, path: str) -> None:
    """Serve embeddings as most people would write it."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from sentence_transformers import SentenceTransformer

    class Body(BaseModel):
        input: str | list[str]
        model: str

    model = SentenceTransformer(path, device="cpu")
    app = FastAPI()

    @app.get("/healthz")
    def health() -> str:
        return "ok"

    @app.post("/v1/embeddings")
    def embed(body: Body) -> dict[str, Any]:
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        rows = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(vectors)]
        return {"object": "list", "data": rows, "model": body.model}

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


class Server(NamedTuple):
    """A server that runs.

    Attributes:
        name: Its name in the results.
        port: Its port.
        model: What it calls its model.
        pid: Its process.
    """

    name: str
    port: int
    model: str
    pid: int


@contextmanager
def running(name: str, model: str, serve: Callable[..., None], *arguments: str) -> Iterator[Server]:
    """Run a server in a process of its own until it is not needed anymore."""
    port = free_port()
    process = get_context("spawn").Process(target=serve, args=(port, *arguments))
    process.start()
    try:
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(600):
            try:
                asyncio.run(once(port, request))
                break
            except OSError:
                assert process.is_alive(), f"{name} did not start"
                time.sleep(0.2)
        yield Server(name, port, model, process.pid)
    finally:
        process.terminate()
        process.join(timeout=90)


async def once(port: int, request: bytes) -> tuple[int, bytes]:
    """Send one request over a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await exchange(reader, writer, request)
    finally:
        writer.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, bytes]:
    """Send a request, and return the status and the body of the answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return int(head[9:12]), await reader.readexactly(length)


def post(path: str, arguments: dict[str, Any]) -> bytes:
    body = json.dumps(arguments).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(
    port: int, requests: Iterator[bytes], num_clients: int, seconds: float
) -> tuple[list[float], Counter[int], float]:
    """Send requests from several clients, each as soon as its last one was answered.

    Returns:
        The seconds that each answer took, how many had each status, and the time in all.
    """
    times: list[float] = []
    statuses: Counter[int] = Counter()
    started = time.perf_counter()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < started + seconds:
            begun = time.perf_counter()
            status, _ = await exchange(reader, writer, next(requests))
            times.append(time.perf_counter() - begun)
            statuses[status] += 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(num_clients)))
    return times, statuses, time.perf_counter() - started


def measure(
    server: Server, task: str, requests: Iterator[bytes], num_clients: int, seconds: float
) -> dict[str, Any]:
    asyncio.run(load(server.port, requests, num_clients, WARM_UP))
    times, statuses, elapsed = asyncio.run(load(server.port, requests, num_clients, seconds))
    found = {
        "server": server.name,
        "task": task,
        "clients": num_clients,
        "statuses": {str(status): count for status, count in statuses.items()},
        **summary(times, elapsed),
    }
    print(json.dumps(found), flush=True)
    return found


def summary(times: list[float], elapsed: float) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "per_second": len(times) / elapsed,
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }


def embeddings(model: str, sentences: list[str]) -> Iterator[bytes]:
    for sentence in itertools.cycle(sentences):
        yield post("/v1/embeddings", {"model": model, "input": sentence})


def searches(queries: list[str]) -> Iterator[bytes]:
    for query in itertools.cycle(queries):
        yield post("/search", {"query": query, "top_k": 5, "context": 0})


def uploads(sentences: list[str]) -> Iterator[bytes]:
    for start in itertools.cycle(range(0, len(sentences) - 50, 50)):
        yield post("/documents", {"text": " ".join(sentences[start : start + 50])})


def mixture(model: str, sentences: list[str], queries: list[str]) -> Iterator[bytes]:
    """Yield five embeddings and four searches for each upload."""
    kinds = embeddings(model, sentences), searches(queries), uploads(sentences)
    for number in itertools.cycle((0, 1, 0, 1, 0, 1, 0, 1, 0, 2)):
        yield next(kinds[number])


def direct(
    task: str, name: str, call: Callable[[str], object], texts: list[str], seconds: float
) -> dict[str, Any]:
    """Call the library in a loop."""
    times: list[float] = []
    for text in texts[:20]:
        call(text)
    started = time.perf_counter()
    for text in itertools.cycle(texts):
        begun = time.perf_counter()
        if begun > started + seconds:
            break
        call(text)
        times.append(time.perf_counter() - begun)
    found = {
        "server": name,
        "task": task,
        "clients": 1,
        **summary(times, time.perf_counter() - started),
    }
    print(json.dumps(found), flush=True)
    return found


async def soak(
    server: Server, requests: Iterator[bytes], rate: float, minutes: float
) -> dict[str, Any]:
    """Send requests at a rate, whatever becomes of them."""
    statuses: Counter[str] = Counter()
    times: list[float] = []
    memory: list[float] = []
    pending: set[asyncio.Task[None]] = set()
    started = time.perf_counter()

    async def send(request: bytes) -> None:
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(330):
                status, _ = await once(server.port, request)
        except (OSError, asyncio.IncompleteReadError):
            statuses["unanswered"] += 1
            return
        statuses[str(status)] += 1
        if status < 300:
            times.append(time.perf_counter() - begun)

    num_sent = 0
    next_look = started
    while (now := time.perf_counter()) < started + 60 * minutes:
        if now >= next_look:
            memory.append(resident_mb(server.pid))
            next_look += 5
        while num_sent < (now - started) * rate:
            task = asyncio.ensure_future(send(next(requests)))
            pending.add(task)
            task.add_done_callback(pending.discard)
            num_sent += 1
        await asyncio.sleep(0.005)
    await asyncio.gather(*pending)
    return {
        "minutes": minutes,
        "sent_per_second": num_sent / (60 * minutes),
        "statuses": dict(statuses),
        "answered": summary(times, 60 * minutes),
        "memory_mb": [round(one) for one in memory],
    }


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process and its descendants; what they share counts once."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])

    def descends(one: int) -> bool:
        return one == pid or (one in parents and descends(parents[one]))

    kilobytes = 0
    for one in filter(descends, parents):
        with suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                name, size, *_ = line.split()
                kilobytes += int(size) if name == "Pss:" else 0
    return kilobytes / 1024


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


def serve_foveate(port: int, *options: str) -> None:
    """Be `foveate serve`."""
    from foveate.cli import main

    sys.argv = ["foveate", "serve", "--port", str(port), *options]
    main()


def make_library(folder: Path, num_documents: int) -> tuple[Path, list[str]]:
    """Make a library of documents, and return its folder and its sentences in random order."""
    from foveate import Index

    files = folder / "files"
    files.mkdir()
    write_files(files, report.DATA, num_documents)
    index = Index.create(folder / "library", device="cpu")
    index.add(files)
    sentences = [
        sentence.text
        for one in index.documents()
        for sentence in index.document(one.number).sentences()
        if 5 <= len(sentence.text.split()) <= 40
    ]
    random.Random(0).shuffle(sentences)
    return index.path, sentences


def measure_servers(
    clients: Sequence[int], seconds: float, library: Path, sentences: list[str], queries: list[str]
) -> Iterator[dict[str, Any]]:
    """Measure each server in turn."""
    peer = minilm_path()
    with running("foveate", "foveate", serve_foveate, "--library", str(library)) as server:
        for num_clients in clients:
            for task, requests in (
                ("embeddings", embeddings(server.model, sentences)),
                ("search", searches(queries)),
            ):
                yield measure(server, task, requests, num_clients, seconds)
    with running("foveate, MiniLM", "model", serve_foveate, "--model", peer) as server:
        for num_clients in clients:
            requests = embeddings(server.model, sentences)
            yield measure(server, "embeddings", requests, num_clients, seconds)
    with running("sentence-transformers, MiniLM", "minilm", serve_peer, peer) as server:
        for num_clients in clients:
            requests = embeddings(server.model, sentences)
            yield measure(server, "embeddings", requests, num_clients, seconds)


def measure_direct(
    library: Path, seconds: float, sentences: list[str], queries: list[str]
) -> list[dict[str, Any]]:
    """Measure the library without a server."""
    from foveate import Encoder, Index

    index = Index.open(library, device="cpu")
    minilm = Encoder.from_pretrained(minilm_path(), device="cpu")
    return [
        direct("embeddings", "Python", index.encoder.encode_texts, sentences, seconds),
        direct("search", "Python", lambda query: index.search(query), queries, seconds),
        direct("embeddings", "Python, MiniLM", minilm.encode_texts, sentences, seconds),
    ]


@table(PAGE, "servers", "service.json")
def servers_table(results: list[dict[str, Any]]) -> str:
    """Return a table of the medians over all rounds, with the least and the most throughput."""
    grouped: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for one in results:
        grouped.setdefault((one["task"], one["server"], one["clients"]), []).append(one)
    rows = []
    for (task, server, num_clients), rounds in grouped.items():
        throughputs = [one["per_second"] for one in rounds]
        spread = f"{min(throughputs):.0f} – {max(throughputs):.0f}"
        medians = [
            statistics.median(one[name] for one in rounds)
            for name in ("per_second", "p50_ms", "p99_ms")
        ]
        rows.append([task, server, num_clients, medians[0], spread, *medians[1:]])
    header = ["task", "server", "clients", "a second", "least – most", "p50 ms", "p99 ms"]
    return report.table(header, rows)


@table(PAGE, "soak", "service-soak.json")
def soak_table(found: dict[str, Any]) -> str:
    """Return a table of what became of the requests of a soak, and of the memory by minute."""
    soaked = found["soak"]
    memory = soaked["memory_mb"]
    per_minute = max(len(memory) // round(soaked["minutes"]), 1)
    statuses = ", ".join(f"{status}: {count:,}" for status, count in soaked["statuses"].items())
    rows = [
        ["requests answered a second, 64 clients that wait", found["capacity"]["per_second"]],
        ["requests sent a second", soaked["sent_per_second"]],
        ["statuses", statuses],
        ["answered a second", soaked["answered"]["per_second"]],
        ["p50 / p99 of these", "{p50_ms:.0f} / {p99_ms:.0f} ms".format(**soaked["answered"])],
        ["memory, a figure a minute, MB", ", ".join(map(str, memory[::per_minute]))],
    ]
    return report.table(["", ""], rows)


@contextmanager
def library_of(documents: int) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Make a library as long as it is needed; yield it with sentences and queries."""
    with tempfile.TemporaryDirectory() as folder:
        library, sentences = make_library(Path(folder), documents)
        yield library, sentences, [" ".join(one.split()[:8]) for one in sentences[:500]]


@measurement("service.json", *PACKAGES)
def service(
    clients: Sequence[int] = (1, 8, 64), seconds: float = 20, rounds: int = 3, documents: int = 300
) -> list[dict[str, Any]]:
    """Measure all servers, and the library without one.

    Options:
        clients: that send requests at the same time
        seconds: of each measurement
        rounds: how often all are measured
    """
    results: list[dict[str, Any]] = []
    with library_of(documents) as (library, sentences, queries):
        for _ in range(rounds):
            results += in_new_process(measure_direct, library, seconds, sentences[:2000], queries)
            results += measure_servers(clients, seconds, library, sentences, queries)
    return results


@measurement("service-soak.json", *PACKAGES, part="soak")
def service_soak(minutes: float = 10, seconds: float = 20, documents: int = 300) -> dict[str, Any]:
    """Send twice as many requests as are answered.

    Options:
        minutes: how long
        seconds: of measuring how many are answered
    """
    # Uploads are forgotten after a minute, so that memory can be seen to stay flat.
    with library_of(documents) as (library, sentences, queries):
        options = ("--library", str(library), "--keep", "1")
        with running("foveate", "foveate", serve_foveate, *options) as server:
            requests = mixture(server.model, sentences, queries)
            capacity = measure(server, "mixture", requests, 64, seconds)
            found = asyncio.run(soak(server, requests, 2 * capacity["per_second"], minutes))
    return {"capacity": capacity, "soak": found}
