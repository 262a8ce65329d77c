"""A library built by a Ray cluster: speed-up, and what is left when parts of the cluster die.

    python -m benchmarks cluster --documents 200

Papers, proposals and PEPs, as in `library.py`, are added to a library by one process with one
thread, and by clusters of `--nodes` nodes on this machine with one worker of one CPU each. The
workers share the machine's cores with the process that writes, and with Ray, so that with two cores
the speed-up is less than it is on two machines. `first_s` is the time until the first file is
there, in which Ray starts processes and these load the model; `rest_s` is that for all others.

Then the first of these clusters builds the library again, and after a third of the files, a worker
is killed (SIGKILL), which Ray replaces.

Each library is compared with that of the one process: `same_rows` says whether all tables are
equal bit for bit, but for the numbers of documents and the times at which files were added;
`same_hits` whether queries have the same hits with the same scores.
"""

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"

import pyarrow as pa

from benchmarks import report
from benchmarks.library import make_queries, write_files
from benchmarks.registry import measurement
from foveate import Index
from foveate.index.lance import Store
from foveate.index.ray import RayCluster
from foveate.tasks.hits import Hit

PATIENCE = 600
"""Seconds without a new file after which a run has failed."""


def build(
    told: Connection, library: Path, files: Path, address: str | None, num_nodes: int
) -> None:
    """Build a library in this process, and tell when each file was added, and what was."""
    index = Index.create(library, exist_ok=True, device="cpu")
    workers = None if address is None else RayCluster(address, workers=num_nodes)
    start = time.perf_counter()

    def report_file(done: int, total: int, documents: int) -> None:
        if done:
            told.send(time.perf_counter() - start)

    changes = index.add(files, on_error=print, on_file=report_file, cluster=workers)
    seconds = time.perf_counter() - start
    counts = ("added", "unchanged", "num_documents", "num_sentences")
    told.send({"seconds": seconds, **{name: getattr(changes, name) for name in counts}})


def run(
    library: Path,
    files: Path,
    nodes: Any = None,
    at_file: tuple[int, Callable[[], None]] | None = None,
) -> dict[str, Any]:
    """Build a library in another process, and do something after so many files."""
    address, num_nodes = (nodes.address, len(nodes.list_all_nodes())) if nodes else (None, 0)
    context = get_context("spawn")
    told, other = context.Pipe(duplex=False)
    child = context.Process(target=build, args=(other, library, files, address, num_nodes))
    child.start()
    other.close()
    times: list[float] = []
    while told.poll(PATIENCE):
        value = told.recv()  # EOFError if the process has failed
        if isinstance(value, dict):
            child.join()
            first, *_, last = times
            return value | {"first_s": first, "rest_s": last - first, "files": len(times)}
        times.append(value)
        if at_file is not None and len(times) == at_file[0]:
            at_file[1]()
    child.kill()
    raise TimeoutError(f"no file was added to {library} in {PATIENCE} s")


@contextmanager
def cluster(num_nodes: int) -> Iterator[Any]:
    """Start nodes on this machine, with room for one worker each."""
    from ray.cluster_utils import Cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lance, which does not like to be forked
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        for _ in range(num_nodes - 1):
            nodes.add_node(num_cpus=1)
    try:
        yield nodes
    finally:
        nodes.shutdown()


def kill_worker(nodes: Any) -> None:
    """Kill the process that encodes on one of the nodes."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in nodes.list_all_nodes()}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in raylets and b"ray::_Worker" in (path / "cmdline").read_bytes():
                os.kill(int(path.name), signal.SIGKILL)
                return
    raise RuntimeError("there is no worker to kill")


def compare(library: Path, expected: Path) -> dict[str, bool]:
    """Compare two libraries, row by row and by what is found in them."""
    index, other = Index.open(library, device="cpu"), Index.open(expected, device="cpu")
    queries = make_queries(expected, 50)
    hits = all(found(index, query) == found(other, query) for query in queries)
    return {
        "same_rows": rows(index) == rows(other),
        "same_counts": (len(index), index.state.num_sentences)
        == (len(other), other.state.num_sentences),
        "same_hits": hits,
    }


def found(index: Index, query: str) -> list[Hit]:
    """Return the best hits, without the numbers of their documents."""
    return [replace(hit, document_idx=0) for hit in index.search(query, top_k=20)]


def rows(index: Index) -> pa.Table:
    """Return the sorted rows of all documents, without their numbers and when they were added."""
    table = Store(Path(index.path)).open().to_table(filter="document >= 0")
    order = [(name, "ascending") for name in ("file", "member", "level", "position")]
    return table.sort_by(order).drop_columns(["indexed", "key", "document"]).combine_chunks()


@measurement("cluster.json", "ray", "pylance")
def clusters(
    data: Path = report.DATA, documents: int = 200, nodes: Sequence[int] = (2,)
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Build a library by one process and by clusters.

    Options:
        nodes: sizes of clusters
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = work / "files"
        files.mkdir()
        write_files(files, data, documents)
        one = run(work / "one", files)
        results: dict[str, Any] = {"documents": documents, "clusters": [], "one_process": one}
        for number in nodes:
            with cluster(number) as its:
                built = run(work / f"{number}-nodes", files, its) | {"nodes": number}
            built["speed_up"] = one["seconds"] / built["seconds"]
            built["speed_up_after_first_file"] = one["rest_s"] / built["rest_s"]
            built |= compare(work / f"{number}-nodes", work / "one")
            results["clusters"].append(built)
            yield results, ["others, and a worker that is killed"]
        with cluster(nodes[0]) as its:
            kill = documents // 3, partial(kill_worker, its)
            results["worker_killed"] = run(work / "worker", files, its, kill)
        results["worker_killed"] |= compare(work / "worker", work / "one")
        yield results, []
