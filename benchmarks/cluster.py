"""A library built by a Ray cluster: speed-up, and what is left when parts of the cluster die.

    python benchmarks/cluster.py --documents 200

Papers, proposals and PEPs, as in `library.py`, are added to a library by one process with one
thread, and by clusters of `--nodes` nodes on this machine with one worker of one CPU each. The
workers share the machine's cores with the process that writes, and with Ray, so that with two cores
the speed-up is less than it is on two machines. `first_s` is the time until the first file is
there, in which Ray starts processes and these load the model; `rest_s` is that for all others.

Then the first of these clusters builds the library again, and

- after a third of the files, a worker is killed (SIGKILL), which Ray replaces;
- after a third, a node is killed with its worker, while the other one goes on;
- after two thirds, the head is killed. The run fails, a new cluster is started, and the run is
  started again: `unchanged` are the files that it need not add again.

Each library is compared with that of the one process: `same_rows` says whether all tables are
equal bit for bit, but for the numbers of documents and the times at which files were added;
`same_hits` whether queries have the same hits with the same scores.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"

import pyarrow as pa

import arguments
import report
from foveate import Index
from foveate.index.lance import Store
from foveate.index.ray import RayCluster
from foveate.tasks.hits import Hit
from library import make_queries, write_files
from library_check import problems

PATIENCE = 600
"""Seconds after which a run that hangs is ended."""


def build(
    library: Path, files: Path, address: str | None, num_nodes: int, model: str | None
) -> None:
    """Build a library in this process, and report each file on standard output."""
    index = Index.create(library, exist_ok=True, model=model, device="cpu")
    cluster = None if address is None else RayCluster(address, workers=num_nodes)
    start = time.perf_counter()

    def report_file(done: int, total: int, documents: int) -> None:
        if done:
            print(json.dumps(time.perf_counter() - start), flush=True)

    changes = index.add(files, on_error=print, on_file=report_file, cluster=cluster)
    end = time.perf_counter() - start
    counts = ("added", "unchanged", "num_documents", "num_sentences")
    print(json.dumps({"seconds": end, **{name: getattr(changes, name) for name in counts}}))


def run(
    library: Path,
    files: Path,
    model: str | None,
    nodes: Any = None,
    at_file: tuple[int, Callable[[], None]] | None = None,
) -> dict[str, Any]:
    """Build a library in another process, and do something after so many files."""
    address, num_nodes = (nodes.address, len(nodes.list_all_nodes())) if nodes else ("", 0)
    command = [sys.executable, __file__, "--child", str(library), str(files), address]
    command.append(str(num_nodes))
    command += ["--model", model] if model else []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    times: list[float] = []
    result: dict[str, Any] = {}
    acted = time.perf_counter()
    message = ""
    for line in child.stdout:
        try:
            value = json.loads(line)
        except json.JSONDecodeError:  # of Ray, or of an error
            message = line.strip() or message
            continue
        if isinstance(value, dict):
            result = value
            continue
        times.append(value)
        if at_file is not None and len(times) == at_file[0]:
            acted = time.perf_counter()
            at_file[1]()
    try:
        result["exit_code"] = child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        result["exit_code"] = child.wait()
    if not result.get("seconds"):
        result |= {"failed_after_s": time.perf_counter() - acted, "message": message}
    if times:
        result |= {"first_s": times[0], "rest_s": times[-1] - times[0], "files": len(times)}
    return result


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


def kill_node(nodes: Any) -> None:
    nodes.remove_node(nodes.worker_nodes.copy().pop(), allow_graceful=False)


def kill_head(nodes: Any) -> None:
    nodes.head_node.kill_all_processes(check_alive=False, allow_graceful=False)


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
        "verified": problems(index) == [],
    }


def found(index: Index, query: str) -> list[Hit]:
    """Return the best hits, without the numbers of their documents."""
    return [replace(hit, document_idx=0) for hit in index.search(query, top_k=20)]


def rows(index: Index) -> pa.Table:
    """Return the sorted rows of all documents, without their numbers and when they were added."""
    table = Store(Path(index.path)).open().to_table(filter="document >= 0")
    order = [(name, "ascending") for name in ("file", "member", "level", "position")]
    return table.sort_by(order).drop_columns(["indexed", "key", "document"]).combine_chunks()


@dataclass(frozen=True)
class Experiment:
    """Libraries of the same files.

    Attributes:
        work: Where they are built; `work / "one"` is that of one process.
        files: The files.
        model: A checkpoint; None for the default model.
    """

    work: Path
    files: Path
    model: str | None

    def build(
        self, name: str, num_nodes: int, kill: Callable[[Any], None] | None = None, after: int = 0
    ) -> dict[str, Any]:
        """Build one on a cluster, of which a part is killed after so many files.

        If that succeeds, it is compared with the library of one process.
        """
        library = self.work / name
        with cluster(num_nodes) as nodes:
            at_file = None if kill is None else (after, partial(kill, nodes))
            result = run(library, self.files, self.model, nodes, at_file)
        return result if result["exit_code"] else result | compare(library, self.work / "one")


def parse_options() -> argparse.Namespace:
    parser = arguments.parser(__doc__, "data", "model", output=report.RESULTS / "cluster.json")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2], help="sizes of clusters")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.child:
        library, folder, address, num_nodes = options.child
        build(Path(library), Path(folder), address or None, int(num_nodes), options.model)
        return
    work = Path(tempfile.mkdtemp())
    files = work / "files"
    files.mkdir()
    write_files(files, options.data, options.documents)
    third = options.documents // 3
    interruptions: dict[str, tuple[Any, ...]] = {
        "worker_killed": ("worker", options.nodes[0], kill_worker, third),
        "node_killed": ("node", options.nodes[0], kill_node, third),
        "head_killed": ("head", options.nodes[0], kill_head, 2 * third),
        "head_restarted": ("head", options.nodes[0]),
    }
    results: dict[str, Any] = {"documents": options.documents, "clusters": []}
    planned = [*(f"{number} nodes" for number in options.nodes), *interruptions]

    def save(done: str) -> None:
        planned.remove(done)
        report.save(options.output, results, "ray", "pylance", missing=planned)

    experiment = Experiment(work, files, options.model)
    one = results["one_process"] = run(work / "one", files, options.model)
    for number in options.nodes:
        built = experiment.build(f"{number}-nodes", number) | {"nodes": number}
        built["speed_up"] = one["seconds"] / built["seconds"]
        built["speed_up_after_first_file"] = one["rest_s"] / built["rest_s"]
        results["clusters"].append(built)
        save(f"{number} nodes")
    for name, how in interruptions.items():
        results[name] = experiment.build(*how)
        save(name)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
