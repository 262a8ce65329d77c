"""Reading and encoding on a Ray cluster, for `Index.add`.

The driver, which is the process that calls `Index.add`, finds what has changed and is the only
process that writes to the library. A pool of workers reads and encodes the same units of files that
one process would, and what they return comes back in order, so that the library is the same: the
same documents under the same numbers, and the same vectors.

Ray replaces a worker that dies, and has it do its unit again; results that it had already returned
are not returned twice. A unit whose worker dies again and again is tried file by file, so that a
file that kills its reader is named and does not stop the rest.
"""

import logging
import os
import socket
import sys
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import foveate
from foveate.documents import DocumentError
from foveate.index.build import Job, Part, encode_unit
from foveate.index.identity import identify
from foveate.index.messages import messages, received
from foveate.index.reading import Done, File, Unit
from foveate.index.store import IN_MEMORY, ModelRecord
from foveate.inference import Encoder

if not find_spec("ray"):
    raise ImportError("a cluster needs Ray: run `pip install 'foveate[cluster]'`")

_MAX_RETRIES = 3
"""How often a unit is begun again after its worker has died."""

_PATIENCE = 10
"""Seconds in which a cluster must answer."""


class RayCluster:
    """A cluster whose machines read and encode the files of a library.

    All machines need the same version of foveate, and the files and the model at the same paths.
    The library's folder is only used by the process that adds files.

    If Ray is already initialized, that session is used, and continues afterwards.

    Args:
        address: Address of the cluster, such as "head:6379"; this machine must be part of it. By
            default the cluster that `RAY_ADDRESS` names or that this machine is part of or, if
            there is none, one that is started on this machine for as long as it takes.
        workers: Number of workers; by default as many as fit while leaving one CPU free.
        cpus_per_worker: CPUs of each, which are also its threads; may be a fraction.
        gpus_per_worker: GPUs of each; may be a fraction, for several workers on one.

    Raises:
        ValueError: A number is not positive, or the number of GPUs is negative.

    Example:
        >>> from foveate.index.ray import RayCluster
        >>> cluster = RayCluster(workers=8, gpus_per_worker=0.25)  # on two GPUs
        >>> cluster.workers
        8
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus_per_worker: float = 1,
        gpus_per_worker: float = 0,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers must be at least 1, got {workers}")
        if cpus_per_worker <= 0:
            raise ValueError(f"a worker needs more than {cpus_per_worker:g} CPUs: give it 1")
        if gpus_per_worker < 0:
            raise ValueError(f"a worker cannot have {gpus_per_worker:g} GPUs: give it 0, or 0.5")
        self.address = address
        self.workers = workers
        self.cpus_per_worker = cpus_per_worker
        self.gpus_per_worker = gpus_per_worker

    def __call__(self, job: Job, units: Iterator[Unit]) -> Iterator[Part]:
        """Read and encode units, and yield their parts in order.

        Raises:
            ConnectionError: No cluster answers at the address.
            ImportError: Ray Data is not installed.
            RuntimeError: A worker cannot load the model, or fails otherwise.
            ValueError: The cluster has no room for the workers, or they cannot load the model
                because it was never saved.
        """
        if job.model.name == IN_MEMORY:
            raise ValueError(
                "the workers of a cluster load the model by its name or path, and this one was "
                "never saved: save it where all of them can read it, and name that folder"
            )
        changed = list(units)
        if not changed:
            return  # so that no cluster is needed
        with _connected(self.address):
            yield from self._run(job, changed, self._count_workers())

    def _run(self, job: Job, units: Sequence[Unit], num_workers: int) -> Iterator[Part]:
        """Have units encoded; files whose workers die are tried again, each by itself."""
        lost: list[File] = []
        yield from self._encode(job, units, num_workers, lost)
        deadly: list[File] = []
        if lost:
            yield from self._encode(job, [[file] for file in lost], num_workers, deadly)
        for file in deadly:
            error = DocumentError(
                f"{file.name} ended every process that read or encoded it, most likely because "
                "memory was short: give each worker more, or leave the file out"
            )
            if job.stops_at_error:
                raise error
            yield Part(done=[Done(file.name, file.size, None)], failures=[(file.name, error)])

    def _encode(
        self, job: Job, units: Sequence[Unit], num_workers: int, lost: list[File]
    ) -> Iterator[Part]:
        """Have units encoded, and note the files that no worker survived.

        A unit is missing if no worker survived it, or if the machine that had encoded it was lost.
        Everything from there on is encoded again, so that the library becomes the same; a unit that
        is missing again must itself be the cause.
        """
        missing: Unit = []
        while units:
            units = yield from self._encode_in_order(job, units, num_workers)
            if units and units[0] == missing:
                lost += missing
                units = units[1:]
            elif units:
                missing = units[0]

    def _encode_in_order(
        self, job: Job, units: Sequence[Unit], num_workers: int
    ) -> Generator[Part, None, Sequence[Unit]]:
        """Have units encoded until one is missing, and return what is left."""
        expected = 0
        with closing(self._results(job, units, num_workers)) as results:
            for number, parts in groupby(results, itemgetter(0)):
                if number > expected:
                    break
                expected += 1
                done: set[str] = set()
                part = Part()
                for _, part in parts:
                    done.update(file.name for file in part.done)
                    yield part
                if not part.is_last:
                    yield Part(is_void=True)
                    rest = [file for file in units[number] if file.name not in done]
                    return [rest, *units[expected:]]
        return units[expected:]

    def _results(
        self, job: Job, units: Sequence[Unit], num_workers: int
    ) -> Generator[tuple[int, Part], None, None]:
        """Yield the parts of units with the units' numbers, in order."""
        import ray.data

        # Each unit is a block of its own, so that it is what is done again if a worker dies. The
        # blocks lie ready: nothing but the workers needs a CPU, and they may take all of them.
        items = [{"number": number, "unit": unit} for number, unit in enumerate(units)]
        blocks = ray.data.from_items(items, override_num_blocks=len(items))
        with warnings.catch_warnings():
            # Ray plans to rename this option, but no version has the new name yet.
            warnings.filterwarnings("ignore", ".*ray_remote_args. is deprecated")
            dataset = blocks.map_batches(
                _Worker,
                fn_constructor_args=(
                    job.model,
                    job.load_encoder().linear_dtype,
                    "cuda" if self.gpus_per_worker else "cpu",
                    job.stops_at_error,
                    dict(job.options),
                    foveate.__version__,
                ),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(
                    size=min(num_workers, len(items)),
                    max_tasks_in_flight_per_actor=1,  # no unit waits for a worker that is busy
                ),
                num_cpus=self.cpus_per_worker,
                num_gpus=self.gpus_per_worker,
                max_task_retries=_MAX_RETRIES,
            )
        dataset.context.execution_options.preserve_order = True
        dataset.context.enable_progress_bars = False
        dataset.context.print_on_execution_start = False
        dataset.context.max_errored_blocks = -1  # these are the units that are lost
        for row in dataset.iter_rows():
            yield row["number"], _explain_missing(received(row["result"]))

    def _count_workers(self) -> int:
        """Return the number of workers to start.

        Raises:
            ValueError: The cluster has no room for them.
        """
        import ray

        nodes = [
            node["Resources"]
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"]
        ]
        size = f"{self.cpus_per_worker:g} CPUs"
        if self.gpus_per_worker:
            size += f" and {self.gpus_per_worker:g} GPUs"
        room = sum(self._room(node) for node in nodes)
        if not room:
            cpus = max(node.get("CPU", 0) for node in nodes)
            gpus = max(node.get("GPU", 0) for node in nodes)
            raise ValueError(
                f"no machine of the cluster has room for a worker of {size}: the largest has "
                f"{cpus:g} CPUs and {gpus:g} GPUs"
            )
        if self.workers is not None and self.workers > room:
            raise ValueError(
                f"the cluster has room for {room} workers of {size}, not for {self.workers}: ask "
                "for fewer or smaller ones, or add machines"
            )
        free = self._room(ray.available_resources())  # type: ignore[no-untyped-call]
        if not free:
            raise ValueError(
                f"the whole cluster is in use, and no worker of {size} could start: wait until "
                "other jobs have ended, or add machines"
            )
        if self.workers is not None:
            return self.workers
        cpus = sum(node.get("CPU", 0) for node in nodes)
        return max(1, min(room, free, int((cpus - 1) / self.cpus_per_worker)))

    def _room(self, resources: dict[str, float]) -> int:
        """Return the number of workers that fit into some resources."""
        rooms = [int(resources.get("CPU", 0) / self.cpus_per_worker)]
        if self.gpus_per_worker:
            rooms.append(int(resources.get("GPU", 0) / self.gpus_per_worker))
        return min(rooms)


class _Worker:
    """Encodes units in a process of the cluster.

    The model is loaded with the first unit, so that what is wrong with it can be returned.

    Args:
        model: What identifies the model.
        dtype: Dtype of its linear layers.
        device: Where it runs.
        stops_at_error: See `Job`.
        options: See `Job`.
        version: The driver's version of foveate.
    """

    def __init__(
        self,
        model: ModelRecord,
        dtype: torch.dtype,
        device: str,
        stops_at_error: bool,
        options: Mapping[str, Any],
        version: str,
    ) -> None:
        self._model = model
        self._dtype = dtype
        self._device = device
        self._stops_at_error = stops_at_error
        self._options = options
        self._version = version
        self._job: Job | None = None

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Encode the one unit of a batch, and return its parts or what went wrong."""
        [number], [unit] = batch["number"], batch["unit"]
        for message in messages(self._encode(unit)):
            column = np.empty(1, dtype=object)
            column[0] = message
            yield {"number": np.array([number]), "result": column}

    def _encode(self, unit: Unit) -> Iterator[Part]:
        if self._job is None:
            self._job = self._load()
        yield from encode_unit(self._job, unit)

    def _load(self) -> Job:
        where = socket.gethostname()
        if foveate.__version__ != self._version:
            raise RuntimeError(
                f"{where} has foveate {foveate.__version__}, and the library is written by "
                f"{self._version}: install the same version on all machines"
            )
        encoder = Encoder.from_pretrained(
            self._model.name,
            **self._model.loading,
            device=self._device,
            dtype=self._dtype,
        )
        if identify(encoder).sha256 != self._model.sha256:
            raise ValueError(
                f"{where} has weights of {self._model.name or 'the default model'} that differ "
                "from those on the machine that writes the library: give all machines the same"
            )
        return Job(lambda: encoder, self._model, self._stops_at_error, self._options)


def _explain_missing(part: Part) -> Part:
    """Explain what is wrong with files that only the driver can see."""
    failures = [
        (
            name,
            FileNotFoundError(
                f"{name} is not there on every machine of the cluster: put files where all of "
                "them find them at the same path"
            )
            if isinstance(error, FileNotFoundError) and Path(name).exists()
            else error,
        )
        for name, error in part.failures
    ]
    return replace(part, failures=failures)


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, unless Ray is initialized already."""
    # What Ray has to say is in its own logs, /tmp/ray/session_latest/logs.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    try:
        import ray.data
    except ImportError as error:
        raise ImportError(
            "a cluster needs Ray Data: run `pip install 'foveate[cluster]'`"
        ) from error
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    if ray.is_initialized():
        yield
        return
    try:
        if address is not None and address != "auto":
            _knock(address)
        with warnings.catch_warnings(), _without_stderr():
            warnings.filterwarnings("ignore", "lance is not fork-safe")  # only Ray itself is forked
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except OSError as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address or os.environ.get('RAY_ADDRESS')}: start one "
            "with `ray start --head`, or leave the address out for one on this machine"
        ) from error
    has_ended = Event()
    head = ray.get_runtime_context().gcs_address
    Thread(target=_watch, args=(head, has_ended), daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
        ray.shutdown()


def _watch(head: str, has_ended: Event, seconds: float = _PATIENCE) -> None:
    """Warn if the head of the cluster is gone: Ray ends this process a minute later, silently."""
    while not has_ended.wait(seconds):
        try:
            _knock(head)
        except OSError:
            warnings.warn(
                f"the head of the Ray cluster, {head}, does not answer, and Ray ends this process "
                "if that lasts for a minute: the library is as it was at the last commit; start "
                "the cluster, and then run the same command again, which continues from there",
                stacklevel=1,
            )
            return


def _knock(address: str) -> None:
    """Check that something answers at an address, which Ray would keep trying for minutes.

    Raises:
        OSError: Nothing answers.
        ValueError: The address is not one of a cluster that this machine is part of.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()) or "/" in host:
        raise ValueError(
            f"the address of a cluster is HOST:PORT, got {address}: use one that `ray start` "
            "printed, on a machine of the cluster"
        )
    socket.create_connection((host, int(port)), _PATIENCE).close()


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what libraries in C++ write to standard error: Ray greets with its log level."""
    sys.stderr.flush()
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
